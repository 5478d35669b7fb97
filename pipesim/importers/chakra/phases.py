"""The layer and the phase of each node, which nodes do not state.

names          COMP_NODE_conv1_FWD, COMP_NODE_conv1_BWD_IG, ...     layer and phase are parts of the name
autograd       a node of PyTorch has the sequence number of its forward operation, as has the node of its backward
otherwise      each node is a layer of its own, and forward
"""

import re
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from pipesim.base.errors import InputError, shown
from pipesim.core.program import OPTIMIZER
from pipesim.importers.chakra.graph import Graph
from pipesim.importers.chakra.node_messages import COMPUTE, KIND

Phase = Literal["forward", "backward", "input", "weight"]
PHASES: tuple[Phase, ...] = ("forward", "backward", "input", "weight")

# Names of nodes by Chakra's own converters and generators.
NAMES = (
    r"(?i)(?:COMP(?:UTE)?_NODE_)?(?P<layer>.+?)[_. -]+(?:(?P<forward>FWD|FORWARD|FP)"
    r"|(?P<input>(?:BWD|BACKWARD|BP)_(?:IG|INPUT)|IG|DGRAD)"
    r"|(?P<weight>(?:BWD|BACKWARD|BP)_(?:WG|WEIGHT)|WG|WGRAD)"
    r"|(?P<backward>BWD|BACKWARD|BP))"
)
# Longer names are those of kernels, with template arguments; matching would take too long.
_LONGEST_NAME = 300


class LayerPhase(NamedTuple):
    """What a node computes: the name of a layer, and a phase."""

    layer: str
    phase: Phase


def computing(graph: Graph) -> list[int]:
    """The nodes that compute layers: those of devices, or those of hosts if there are no others."""
    nodes = [n for n, node in enumerate(graph.nodes) if node.type == COMPUTE and node.number(KIND) < OPTIMIZER]
    on_devices = [number for number in nodes if not graph.nodes[number].number("is_cpu_op")]
    return (
        on_devices if any(graph.nodes[n].duration_us or graph.nodes[n].number("num_ops") for n in on_devices) else nodes
    )


def layer_phases(graph: Graph, chosen: Sequence[int], names: str) -> dict[int, LayerPhase]:
    """What each of these nodes computes."""
    pattern = _pattern(names)
    known: dict[
        LayerPhase | None, LayerPhase | None
    ] = {}  # equal ones are one object: there are many nodes and few layers
    named = {number: known.setdefault(work, work) for number, work in _by_name(graph, chosen, pattern)}
    if any(named.values()):
        return {
            number: work or LayerPhase(_own_name(graph, number, twice=False), "forward")
            for number, work in named.items()
        }
    operations = _autograd(graph)
    if any(operations[number] for number in chosen):
        return _by_autograd(graph, chosen, operations)
    times: dict[tuple[int, str], int] = {}
    for number in chosen:
        key = (graph.rank[number], graph.nodes[number].name)
        times[key] = times.get(key, 0) + 1
    return {
        number: LayerPhase(
            _own_name(graph, number, twice=times[graph.rank[number], graph.nodes[number].name] > 1), "forward"
        )
        for number in chosen
    }


def _pattern(names: str) -> "re.Pattern[str]":
    try:
        pattern = re.compile(names)
    except re.error as error:
        raise InputError(f"names = {shown(names)} found; a regular expression was expected: {error}") from None
    if "layer" not in pattern.groupindex or not set(PHASES) & pattern.groupindex.keys():
        raise InputError(
            f"names = {shown(names)} found; groups named layer, and forward, backward, input or weight, were expected"
        )
    return pattern


def _by_name(
    graph: Graph, chosen: Sequence[int], pattern: "re.Pattern[str]"
) -> Iterator[tuple[int, LayerPhase | None]]:
    """The layer and phase in the name of each node, None if the pattern does not match."""
    for number in chosen:
        name = graph.nodes[number].name
        match = pattern.fullmatch(name) if len(name) <= _LONGEST_NAME else None
        if match is None:
            yield number, None
            continue
        groups = match.groupdict()
        phase = next((phase for phase in PHASES if groups.get(phase)), PHASES[0])
        yield number, LayerPhase(groups["layer"] or _own_name(graph, number, twice=True), phase)


def _own_name(graph: Graph, number: int, *, twice: bool) -> str:
    node = graph.nodes[number]
    name = "".join(letter if letter.isprintable() else "?" for letter in node.name)
    return f"{name} {node.id}".strip() if twice or not name else name


def _autograd(graph: Graph) -> list[tuple[int, Phase] | None]:
    """For each node the sequence number and the phase of its operation: its own, or those of a node that called it.

    A node with the thread of a forward operation (fw_tid) is the backward of that operation.
    """
    found: list[tuple[int, Phase] | None] = []
    for number, node in enumerate(graph.nodes):
        own = node.number("seq_id", -1)
        if own >= 0:
            found.append((own, "backward" if node.number("fw_tid") > 0 else "forward"))
        else:
            above = (found[need] for need in graph.needs[number].tolist() if need < number)
            found.append(next((operation for operation in above if operation is not None), None))
    return found


def _by_autograd(
    graph: Graph, chosen: Sequence[int], operations: Sequence[tuple[int, Phase] | None]
) -> dict[int, LayerPhase]:
    """The nodes of one sequence number are one layer, named after the first of them."""
    names: dict[tuple[int, int], str] = {}
    found = {}
    for number in chosen:
        operation = operations[number]
        if operation is None:
            found[number] = LayerPhase(_own_name(graph, number, twice=True), "forward")
            continue
        sequence, phase = operation
        first = f"{_own_name(graph, number, twice=False)} {sequence}"
        found[number] = LayerPhase(names.setdefault((graph.rank[number], sequence), first), phase)
    return found
