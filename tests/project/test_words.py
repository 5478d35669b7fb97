"""Code and pages are in plain English: the words to avoid are in a table of CONTRIBUTING.md."""

import io
import json
import re
import tokenize

import pytest

from helpers.places import ROOT

KINDS = {".py", ".md", ".toml", ".ipynb", ".yml", ".c", ".cff", ""}
ROOTS = ("pipesim", "docs", "experiments", "notebooks", "benchmarks", "traces")


def words():
    """What to avoid -> what to write."""
    table = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("<!-- words: begin -->")[2]
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", table.partition("<!-- words: end -->")[0], re.MULTILINE)
    return {phrase.strip(): instead for avoided, instead in rows[1:] for phrase in avoided.split(",")}


def pattern(phrase):
    """The phrase in any case, as a part of a name too, and over the end of a line; not as a method, as of files."""
    space = r"[\s_]+(?:#\s*)?"
    return re.compile(rf"(?<![A-Za-z.]){space.join(map(re.escape, phrase.split()))}(?![A-Za-z])", re.IGNORECASE)


def files():
    """Every file of code and text but tests, which quote."""
    inside = (path for root in ROOTS for path in sorted((ROOT / root).rglob("*")))
    for path in (*sorted(ROOT.iterdir()), *inside):
        if path.is_file() and path.suffix in KINDS and "_traces" not in path.parts and path.stat().st_size < 1e6:
            yield path


def text_of(path):
    """What people read of a file; of a notebook its sources, without the list of words itself."""
    text = path.read_text(encoding="utf-8", errors="replace")
    if path.suffix == ".ipynb":
        return "\n\n".join("".join(cell["source"]) for cell in json.loads(text)["cells"])
    return re.sub(r"<!-- words: begin -->.*<!-- words: end -->", "", text, flags=re.DOTALL)


def names(text):
    """The identifiers of Python code, with their lines; attributes may be those of other libraries."""
    before = ""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.NAME and before != ".":
            yield token.string, token.start[0]
        before = token.string


def uses(text, phrases, *, is_code):
    """Where phrases are used, as (line, phrase)."""
    found, lower = [], text.lower()
    for phrase in phrases:
        # Few texts have the first word, and searching for a pattern takes long.
        if not phrase.startswith("`") and phrase.partition(" ")[0].lower() in lower:
            found += [(text.count("\n", 0, hit.start()) + 1, phrase) for hit in pattern(phrase).finditer(text)]
    if is_code and any(phrase.strip("`") in text for phrase in phrases if phrase.startswith("`")):
        found += [(line, f"`{name}`") for name, line in names(text) if f"`{name}`" in phrases]
    return found


def test_the_list_of_words_is_read():
    assert words()["anew"] == "again"
    assert len(words()) > 10


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a slip\n    # of the pen", [(1, "slip of the pen")]),
        ("\ntold = 1", [(2, "told")]),
        ("def _told_user(): pass", [(1, "told")]),
        ("Sea = turns", [(1, "`Sea`"), (1, "`turns`")]),
        ("x = 'it turns at sea'  # Roads", []),
        ("x = 'controlled, stance'", []),
    ],
)
def test_words_are_found_in_names_and_over_lines(text, found):
    assert uses(text, words(), is_code=True) == found


def test_no_word_to_avoid_is_used():
    phrases, found = words(), []
    for path in files():
        where = path.relative_to(ROOT)
        for line, phrase in uses(text_of(path), phrases, is_code=path.suffix == ".py"):
            found.append(f"{where}:{line}: {phrase}; write: {phrases[phrase]}")
    assert not found, "\n".join(found)
