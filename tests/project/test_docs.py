"""The pages in docs/ and the READMEs name what is there, and what pages of docs/ show is what happens.

After a deliberate change: `python tests/project/test_docs.py` updates the outputs shown in docs/; read the diff.
"""

import re
import sys
import tempfile
from pathlib import Path

import pytest

from helpers import pages
from helpers.places import ROOT

DOCS = sorted((ROOT / "docs").rglob("*.md"))
SKIPPED = {".git", ".venv", ".venv-torch", "node_modules", "demo", "site", "fuzz", "build", "dist"}
EVERY = sorted(
    path for path in ROOT.rglob("*.md") if not SKIPPED.intersection(path.relative_to(ROOT).parts) and path.is_file()
)
GENERATED = {"reference/api.md", "reference/commands.md"}  # by `make docs`

each_page = pytest.mark.parametrize("page", DOCS, ids=lambda page: str(page.relative_to(ROOT / "docs")))
each_file = pytest.mark.parametrize("page", EVERY, ids=lambda page: str(page.relative_to(ROOT)))


@each_page
def test_what_a_page_shows_is_what_happens(page, tmp_path):
    pages.run(page.read_text(encoding="utf-8"), tmp_path)


def test_the_semantics_are_shown_by_examples():
    text = (ROOT / "docs" / "semantics.md").read_text(encoding="utf-8")
    rules = [part for part in re.split(r"^## ", text, flags=re.MULTILINE)[2:] if "not modelled" not in part]
    assert len(rules) >= 12
    assert [part.partition("\n")[0] for part in rules if ">>> " not in part] == []


def slugs(text):
    """The anchors of a page: of its headings, as MkDocs and as code hosts make them, which must be the same."""
    found = set()
    for heading in re.findall(
        r"^#+ (.*)$", re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL), re.MULTILINE
    ):
        plain = re.sub(r"[`*]|\]\([^)]*\)|\[", "", heading).strip().lower()
        kept = re.sub(r"[^\w\s-]", "", plain)
        assert re.sub(r"[-\s]+", "-", kept) == kept.replace(" ", "-"), f"anchors of {heading!r} differ between hosts"
        found.add(kept.replace(" ", "-"))
    return found


def links(page):
    """The links of a page within the repository, as (path, anchor)."""
    text = re.sub(r"^```.*?^```$|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    targets = re.findall(r"\]\(([^)\s]+)\)", text)
    for target in targets:
        if not re.match(r"[a-z]+:", target):
            path, _, anchor = target.partition("#")
            yield target, (page.parent / path).resolve() if path else page, anchor


@each_file
def test_every_link_leads_somewhere(page):
    missing = []
    for target, path, anchor in links(page):
        if page.is_relative_to(ROOT / "docs") and target.split("#")[0] in GENERATED:
            continue
        if not path.exists() or (anchor and anchor not in slugs(path.read_text(encoding="utf-8"))):
            missing.append(target)
    assert not missing


@each_file
def test_every_make_target_is_one(page):
    known = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert set(re.findall(r"`make ([a-z-]+)", page.read_text(encoding="utf-8"))) <= known


def test_the_index_links_to_every_page():
    index = ROOT / "docs" / "README.md"
    reached = {path for _, path, _ in links(index)}
    assert [str(page) for page in DOCS if page != index and page not in reached] == []


# --- the runner of pages ---------------------------------------------------------------------------------------------


def test_a_wrong_output_fails(tmp_path):
    with pytest.raises(AssertionError, match="Got"):
        pages.run("```pycon\n>>> 1 + 1\n3\n```\n", tmp_path)
    with pytest.raises(AssertionError, match="pipesim"):
        pages.run("```console\n$ pipesim --version\npipesim, version 0\n```\n", tmp_path)
    with pytest.raises(AssertionError, match="exit code 2"):
        pages.run("```console\n$ pipesim no-such-command\n```\n", tmp_path)


def test_sessions_of_a_page_share_names_and_files(tmp_path):
    page = """
```text title="a/b.txt"
x
```
```pycon
>>> from pathlib import Path
```
```pycon
>>> Path("a/b.txt").read_text()
'x\\n'
```
"""
    assert pages.run(page, tmp_path) == 2


def test_outputs_are_updated_but_where_lines_are_left_out(tmp_path):
    page = "```pycon\n>>> 1 + 1\n3\n```\n```console\n$ pipesim --version\nold\n$ pipesim --help\nUsage...\n...\n```\n"
    now = pages.rewritten(page, tmp_path)
    assert ">>> 1 + 1\n2\n" in now
    assert "old" not in now
    assert "$ pipesim --help\nUsage...\n...\n" in now


if __name__ == "__main__":
    for shown in [Path(name) for name in sys.argv[1:]] or DOCS:
        with tempfile.TemporaryDirectory() as folder:
            shown.write_text(pages.rewritten(shown.read_text(encoding="utf-8"), Path(folder)), encoding="utf-8")
