"""What faster devices or links would save, as text."""

from collections.abc import Mapping
from typing import Any

from pipesim.display.text.formatting import percent, seconds, table


def gains(data: Mapping[str, Any], most: int = 15) -> str:
    """The first thing to do in a sentence, then the iteration time with each device, link or layer made faster.

    Of layers that are equal only all together are shown.
    """
    found, by = [row for row in data["gains"] if not row.get("group")], data["by"]
    rows = [
        [row["what"], row["name"], seconds(row["iteration_time_s"]), f"{100 * row['gain']:.2f} %"]
        for row in found[:most]
    ]
    head = f"iteration time {seconds(data['iteration_time_s'])}; each thing {100 * by:g} % faster"
    best = f"\n{first_thing(data)}"
    more = f"\n... and {len(found) - most} more" if len(found) > most else ""
    return f"{head}{best}\n\n{table(['what', 'name', 'iteration', 'saved'], rows, left=2)}{more}"


def run_changes(data: Mapping[str, Any], most: int = 15) -> str:
    """The mean step of a recorded run with each change; `data` has the recorded mean and the changes.

    What was asked for, another schedule or cut, is shown wherever it ranks.
    """
    found = data["gains"]
    shown = [row for n, row in enumerate(found) if n < most or row["what"] in {"schedule", "cut", "plan"}]
    rows = [[row["what"], row["name"], seconds(row["iteration_time_s"]), f"{100 * row['gain']:.2f} %"] for row in shown]
    more = f"\n... and {len(found) - len(shown)} more" if len(found) > len(shown) else ""
    head = f"recorded steps take {seconds(data['iteration_time_s'])} (mean)"
    assumed = next((row["assumes"] for row in found if row.get("assumes")), "")
    notes = f"\nother cuts: {assumed}; memory is not looked at" if assumed else ""
    return f"{head}\n\n{table(['what', 'change', 'step', 'saved'], rows, left=2)}{more}{notes}"


def first_thing(data: Mapping[str, Any]) -> str:
    """The first thing to do, in a sentence; `data` is that of `pipesim whatif --json`."""
    found = [row for row in data["gains"] if not row.get("group") and row["gain"] > 0]
    if not found:
        return f"nothing of this alone makes the iteration shorter when it is {100 * data['by']:g} % faster"
    gain = found[0]
    subject = gain["name"] if gain["what"] == "device" or " x " in gain["name"] else f"{gain['what']} {gain['name']}"
    if gain["name"].startswith("all of "):
        subject = f"links of {gain['name'].removeprefix('all of ')}"
    less = ", or give it less work" if gain["what"] == "device" else ""
    saved = f"by {100 * data['by']:g} %, that saves {percent(gain['gain'])} of the iteration"
    return f"first make {subject} faster{less}: {saved}"
