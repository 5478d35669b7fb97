"""Tables of records for other programs: CSV with plain numbers, Markdown and LaTeX with what a terminal shows."""

import csv
import io
from collections.abc import Sequence
from typing import Any

from pipesim.display.text.columns import Record, TextColumn, cells, flat

_ESCAPES = {
    "\\": r"\textbackslash{}",
    **{character: f"\\{character}" for character in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
}


def csv_of(records: Sequence[Record]) -> str:
    """All fields as columns, those within fields with a dot; numbers read back exactly, what is missing is empty."""
    rows = [flat(record) for record in records]
    names = list(dict.fromkeys(name for row in rows for name in row))
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([_plain(row.get(name)) for name in names] for row in rows)
    return out.getvalue()


def _plain(value: Any) -> Any:  # noqa: ANN401 - a number, text or None
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else value


def markdown_of(columns: Sequence[TextColumn], records: Sequence[Record]) -> str:
    """A table as GitHub and others show it."""
    rules = [":---" if one.on_left else "---:" for one in columns]
    lines = [[one.header for one in columns], rules, *cells(columns, records)]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)


def latex_of(columns: Sequence[TextColumn], records: Sequence[Record]) -> str:
    """A tabular for the package booktabs."""
    aligned = "".join("l" if one.on_left else "r" for one in columns)
    head, *rows = (
        f"  {' & '.join(map(_escaped, line))} \\\\"
        for line in [[one.header for one in columns], *cells(columns, records)]
    )
    above, below = [f"\\begin{{tabular}}{{{aligned}}}", "  \\toprule", head, "  \\midrule"], ["  \\bottomrule"]
    return "\n".join([*above, *rows, *below, "\\end{tabular}", ""])


def _escaped(text: str) -> str:
    return "".join(_ESCAPES.get(character, character) for character in text)
