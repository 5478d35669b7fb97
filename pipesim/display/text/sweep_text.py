"""Sweeps as text: their state, their points, their rows, and damage to their results."""

from collections.abc import Mapping, Sequence
from typing import Any

from pipesim.display.text.columns import TextColumn, TextTable, shown
from pipesim.display.text.formatting import facts
from pipesim.display.text.terminal import PLAIN, Terminal

ROWS_SHOWN = 50  # a terminal shows so many; files and JSON have all


_STATUS = (
    TextColumn("experiment", "experiment", on_left=True),
    TextColumn("points", "points", "{:,}".format),
    TextColumn("done", "done", "{:,}".format),
    TextColumn("left", "left", "{:,}".format),
    TextColumn("failed", "failed", "{:,}".format),
    TextColumn("last minute", "per_second", "{:.3g}/s".format, drop=1),
    TextColumn("last result", "age", drop=2),
)


def sweep_status(data: Sequence[Mapping[str, Any]], on: Terminal = PLAIN) -> str:
    """One line per experiment; each of `data` is that of `pipesim sweep --status --json`."""
    red = [n for n, one in enumerate(data) if one["failed"]]
    hint = "\nwhy points failed: pipesim rows FILE --query 'error is not null'"
    return shown(*status_table(data), on, red=red) + (hint if red else "")


def status_table(data: Sequence[Mapping[str, Any]]) -> TextTable:
    """The state of experiments as a table."""
    return TextTable(_STATUS, [{**one, "age": _age(one)} for one in data])


def _age(data: Mapping[str, Any]) -> str:
    if data["clock_ahead_s"]:
        return f"dated {clock(data['clock_ahead_s'])} ahead of this clock"
    return "-" if data["last_result_s"] is None else f"{clock(data['last_result_s'])} ago"


def clock(seconds: float) -> str:
    """Hours (if any), minutes and seconds: 1:02:03 or 2:03."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def rows_columns(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[TextColumn]:
    """The columns of results; a column of errors only if there are any."""
    return [
        TextColumn(name, name, _cell)
        for i, name in enumerate(columns)
        if name != "error" or any(row[i] is not None for row in rows)
    ]


def sweep_rows(
    columns: Sequence[str], rows: Sequence[Sequence[Any]], most: int = ROWS_SHOWN, on: Terminal = PLAIN
) -> str:
    """The first rows as a table; those whose memory does not suffice are red."""
    records = [dict(zip(columns, row, strict=True)) for row in rows[:most]]
    red = [n for n, row in enumerate(records) if row.get("fits_memory") == 0]
    more = f"\n... and {len(rows) - most:,} more rows; all of them with --csv FILE" if len(rows) > most else ""
    return shown(rows_columns(columns, rows), records, on, red=red) + more


def shown_cells(rows: Sequence[Sequence[Any]]) -> list[list[str]]:
    """The cells of rows as text."""
    return [[_cell(value) for value in row] for row in rows]


def _cell(value: Any) -> str:  # noqa: ANN401 - a number, text or None
    if isinstance(value, float):
        return f"{value:.5g}"
    return "-" if value is None else str(value)


def sweep_points(head: Sequence[tuple[str, str]], points: Mapping[int, Mapping[str, Any]], left: int = 0) -> str:
    """The properties of an experiment, then its first points, and how many more there are."""
    parts = [
        f"point {number}\n{facts((name, str(value)) for name, value in p.items())}" for number, p in points.items()
    ]
    more = [f"... and {left:,} more points"] if left else []
    return "\n\n".join([facts(head), *parts, *more])
