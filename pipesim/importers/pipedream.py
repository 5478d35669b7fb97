"""PipeDream's text profiles, and DAPPLE's dialect of them: one line per node of a model's graph, then its edges.

    node4 -- Conv2d(3, 64, ...) -- forward_compute_time=2.2, backward_compute_time=2.8, activation_size=205.0,
                                   parameter_size=7.0[ -- stage_id=0]                        (all on one line)
    <indent>node4 -- node5

Times are milliseconds, sizes bytes, for the whole minibatch that was profiled; `[a; b]` is the sum of several tensors.
DAPPLE names its files after the samples in that minibatch: `bert-24-pbs-6.txt`.
"""

import heapq
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pipesim.base import files, units
from pipesim.base.checks import check_whole
from pipesim.base.errors import FormatError, within
from pipesim.base.tables import Table
from pipesim.core.members import ImporterInfo
from pipesim.core.trace import NO_INPUTS, Trace
from pipesim.importers.detect import first_line

_FIELDS = ("forward_compute_time", "backward_compute_time", "activation_size", "parameter_size")
_NODE = re.compile(r"node([0-9]{1,18})")
_PROFILED_BATCH = re.compile(r"-pbs-([0-9]{1,9})(?![0-9])")
_MOST = 2.0**63

# Node -> the nodes that it reads, each with the line of the file that states the edge.
Edges = dict[int, dict[int, int]]


@dataclass(frozen=True, slots=True)
class _Node:
    """One line of the profile; seconds and bytes."""

    name: str
    forward_s: float
    backward_s: float
    output_bytes: int
    parameter_bytes: int


def is_profile(_: bytes, text: str) -> bool:
    """Whether the first line describes a node."""
    first = first_line(text)
    return " -- " in first and "forward_compute_time=" in first


@ImporterInfo(
    recognises=is_profile,
    otherwise="has no ' -- ' with 'forward_compute_time=' in its first line",
    example={
        "net-pbs-4.txt": (
            "node1 -- Input0 -- forward_compute_time=7.5, backward_compute_time=0.0, activation_size=64.0, "
            "parameter_size=0.0\n"
            "node3 -- Linear(in=4, out=8) -- forward_compute_time=1.5, backward_compute_time=3, "
            "activation_size=[64; 32.0], parameter_size=128.0 -- stage_id=0\n"
            "node2 -- ReLU(inplace) -- forward_compute_time=0.5, backward_compute_time=0.25, activation_size=64, "
            "parameter_size=0\n\n"
            "\tnode1 -- node3\n"
            "\tnode3 -- node2\n"
        )
    },
)
def pipedream(path: Path, *, samples: int | None = None) -> Trace:
    """The trace in a profile: one microbatch is the whole minibatch that was profiled.

    `samples` is the number of samples of that minibatch, which the file does not contain: times and sizes scale from it
    to microbatches of any size. By default it is taken from a name such as `bert-24-pbs-6.txt`, else it is 1: the
    minibatch is the unit. Nodes whose description starts with "Input" load data and are dropped. Layers are in
    topological order, the smallest node number first. A layer is assumed to keep as many bytes for its backward as its
    output has. Stages and unknown fields in the file are ignored.
    """
    if samples is None:
        named = _PROFILED_BATCH.search(path.stem)
        samples = max(1, int(named[1])) if named else 1
    check_whole("samples", samples)
    text = files.read_text(path, files.RECORDING)
    with within(str(path)):
        nodes, edges = _parse(text)
        layers = {number: node for number, node in nodes.items() if not node.name.startswith("Input")}
        if not layers:
            raise FormatError("has no nodes beside inputs; lines 'nodeN -- description -- ...' were expected")
        inputs = {number: {s: line for s, line in edges[number].items() if s in layers} for number in layers}
        return Trace(path.stem, "pipedream", samples, _columns(layers, inputs, _topological(inputs)))


def _columns(layers: Mapping[int, _Node], inputs: Edges, order: list[int]) -> Table:
    nodes = [layers[number] for number in order]
    position = {number: layer for layer, number in enumerate(order)}
    times = Counter(node.name for node in nodes)
    names = [n.name if times[n.name] == 1 else f"{n.name} node{i}" for i, n in zip(order, nodes, strict=True)]
    read = [_inputs(layer, sorted(position[s] for s in inputs[i])) for layer, i in enumerate(order)]
    return {
        "layer": np.arange(len(order)),
        "name": np.array(names, object),
        "kind": np.array([node.name.partition("(")[0] for node in nodes], object),
        "forward_s": np.array([node.forward_s for node in nodes]),
        "backward_s": np.array([node.backward_s for node in nodes]),
        "output_bytes": np.array([node.output_bytes for node in nodes]),
        "stash_bytes": np.array([node.output_bytes for node in nodes]),
        "parameter_bytes": np.array([node.parameter_bytes for node in nodes]),
        "inputs": np.array(read, object),
    }


def _inputs(layer: int, sources: list[int]) -> str:
    """The text of a trace: empty if a layer reads the one before it."""
    if sources == list(range(max(layer - 1, 0), layer)):
        return ""
    return ";".join(map(str, sources)) or NO_INPUTS


# --- lines -----------------------------------------------------------------------------------------------------------


def _parse(text: str) -> tuple[dict[int, _Node], Edges]:
    nodes: dict[int, _Node] = {}
    found: list[tuple[int, int, int]] = []
    for number, line in enumerate(text.split("\n"), 1):
        with within(f"line {number}"):
            if not line.strip():
                continue
            if line[0].isspace():
                found.append((*_edge(line), number))
            else:
                name, node = _node(line)
                if nodes.setdefault(name, node) is not node:
                    raise FormatError(f"duplicate node{name}")
    edges: Edges = {name: {} for name in nodes}
    for source, target, number in found:
        unknown = next((name for name in (source, target) if name not in nodes), None)
        if unknown is not None:
            raise FormatError(f"line {number}: unknown node{unknown}; a line that describes it was expected")
        edges[target].setdefault(source, number)
    return nodes, edges


def _edge(line: str) -> tuple[int, int]:
    ends = [_NODE.fullmatch(end.strip()) for end in line.split(" -- ")]
    if len(ends) != 2 or ends[0] is None or ends[1] is None:
        raise FormatError(f"{line.strip()[:60]!r} found; an edge 'nodeA -- nodeB' was expected on an indented line")
    return int(ends[0][1]), int(ends[1][1])


def _node(line: str) -> tuple[int, _Node]:
    """Split on ' -- ', since descriptions contain commas."""
    parts = [part.strip() for part in line.split(" -- ")]
    if len(parts) > 3 and parts[-1].startswith("stage_id="):
        parts.pop()
    name = _NODE.fullmatch(parts[0])
    if name is None or len(parts) < 3:
        raise FormatError(f"{line.strip()[:60]!r} found; 'nodeN -- description -- {_FIELDS[0]}=...' was expected")
    fields = _fields(parts[-1])
    forward, backward, activation, parameters = (_number(field, fields[field]) for field in _FIELDS)
    return int(name[1]), _Node(
        " -- ".join(parts[1:-1]),
        units.duration(f"{forward!r} ms"),
        units.duration(f"{backward!r} ms"),
        round(activation),
        round(parameters),
    )


def _fields(text: str) -> dict[str, str]:
    fields: dict[str, str] = {}
    for part in text.split(","):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or key in fields:
            raise FormatError(f"{part.strip()[:60]!r} found; each field once, as 'name=number', was expected")
        fields[key] = value
    for key in _FIELDS:
        if key not in fields:
            raise FormatError(f"missing field {key!r}; found {', '.join(fields)[:120]}")
    return fields


def _number(field: str, text: str) -> float:
    """A number, or the sum of several in '[a; b]'."""
    listed = text[1:-1].split(";") if text.startswith("[") and text.endswith("]") else [text]
    try:
        numbers = [units.number(item) for item in listed]
    except ValueError:
        raise FormatError(f"{field}: {text[:60]!r} found; a number was expected, or several as '[a; b]'") from None
    if not all(math.isfinite(number) and number >= 0 for number in numbers) or sum(numbers) >= _MOST:
        raise FormatError(f"{field}: {text[:60]!r} found; finite numbers, not negative and below 2^63, were expected")
    return sum(numbers)


# --- the graph -------------------------------------------------------------------------------------------------------


def _topological(inputs: Edges) -> list[int]:
    """Repeatedly take the smallest node whose inputs have all been taken (Kahn)."""
    readers: dict[int, list[int]] = {number: [] for number in inputs}
    for number, sources in inputs.items():
        for source in sources:
            readers[source].append(number)
    missing = {number: len(sources) for number, sources in inputs.items()}
    ready = [number for number, count in missing.items() if not count]
    heapq.heapify(ready)
    order: list[int] = []
    while ready:
        number = heapq.heappop(ready)
        order.append(number)
        for reader in readers[number]:
            missing[reader] -= 1
            if not missing[reader]:
                heapq.heappush(ready, reader)
    if len(order) < len(inputs):
        raise _cycle(inputs, set(inputs).difference(order))
    return order


def _cycle(inputs: Edges, left: Iterable[int]) -> FormatError:
    """Walk back from a node that was never taken, through others like it, until one repeats."""
    left = set(left)
    node, seen = min(left), dict[int, None]()
    while node not in seen:
        seen[node] = None
        node = min(source for source in inputs[node] if source in left)
    walked = list(seen)
    cycle = [node, *reversed(walked[walked.index(node) :])]
    line = inputs[cycle[1]][cycle[0]]
    shown = [f"node{name}" for name in cycle]
    if len(shown) > 8:
        shown[4:-3] = ["..."]
    return FormatError(f"line {line}: the edges form a cycle: {' -> '.join(shown)}")
