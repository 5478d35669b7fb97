"""Pages as files: whole, escaped, and with nothing from elsewhere."""

import re
from dataclasses import replace
from importlib import resources

import pytest

from helpers.networks import pipeline
from pipesim.base.errors import InputError
from pipesim.display import pages
from pipesim.display.pages import page_file
from pipesim.engines.event import run


@pytest.fixture(scope="module")
def page():
    timeline = run(pipeline([10, 10], [20, 20], 3, "gpipe"))
    table = pages.PageTable("<b>", ["a", "b"], [["<script>", "1 & 2"]], "a note")
    return pages.Page("a < b", "of", [("iteration", "1 s")], {"</script>": timeline}, [table], ["noted"], editable=True)


def test_names_are_escaped_and_nothing_is_fetched(page):
    text = pages.html(page)
    assert "<title>a &lt; b</title>" in text
    assert '<th scope="row">&lt;script&gt;</th><td>1 &amp; 2</td>' in text
    assert text.count("</script>") == text.count("<script")
    assert "default-src 'none'" in text
    assert not re.search(r"""<[a-z]+ [^>]*(src|href)\s*=|url\(|https?://|@import|fetch\(""", text)


def test_the_same_page_is_the_same_bytes(page, tmp_path):
    pages.write(page, tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == pages.html(page)


def test_a_page_without_a_chart_has_no_program():
    text = pages.html(pages.Page("tables", tables=[pages.PageTable("t", [], [["a", "b"]])]))
    assert "</table>" in text
    assert "<script>" not in text


@pytest.mark.parametrize("name", ["page.png", "page", "page.html.gz"])
def test_another_suffix_is_refused(page, tmp_path, name):
    with pytest.raises(InputError, match=r"a file name ending in \.html or \.htm was expected"):
        pages.write(page, tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_every_file_of_the_program_is_in_it_once():
    folder = resources.files("pipesim.display.pages") / "program"
    texts = [file.read_text(encoding="utf-8") for file in folder.iterdir() if file.name.endswith(".js")]
    assert texts
    assert [page_file.program().count(text) for text in texts] == [1] * len(texts)


def test_headers_of_names_are_aligned_as_the_names_below_them(page):
    table = pages.PageTable("t", ["what", "name", "time"], [["a", "b", "1 s"]], left=2)
    shown = pages.html(replace(page, tables=[table]))
    assert '<th scope="col" class=name>name</th><th scope="col">time</th>' in shown


def test_long_tables_scroll_and_have_a_name():
    """Below a table of 80 links nothing was found; a region that scrolls is reached by keys and needs a name."""
    short, long = (pages.PageTable("links", ["a"], [["b"]] * count) for count in (20, 21))
    found = pages.html(pages.Page("page", tables=[short, long]))
    assert found.count(' many" tabindex="0" role="region" aria-label="links"') == 1
