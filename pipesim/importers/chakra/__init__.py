"""Chakra's execution traces: for each rank a file `name.RANK.et` with the graph of what it computes and communicates.

`chakra` makes a trace of them, which can be planned anew; `chakra_program` the very run that they describe.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from pipesim.base import units
from pipesim.base.checks import check_not_negative, check_whole
from pipesim.base.errors import FormatError, within
from pipesim.core.trace import ANY_KIND, Trace
from pipesim.importers.chakra.graph import load, named
from pipesim.importers.chakra.node_layers import columns, layers, transfers
from pipesim.importers.chakra.node_times import durations
from pipesim.importers.chakra.phases import NAMES, computing, works
from pipesim.importers.chakra.program_building import chakra_program

__all__ = ["chakra", "chakra_program"]


def chakra(
    path: Path | Sequence[Path],
    *,
    samples: int = 1,
    names: str = NAMES,
    backward_factor: float = 0.0,
    output_bytes: int | str = 0,
    device: str | None = None,
    precision: str = "fp16",
    groups: str | None = None,
) -> Trace:
    """The trace in the files of one or several ranks.

    Layers come from nodes that compute. `names` is a regular expression for the names of nodes, with a group `layer`
    and groups `forward`, `backward`, or `input` and `weight` (the two parts of a backward), of which the one that
    matches tells the phase; layers that are computed again and again have samples. In PyTorch's traces, whose names say
    nothing, operations are paired with their backward by their sequence numbers. Where no backward is found at all it
    is taken to last `backward_factor` times the forward. `output_bytes` is what a layer hands on where neither its
    tensors nor what is sent tell. The microbatch that was run had `samples` samples. Nodes without a duration are timed
    on a `device` of the data sheets from their operations and bytes, where one is named. `groups` names a JSON file
    with the ranks of process groups, where the traces have none.
    """
    check_whole("samples", samples)
    check_not_negative("backward_factor", backward_factor)
    with within("output_bytes"):
        outputs = round(min(units.size(output_bytes), 2.0**62))
    paths = [path] if isinstance(path, Path) else list(path)
    graph = load(paths, groups)
    with within(named(paths)):
        chosen = computing(graph)
        if not chosen:
            raise FormatError(
                "no node computes (COMP_NODE), and layers are what computes; replay the files as they are with "
                "'pipesim run'"
            )
        seconds, work = durations(graph, chosen, device, precision), works(graph, chosen, names)
        found = layers(graph, work)
        table = columns(found, graph, work, seconds, backward_factor=backward_factor, output_bytes=outputs)
        table["device_kind"] = np.full(len(table["layer"]), device or ANY_KIND, object)
        return Trace(_model(paths), "chakra", samples, table, transfers(graph), precision=precision if device else "")


def _model(paths: Sequence[Path]) -> str:
    """What the files are called, without their ranks."""
    stem = paths[0].name.removesuffix(".et")
    head, dot, rank = stem.rpartition(".")
    return head if dot and rank.isascii() and rank.isdecimal() else stem
