"""Sweeps as text: their state, their points, their rows, and damage to their results."""

from collections.abc import Mapping, Sequence
from typing import Any

from pipesim.display.text.formatting import facts, table

ROWS_SHOWN = 50  # a terminal shows so many; files and JSON have all


def sweep_status(data: Sequence[Mapping[str, Any]]) -> str:
    """One line per experiment; each of `data` is that of `pipesim sweep --status --json`."""
    lines = [
        [
            one["experiment"],
            *(f"{one[name]:,}" for name in ("points", "done", "left", "failed")),
            f"{one['per_second']:.3g}/s",
            _age(one),
        ]
        for one in data
    ]
    shown = table(["experiment", "points", "done", "left", "failed", "last minute", "last result"], lines)
    hint = "\nwhy points failed: pipesim rows FILE --query 'error is not null'"
    return shown + (hint if any(one["failed"] for one in data) else "")


def _age(data: Mapping[str, Any]) -> str:
    if data["clock_ahead_s"]:
        return f"dated {clock(data['clock_ahead_s'])} ahead of this clock"
    return "-" if data["last_result_s"] is None else f"{clock(data['last_result_s'])} ago"


def clock(seconds: float) -> str:
    """Hours (if any), minutes and seconds: 1:02:03 or 2:03."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def sweep_rows(columns: Sequence[str], rows: Sequence[Sequence[Any]], most: int = ROWS_SHOWN) -> str:
    """The first rows as a table; a column of errors only if there are any."""
    kept = [i for i, name in enumerate(columns) if name != "error" or any(row[i] is not None for row in rows)]
    shown = table([columns[i] for i in kept], [[_cell(row[i]) for i in kept] for row in rows[:most]], left=0)
    more = f"\n... and {len(rows) - most:,} more rows; all of them with --csv FILE" if len(rows) > most else ""
    return shown + more


def shown_cells(rows: Sequence[Sequence[Any]]) -> list[list[str]]:
    """The cells of rows as text."""
    return [[_cell(value) for value in row] for row in rows]


def _cell(value: Any) -> str:  # noqa: ANN401 - a number, text or None
    if isinstance(value, float):
        return f"{value:.5g}"
    return "-" if value is None else str(value)


def sweep_points(head: Sequence[tuple[str, str]], points: Mapping[int, Mapping[str, Any]]) -> str:
    """The properties of an experiment, then its first points."""
    parts = [
        f"point {number}\n{facts((name, str(value)) for name, value in p.items())}" for number, p in points.items()
    ]
    return "\n\n".join([facts(head), *parts])
