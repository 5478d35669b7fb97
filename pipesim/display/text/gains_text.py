"""What faster devices or links would save, as text."""

from collections.abc import Mapping
from typing import Any

from pipesim.display.text.formatting import percent, seconds, table


def gains(data: Mapping[str, Any], most: int = 15) -> str:
    """The iteration time with each device or link made faster: the greatest gain in a sentence, then a table."""
    found, by = data["gains"], data["by"]
    rows = [
        [row["what"], row["name"], seconds(row["iteration_time_s"]), f"{100 * row['gain']:.2f} %"]
        for row in found[:most]
    ]
    head = f"iteration time {seconds(data['iteration_time_s'])}; each thing {100 * by:g} % faster"
    best = ""
    if found and found[0]["gain"] > 0:
        best = f"\n{_best(found[0], by)}"
    more = f"\n... and {len(found) - most} more" if len(found) > most else ""
    return f"{head}{best}\n\n{table(['what', 'name', 'iteration', 'saved'], rows, left=2)}{more}"


def run_changes(data: Mapping[str, Any], most: int = 15) -> str:
    """The mean step of a recorded run with each change; `data` has the recorded mean and the changes."""
    found = data["gains"]
    rows = [
        [row["what"], row["name"], seconds(row["iteration_time_s"]), f"{100 * row['gain']:.2f} %"]
        for row in found[:most]
    ]
    more = f"\n... and {len(found) - most} more" if len(found) > most else ""
    head = f"recorded steps take {seconds(data['iteration_time_s'])} (mean)"
    return f"{head}\n\n{table(['what', 'change', 'step', 'saved'], rows, left=2)}{more}"


def _best(gain: Mapping[str, Any], by: float) -> str:
    """The greatest gain in a sentence; its subject is one device or link, or all links of a bandwidth."""
    of_many, saved = gain["name"].startswith("all of "), f"{percent(gain['gain'])} of the iteration"
    faster = f"{100 * by:g} % faster {gain['what']}"
    if gain["what"] == "link" and of_many:
        return f"{faster}s of {gain['name'].removeprefix('all of ')} save {saved}"
    return f"a {faster} {gain['name']} saves {saved}"
