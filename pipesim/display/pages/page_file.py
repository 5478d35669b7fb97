"""A page of charts and tables as one HTML file."""

import base64
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from importlib import resources
from pathlib import Path

import orjson

from pipesim.base import files
from pipesim.base.errors import InputError
from pipesim.core.timeline import Timeline
from pipesim.display.pages.chart_columns import packed
from pipesim.display.pages.edited_schedules import editing_data

SUFFIXES = (".html", ".htm")
_LONG = 24  # characters of a cell; above, it is text and begins at the left
_MANY = 20  # rows of a table; with more, it scrolls, so that what follows can be found
_LEVEL = 6  # of deflate: higher ones take twice as long and save a few per cent


@dataclass(frozen=True)
class PageTable:
    """A table, or facts, where it has no headers; the first `left` columns are names."""

    title: str
    headers: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""
    left: int = 1


@dataclass(frozen=True)
class Page:
    """What a page shows: facts, charts by name, tables.

    With `editable`, the schedule of the first chart is edited; with `beside`, it opens with the second beside it.
    """

    title: str
    subtitle: str = ""
    facts: Sequence[tuple[str, str]] = ()
    charts: Mapping[str, Timeline] = field(default_factory=dict)
    tables: Sequence[PageTable] = ()
    notes: Sequence[str] = ()
    editable: bool = False
    beside: bool = False


def check_path(path: Path | str) -> None:
    """Refuse a name that is not that of a page."""
    if not str(path).lower().endswith(SUFFIXES):
        raise InputError(f"{path}: cannot be written; a file name ending in {' or '.join(SUFFIXES)} was expected")


def write(page: Page, path: Path | str) -> None:
    """Write a page, whole or not at all."""
    check_path(path)
    files.write_text(Path(path), html(page))


def html(page: Page) -> str:
    """The page as HTML, with its data, style and program inside."""
    return "".join(_pieces(page))


def _pieces(page: Page) -> Iterator[str]:
    charts = [packed(name, timeline) for name, timeline in page.charts.items()]
    editing = editing_data(next(iter(page.charts.values()))) if page.editable and page.charts else None
    head = {"charts": [chart.head for chart in charts], "editing": editing, "beside": page.beside and len(charts) > 1}
    yield _HEAD.format(title=escape(page.title), style=_asset("page.css"))
    yield f"<header><h1>{escape(page.title)}</h1>"
    if page.subtitle:
        yield f"<p>{escape(page.subtitle)}</p>"
    yield from _facts(page.facts)
    yield from (f'<p class="note">{escape(note)}</p>' for note in page.notes)
    yield "</header>\n<main>"
    if charts:
        yield '<section id="chart" aria-label="timeline"></section>\n'
    yield _data("head", orjson.dumps(head))
    yield from (_data(f"coarse{n}", chart.coarse) for n, chart in enumerate(charts))
    yield f"<script>\n{program()}</script>\n" if charts else ""
    yield from (_data(f"columns{n}", chart.columns) for n, chart in enumerate(charts))
    for table in page.tables:
        yield from _table(table)
    yield "</main></body></html>\n"


# No connection is allowed; scripts and styles are those in the file.
_HEAD = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>
{style}</style></head>
<body>
"""


_PARTS = ("data", "rows", "painting", "annotations", "looking", "comparing", "editing", "controls")


def program() -> str:
    """What runs in the browser: the files of `program` in this order, as one function, so that no name is global."""
    parts = "\n".join(_asset(f"program/{part}.js") for part in _PARTS)
    return f'"use strict";\n(() => {{\n{parts}}})();\n'


def _asset(name: str) -> str:
    return (resources.files("pipesim.display.pages") / name).read_text(encoding="utf-8")


def _data(name: str, content: bytes) -> str:
    """Bytes as text that the page inflates."""
    text = base64.b64encode(zlib.compress(content, _LEVEL)).decode()
    return f'<script type="text/plain" id="{name}">{text}</script>\n'


def _facts(facts: Sequence[tuple[str, str]]) -> Iterator[str]:
    if facts:
        yield '<dl class="facts">'
        yield from (f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in facts)
        yield "</dl>"


def _table(table: PageTable) -> Iterator[str]:
    yield f'<section class="table"><h2>{escape(table.title)}</h2>'
    if table.note:
        yield f"<p>{escape(table.note)}</p>"
    many = f' many" tabindex="0" role="region" aria-label="{escape(table.title)}' if len(table.rows) > _MANY else ""
    yield f'<div class="scroll{many}"><table>'
    if table.headers:
        name = " class=name"
        cells = "".join(
            f'<th scope="col"{name if n < table.left else ""}>{escape(cell)}</th>'
            for n, cell in enumerate(table.headers)
        )
        yield f"<thead><tr>{cells}</tr></thead>"
    yield "<tbody>"
    for row in table.rows:
        yield "<tr>" + "".join(_cell(text, n, table.left) for n, text in enumerate(row)) + "</tr>"
    yield "</tbody></table></div></section>\n"


def _cell(text: str, column: int, left: int) -> str:
    if column == 0:
        return f'<th scope="row">{escape(text)}</th>'
    return f"<td{' class=name' if column < left or len(text) > _LONG else ''}>{escape(text)}</td>"
