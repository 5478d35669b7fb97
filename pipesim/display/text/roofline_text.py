"""Traces from data sheets as text."""

from collections.abc import Mapping
from typing import Any

from pipesim.display.text.columns import TextColumn, TextTable
from pipesim.display.text.formatting import facts, percent, rate, seconds, size


def roofline_trace(data: Mapping[str, Any]) -> str:
    """The sizes of a model, and its times on each device kind; `data` is that of `pipesim trace --json`."""
    head = [
        ("model", f"{data['model']} ({data['layers']} layers, {data['precision']})"),
        ("parameters", size(data["parameter_bytes"])),
        ("microbatch", " and ".join(map(str, data["microbatch_sizes"])) + " samples"),
        ("kept for the backward", f"{size(data['stash_bytes'])} of a microbatch"),
        ("forward", rate(data["forward_flops"], "FLOP")),
        ("seconds", data["machine"]),
    ]
    return f"{facts(head)}\n\n{roofline_devices(data).text()}"


def roofline_devices(data: Mapping[str, Any]) -> TextTable:
    """The times of a model on each device kind, as a table."""
    shares = data["forward_share_of_peak"]
    records = [
        {"device": kind, "forward_s": spent["forward"], "backward_s": spent["backward"], "share_of_peak": shares[kind]}
        for kind, spent in data["seconds"].items()
    ]
    return TextTable(_DEVICES, records)


_DEVICES = (
    TextColumn("device", "device", on_left=True),
    TextColumn("forward", "forward_s", seconds),
    TextColumn("backward", "backward_s", seconds),
    TextColumn("of peak, forward", "share_of_peak", percent),
)
