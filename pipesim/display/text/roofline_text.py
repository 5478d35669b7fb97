"""Traces from data sheets as text."""

from collections.abc import Mapping
from typing import Any

from pipesim.display.text.formatting import facts, percent, rate, seconds, size, table


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
    rows = [
        [kind, seconds(spent["forward"]), seconds(spent["backward"]), percent(data["forward_share_of_peak"][kind])]
        for kind, spent in data["seconds"].items()
    ]
    return f"{facts(head)}\n\n{table(['device', 'forward', 'backward', 'of peak, forward'], rows)}"
