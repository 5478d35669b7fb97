"""From the graph of all ranks to the layers of a trace.

    rank 0    A fwd ── B fwd ── send ┄┄ ...        ranks that compute the same, at the same depth of the pipeline, are
    rank 1    A fwd ── B fwd ── send ┄┄ ...        replicas: each adds a sample of the layers A and B
    rank 2    receive ── C fwd ── C bwd ...        other ranks add layers

The output of a layer has the size of its tensors, if the nodes have shapes, else of what is sent after it; its
parameters have the size of the gradients that are reduced after its backward.
"""

import re
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from pipesim.base.arrays import Ints, Ragged
from pipesim.base.errors import FormatError, shown
from pipesim.base.tables import Table
from pipesim.importers.chakra.graph import Graph, in_order
from pipesim.importers.chakra.node_messages import COLLECTIVE, SEND
from pipesim.importers.chakra.phases import PHASES, LayerPhase, Phase

# The most predecessors of a node that are kept: a layer reads few others.
_MOST_SOURCES = 64
_DTYPES = {
    "float": 4, "double": 8, "half": 2, "bfloat16": 2, "int": 4, "long": 8, "long int": 8, "short": 2, "char": 1,
    "signed char": 1, "unsigned char": 1, "bool": 1, "c10::half": 2, "c10::bfloat16": 2,
}  # fmt: skip
_SHAPE = re.compile(r"\[\s*([0-9]{1,12}(?:\s*,\s*[0-9]{1,12}){0,15})\s*\]")
_TENSOR = re.compile(r"Tensor\(([^()]{1,40})\)")


@dataclass(slots=True)
class NodeLayer:
    """A layer: the nodes that compute it, in topological order, and its sizes."""

    name: str
    nodes: "array[int]" = field(default_factory=lambda: array("q"))
    output_bytes: int = 0
    parameter_bytes: int = 0
    sources: tuple[int, ...] = ()


def layers(graph: Graph, work: Mapping[int, LayerPhase]) -> list[NodeLayer]:
    """All layers in topological order."""
    units = [(node,) for node in range(len(graph.nodes))]
    joined = replace(graph, needs=_with_sends(graph))
    order = in_order(joined, units)
    before = _before(joined, order, work)
    stage_of = _stages(joined, order, work, before)
    found: list[NodeLayer] = []
    of_node: dict[int, int] = {}
    index: dict[tuple[int, str], int] = {}
    order = [node for node in order if node in work]
    order.sort(key=lambda node: stage_of[graph.rank[node]])
    for node in order:
        key = (stage_of[graph.rank[node]], work[node].layer)
        of_node[node] = index.setdefault(key, len(index))
        if of_node[node] == len(found):
            found.append(NodeLayer(key[1]))
        found[of_node[node]].nodes.append(node)
    _add_sources(found, before, of_node, work)
    _add_sizes(joined, found, before, of_node, work)
    return found


def _with_sends(graph: Graph) -> Ragged:
    """The dependencies of each node, with that of a receive on its send."""
    receives = np.array(list(graph.send_of), np.int64)
    sends = np.array(list(graph.send_of.values()), np.int64)
    row = np.concatenate([graph.needs.row_of_value(), receives])
    return Ragged.of_pairs(len(graph.nodes), row, np.concatenate([graph.needs.values, sends]))


def _before(graph: Graph, order: Sequence[int], work: Mapping[int, LayerPhase]) -> list[tuple[int, ...]]:
    """For each node its nearest predecessors that compute."""
    found: list[tuple[int, ...]] = [()] * len(graph.nodes)
    for node in order:
        merged: dict[int, None] = {}
        for need in graph.needs[node].tolist():
            merged.update(dict.fromkeys((need,) if need in work else found[need]))
        found[node] = tuple(merged)[-_MOST_SOURCES:]
    return found


def _stages(
    graph: Graph, order: Sequence[int], work: Mapping[int, LayerPhase], before: Sequence[tuple[int, ...]]
) -> dict[int, int]:
    """Rank -> the number of its stage: ranks of one stage compute the same at the same depth."""
    depth: dict[int, int] = {}
    does: dict[int, list[LayerPhase]] = {rank: [] for rank in graph.ranks}
    for node in (node for node in order if node in work):
        rank = graph.rank[node]
        others = {graph.rank[source] for source in before[node]} - {rank}
        depth.setdefault(rank, max((depth[other] + 1 for other in others), default=0))
        does[rank].append(work[node])
    kinds: dict[tuple[int, tuple[LayerPhase, ...]], int] = {}
    ranks = sorted(depth, key=lambda rank: (depth[rank], rank))
    return {rank: kinds.setdefault((depth[rank], tuple(does[rank])), len(kinds)) for rank in ranks}


def _add_sources(
    found: Sequence[NodeLayer],
    before: Sequence[tuple[int, ...]],
    of_node: Mapping[int, int],
    work: Mapping[int, LayerPhase],
) -> None:
    """The layers that each layer reads: those of the forwards that precede its first forward."""
    for number, layer in enumerate(found):
        first = next((node for node in layer.nodes if work[node].phase == "forward"), None)
        if first is not None:
            read = {of_node[source] for source in before[first] if work[source].phase == "forward"}
            layer.sources = tuple(sorted(source for source in read if source < number))


def _add_sizes(
    graph: Graph,
    found: Sequence[NodeLayer],
    before: Sequence[tuple[int, ...]],
    of_node: Mapping[int, int],
    work: Mapping[int, LayerPhase],
) -> None:
    for layer in found:
        outputs = (graph.nodes[node].outputs for node in layer.nodes if work[node].phase == "forward")
        layer.output_bytes = max((_tensors(*texts) for texts in outputs), default=0)
    with_tensors = {number for number, layer in enumerate(found) if layer.output_bytes}
    reduced = {node for c in graph.collectives if c.type_ in {"all_reduce", "reduce_scatter"} for node in c.members}
    for number, node in enumerate(graph.nodes):
        if node.type not in {SEND, COLLECTIVE}:
            continue
        size = node.number("comm_size")
        for source in before[number]:
            layer = found[of_node[source]]
            if node.type == SEND and work[source].phase == "forward" and of_node[source] not in with_tensors:
                layer.output_bytes = max(layer.output_bytes, size)
            elif number in reduced and work[source].phase in {"backward", "weight"}:
                layer.parameter_bytes = max(layer.parameter_bytes, size)


def _tensors(shapes: str, types: str) -> int:
    """Bytes of tensors from texts such as "[[4, 1024]]" and "['Tensor(float)']"; 0 if sizes are missing."""
    sizes = [_DTYPES.get(name.strip().lower(), 0) for name in _TENSOR.findall(types)]
    dimensions = [[int(part) for part in shape.split(",")] for shape in _SHAPE.findall(shapes)]
    if len(sizes) != len(dimensions):
        return 0
    total = sum(size * int(np.prod(shape, dtype=object)) for size, shape in zip(sizes, dimensions, strict=True))
    return total if total < 2**62 else 0


# --- columns ---------------------------------------------------------------------------------------------------------


def columns(
    found: Sequence[NodeLayer],
    graph: Graph,
    work: Mapping[int, LayerPhase],
    seconds: Mapping[int, float],
    *,
    backward_factor: float,
    output_bytes: int,
) -> Table:
    """One row for each rank and occurrence of a layer's forward; the backwards are in the same order."""
    times, count = _times(found, graph, work, seconds, backward_factor)
    layer_of = np.repeat(np.arange(len(found)), count)
    outputs = np.array([layer.output_bytes or output_bytes for layer in found], np.int64)[layer_of]
    return {
        "layer": layer_of,
        "name": np.array([layer.name for layer in found], object)[layer_of],
        "sample": np.arange(len(layer_of)) - np.repeat(np.cumsum(count) - count, count),
        "forward_s": np.frombuffer(times["forward"], np.float64),
        "backward_s": np.frombuffer(times["backward"], np.float64),
        "backward_input_s": np.frombuffer(times["input"], np.float64),
        "backward_weight_s": np.frombuffer(times["weight"], np.float64),
        "output_bytes": outputs,
        "stash_bytes": outputs,
        "parameter_bytes": np.array([layer.parameter_bytes for layer in found], np.int64)[layer_of],
        "inputs": np.array(_inputs(found), object)[layer_of],
    }


def _times(
    found: Sequence[NodeLayer],
    graph: Graph,
    work: Mapping[int, LayerPhase],
    seconds: Mapping[int, float],
    backward_factor: float,
) -> tuple[dict[Phase, "array[float]"], Ints]:
    """All times, layer after layer, and how many each layer has."""
    has_backward = any(work[node].phase != "forward" for layer in found for node in layer.nodes)
    times: dict[Phase, array[float]] = {phase: array("d") for phase in PHASES}
    count = np.zeros(len(found), np.int64)
    for number, layer in enumerate(found):
        by_rank: dict[int, dict[Phase, list[float]]] = {}
        for node in layer.nodes:
            by_rank.setdefault(graph.rank[node], {}).setdefault(work[node].phase, []).append(seconds[node])
        for rank in sorted(by_rank):
            samples = _samples(layer.name, rank, by_rank[rank], None if has_backward else backward_factor)
            count[number] += len(samples["forward"])
            for phase in PHASES:
                times[phase].extend(samples[phase])
    return times, count


def _samples(
    name: str, rank: int, times: Mapping[Phase, list[float]], backward_factor: float | None
) -> dict[Phase, Sequence[float]]:
    """The times of a layer on a rank; NaN for phases that were not timed, 0 for a missing part of a split backward."""
    counts = {phase: len(times[phase]) for phase in PHASES if phase in times}
    if len(set(counts.values())) > 1:
        found = ", ".join(f"{count} of {phase}" for phase, count in counts.items())
        raise FormatError(f"rank {rank}: layer {shown(name)}: {found} found; equal numbers were expected")
    some = max(counts.values())
    forward = times.get("forward", [0.0] * some)
    split = bool({"input", "weight"} & times.keys())
    part = [0.0 if split else np.nan] * some
    whole = [np.nan] * some if split else [(backward_factor or 0.0) * seconds for seconds in forward]
    return {
        "forward": forward,
        "backward": times.get("backward", whole),
        "input": times.get("input", part),
        "weight": times.get("weight", part),
    }


def _inputs(found: Sequence[NodeLayer]) -> list[str]:
    """The texts of a trace; a layer with unknown inputs reads the one before it."""
    texts = []
    for number, layer in enumerate(found):
        before = not layer.sources or layer.sources == (number - 1,)
        texts.append("" if before else ";".join(map(str, layer.sources)))
    return texts


def transfers(graph: Graph) -> Table:
    """Sends and collectives that were timed; of a collective the shortest time, which contains no waiting."""
    groups: list[tuple[tuple[int, ...], int, str, tuple[int, int]]] = [
        ((send, receive), graph.nodes[send].number("comm_size"), "p2p", graph.ends(send))
        for receive, send in sorted(graph.send_of.items(), key=lambda pair: pair[1])
    ]
    groups += [
        (c.members, c.size, c.type_, (graph.rank[c.members[0]], graph.rank[c.members[-1]]))
        for c in graph.collectives
        if c.members
    ]
    rows = []
    for members, size, kind, ends in groups:
        micros = [graph.nodes[node].duration_us for node in members if graph.nodes[node].duration_us]
        if micros:
            rows.append((f"rank{ends[0]}", f"rank{ends[1]}", size, min(micros) * 1e-6, kind, len(members)))
    if not rows:
        return {}
    keys = [(source, target, size, kind) for source, target, size, _, kind, _ in rows]
    return {
        "source": np.array([row[0] for row in rows], object),
        "target": np.array([row[1] for row in rows], object),
        "bytes": np.array([row[2] for row in rows], np.int64),
        "seconds": np.array([row[3] for row in rows]),
        "kind": np.array([row[4] for row in rows], object),
        "participants": np.array([row[5] for row in rows], np.int64),
        "sample": _occurrence(keys),
    }


def _occurrence(keys: Sequence[tuple[str, str, int, str]]) -> Ints:
    """For each key how many equal ones are before it."""
    seen: dict[tuple[str, str, int, str], int] = {}
    found = np.zeros(len(keys), np.int64)
    for row, key in enumerate(keys):
        found[row] = seen.get(key, 0)
        seen[key] = int(found[row]) + 1
    return found
