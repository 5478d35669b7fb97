"""What faster devices or links would save, as text."""

from collections.abc import Mapping, Sequence
from typing import Any

from pipesim.display.text.columns import TextColumn, shown
from pipesim.display.text.formatting import percent, seconds, wrapped
from pipesim.display.text.terminal import PLAIN, Terminal

Row = Mapping[str, Any]


def gains_columns(change: str = "name", time: str = "iteration") -> list[TextColumn]:
    """The columns of gains; `change` heads their names, `time` what is shorter."""
    return [
        TextColumn("what", "what", on_left=True),
        TextColumn(change, "name", on_left=True),
        TextColumn(time, "iteration_time_s", seconds),
        TextColumn("saved", "gain", lambda gain: f"{100 * gain:.2f} %"),
    ]


def run_columns() -> list[TextColumn]:
    """The columns of changes of a recorded run."""
    return gains_columns("change", "step")


def listed_gains(data: Mapping[str, Any]) -> list[Row]:
    """The gains that tables have: of layers that are equal only all together."""
    return [row for row in data["gains"] if not row.get("group")]


def gains(data: Mapping[str, Any], most: int = 15, on: Terminal = PLAIN, rows: Sequence[Row] | None = None) -> str:
    """The first thing to do in a sentence, then the iteration time with each device, link or layer made faster.

    `rows` are those of `listed_gains` that are shown, where it is not all.
    """
    head = f"iteration time {on.bold(seconds(data['iteration_time_s']))}; each thing {100 * data['by']:g} % faster"
    found = listed_gains(data) if rows is None else rows
    table = _listed(gains_columns(), found, most, on, _greatest(data))
    return f"{head}\n{wrapped(first_thing(data), on)}\n\n{table}"


def run_changes(
    data: Mapping[str, Any], most: int = 15, on: Terminal = PLAIN, rows: Sequence[Row] | None = None
) -> str:
    """The mean step of a recorded run with each change; `data` has the recorded mean and the changes.

    What was asked for, another schedule or cut, is shown wherever it ranks.
    """
    head = f"recorded steps take {on.bold(seconds(data['iteration_time_s']))} (mean)"
    found = data["gains"] if rows is None else rows
    asked = [row for n, row in enumerate(found) if n < most or row["what"] in {"schedule", "cut", "plan"}]
    more = f"\n... and {len(found) - len(asked)} more" if len(found) > len(asked) else ""
    assumed = next((row["assumes"] for row in found if row.get("assumes")), "")
    notes = "\n" + wrapped(f"other cuts: {assumed}; memory is not looked at", on) if assumed else ""
    return f"{head}\n\n{_listed(run_columns(), asked, len(asked), on, _greatest(data))}{more}{notes}"


def _greatest(data: Mapping[str, Any]) -> float:
    return max((row["gain"] for row in data["gains"]), default=0.0)


def _listed(columns: Sequence[TextColumn], rows: Sequence[Row], most: int, on: Terminal, greatest: float) -> str:
    """The first rows, the greatest gain bold, and how many there are beside them."""
    best = [n for n, row in enumerate(rows[:most]) if row["gain"] == greatest > 0][:1]
    more = f"\n... and {len(rows) - most} more" if len(rows) > most else ""
    return shown(columns, rows[:most], on, best) + more


def first_thing(data: Mapping[str, Any]) -> str:
    """The first thing to do, in a sentence; `data` is that of `pipesim whatif --json`."""
    found = [row for row in listed_gains(data) if row["gain"] > 0]
    if not found:
        return f"nothing of this alone makes the iteration shorter when it is {100 * data['by']:g} % faster"
    gain = found[0]
    subject = gain["name"] if gain["what"] == "device" or " x " in gain["name"] else f"{gain['what']} {gain['name']}"
    if gain["name"].startswith("all of "):
        subject = f"links of {gain['name'].removeprefix('all of ')}"
    less = ", or give it less work" if gain["what"] == "device" else ""
    saved = f"by {100 * data['by']:g} %, that saves {percent(gain['gain'])} of the iteration"
    return f"first make {subject} faster{less}: {saved}"
