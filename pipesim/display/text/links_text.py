"""Recorded links as text: transfer times, all-reduces, and how well tables fit."""

from collections.abc import Mapping, Sequence
from typing import Any

from pipesim.display.text.columns import TextColumn, TextTable
from pipesim.display.text.formatting import facts, percent, rate, seconds, size, table


def recorded_links(data: Mapping[str, Any], about: Sequence[tuple[str, str]]) -> str:
    """The times of transfers and all-reduces, then `about` (machine, backend, ...), errors, and what was not measured.

    `data` has `links` with their points and errors, `all_reduces` and `not_measured`, as `record-links --json`.
    """
    reduced = [
        [str(p["participants"]), size(p["bytes"]), *map(seconds, (p["seconds"], p["mad_s"], p["ring_s"]))]
        for p in data["all_reduces"]
    ]
    found = list(about)
    for name, fit in data["links"].items():
        errors = (percent(fit[f"mean_error_of_{how}"]) for how in ("table", "straight_line"))
        found.append((name, "mean error of the table {}, of a straight line {}".format(*errors)))
    found += [("not measured", what) for what in data["not_measured"]]
    parts = [transfer_times(data).text()]
    if reduced:
        parts.append(table(["participants", "bytes", "all-reduce", "± MAD", "ring over these links"], reduced))
    return "\n\n".join([*parts, facts(found)])


def transfer_times(data: Mapping[str, Any]) -> TextTable:
    """What messages of each size take over each class of links, as a table."""
    records = [
        {"links": name, **p, "bytes_per_s": p["bytes"] / p["seconds"]}
        for name, fit in data["links"].items()
        for p in fit["points"]
    ]
    return TextTable(_TRANSFERS, records)


_TRANSFERS = (
    TextColumn("links", "links", on_left=True),
    TextColumn("bytes", "bytes", size),
    TextColumn("seconds", "seconds", seconds),
    TextColumn("± MAD", "mad_s", seconds),
    TextColumn("rate", "bytes_per_s", rate),
)
