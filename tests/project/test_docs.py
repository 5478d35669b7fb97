"""What the pages in docs/ name is there."""

import re

import pytest

from helpers.places import ROOT

PAGES = [*sorted((ROOT / "docs").glob("*.md")), ROOT / "CONTRIBUTING.md"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_of_a_page_leads_to_a_file(page):
    targets = re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8"))
    assert targets or page.parent.name == "docs"
    assert not [target for target in targets if not (page.parent / target).exists()]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_make_target_of_a_page_is_one(page):
    known = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert set(re.findall(r"`make ([a-z-]+)", page.read_text(encoding="utf-8"))) <= known


def test_the_index_names_every_page():
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    assert [
        page.name
        for page in PAGES
        if page.parent.name == "docs" and page.name != "README.md" and page.name not in index
    ] == []
