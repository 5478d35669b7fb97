"""Chakra's execution traces: for each rank a file `name.RANK.et` with the graph of what it computes and communicates.

`chakra` makes a trace, for which plans can be made; `chakra_program` makes a program of the run as it was recorded.
"""

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from pipesim.base import units
from pipesim.base.checks import check_not_negative, check_whole
from pipesim.base.errors import FormatError, within
from pipesim.core.members import ImporterInfo
from pipesim.core.trace import ANY_KIND, Trace
from pipesim.importers.chakra.graph import load, named
from pipesim.importers.chakra.node_layers import columns, layers, transfers
from pipesim.importers.chakra.node_times import durations
from pipesim.importers.chakra.phases import NAMES, computing, layer_phases
from pipesim.importers.chakra.program_building import chakra_program

__all__ = ["chakra", "chakra_program"]

_VERSION = re.compile(rb"[0-9]+(\.[\w-]+)*")


def is_execution_trace(data: bytes, _: str) -> bool:
    """Whether the first message begins with a version: length, field 1 of bytes, length, digits and dots."""
    return len(data) > 3 and data[1] == 0x0A and bool(_VERSION.fullmatch(data[3 : 3 + data[2]]))


@ImporterInfo(
    recognises=is_execution_trace,
    suffixes=(".et",),
    otherwise="does not begin with a message that has a version, and is not named .et",
)
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
    and groups `forward`, `backward`, or `input` and `weight` (the two parts of a backward); the group that matches is
    the phase. Each repetition of a layer is a sample. In traces of PyTorch, whose names have no layers, operations are
    paired with their backward by sequence numbers. If there is no backward at all, it is assumed to take
    `backward_factor` times the forward. `output_bytes` is the output of layers for which neither tensors nor sends have
    a size. The recorded microbatch had `samples` samples. Nodes without a duration get one from their operations and
    bytes, by the data sheet of `device`. `groups` is a JSON file with the ranks of process groups, if the traces have
    none.
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
                "no node computes (COMP_NODE), so there are no layers; simulate the recorded run itself with "
                "'pipesim run'"
            )
        seconds, work = durations(graph, chosen, device, precision), layer_phases(graph, chosen, names)
        found = layers(graph, work)
        table = columns(found, graph, work, seconds, backward_factor=backward_factor, output_bytes=outputs)
        table["device_kind"] = np.full(len(table["layer"]), device or ANY_KIND, object)
        return Trace(_model(paths), "chakra", samples, table, transfers(graph), precision=precision if device else "")


def _model(paths: Sequence[Path]) -> str:
    """The name of the files without their ranks."""
    stem = paths[0].name.removesuffix(".et")
    head, dot, rank = stem.rpartition(".")
    return head if dot and rank.isascii() and rank.isdecimal() else stem
