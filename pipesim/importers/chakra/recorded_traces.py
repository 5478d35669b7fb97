"""Chakra's execution traces with start times, as a recorded run: computations by their names, messages, collectives.

A computation is one that pipesim exported, or a node with a name such as 0F3 or "forward stage 0 microbatch 3"; others
are not those of a pipeline's schedule, and are left out. Microseconds since the trace began are one clock, or set by
what waits for what.
"""

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from pipesim.base.arrays import Ints
from pipesim.base.errors import FormatError, within
from pipesim.core import recorded_run as runs
from pipesim.core.program import OPTIMIZER as OPTIMIZER_TASK
from pipesim.core.recorded_run import RecordedRun
from pipesim.importers.chakra import graph as graphs
from pipesim.importers.chakra.graph import Graph
from pipesim.importers.chakra.node_messages import COMPUTE, KIND, MICROBATCH, RECEIVE, SEND, STAGE, Node
from pipesim.importers.kineto.action_names import NamedAction, action_of
from pipesim.importers.kineto.action_times import RankActions, repeats
from pipesim.importers.kineto.process_groups import P2P, Communication
from pipesim.importers.kineto.profiled_runs import Spans, run_of
from pipesim.importers.operations.operation_columns import RunFacts
from pipesim.importers.operations.run_assembly import NO_FACTS

_NS_PER_US = 1000
_LAST_US = 2**50
NO_TASK = -1


def chakra_run(path: Path | Sequence[Path], *, groups: str | None = None, facts: RunFacts = NO_FACTS) -> RecordedRun:
    """The run in the traces of all ranks; `groups` names a JSON file with the ranks of process groups."""
    paths = [path] if isinstance(path, Path) else list(path)
    graph = graphs.load(paths, groups)
    with within(graphs.named(paths)):
        _check_times(graph)
        named = {at: action for at, node in enumerate(graph.nodes) if (action := _action(node, graph.rank[at]))}
        if not named:
            raise FormatError(
                "no node is named as an action of a schedule, such as 0F3 or 'forward stage 0 microbatch 3'; "
                "a recorded pipelined run was expected"
            )
        actions = [_rank_actions(graph, rank, named) for rank in graph.ranks]
        left_out = sum(_is_computation(node) for node in graph.nodes) - len(named) - _optimizer_count(graph)
        notes = (f"{left_out} computations without the name of an action are left out",) if left_out > 0 else ()
        stated = RunFacts(facts.dp, facts.tp, facts.clocks, facts.separate_clocks, (*facts.notes, *notes))
        found = [one for one in actions if len(one.stage)]
        return run_of(found, _communications(graph), _optimizer(graph), paths[0].name.split(".")[0], stated)


def _check_times(graph: Graph) -> None:
    """Refuse traces of what is to run, which have no start times, and times out of range."""
    starts = np.array([node.start_us for node in graph.nodes], np.float64)
    if not (starts > 0).any():
        raise FormatError("has no start times; a recorded trace was expected (pipesim run plays others)")
    if starts.max() > _LAST_US:
        raise FormatError(f"start_time_micros: {starts.max():.0f} found; microseconds of one run were expected")


def _is_computation(node: Node) -> bool:
    """Whether a node computes and takes time."""
    return node.type == COMPUTE and node.duration_us > 0


def _action(node: Node, rank: int) -> NamedAction | None:
    """The action that a node is, if it is one."""
    if not _is_computation(node):
        return None
    kind = node.number(KIND, NO_TASK)
    if kind in runs.COMPUTATIONS and node.number(MICROBATCH, -1) >= 0:
        return NamedAction(node.number(STAGE), kind, node.number(MICROBATCH))
    found = action_of(node.name) if kind == NO_TASK else None
    return found if found is None or found.stage is not None else found._replace(stage=rank)


def _span(node: Node) -> tuple[int, int]:
    return node.start_us * _NS_PER_US, (node.start_us + node.duration_us) * _NS_PER_US


def _rank_actions(graph: Graph, rank: int, named: dict[int, NamedAction]) -> RankActions:
    """The actions of a rank in order of their start; the k-th of one stage, kind and microbatch is of iteration k."""
    mine = sorted((at for at in named if graph.rank[at] == rank), key=lambda at: _span(graph.nodes[at]))
    cells = [(named[at].stage or 0, named[at].kind, named[at].microbatch) for at in mine]
    columns = np.array([(*cell, *_span(graph.nodes[at])) for cell, at in zip(cells, mine, strict=True)], np.int64)
    stage, kind, microbatch, start, end = columns.reshape(-1, 5).T
    iteration = repeats(cells)
    count = int(iteration.max(initial=-1)) + 1
    return RankActions(
        rank, np.arange(len(mine)), stage, kind, microbatch, iteration, start, end, np.zeros(count, np.int64), 0
    )


def _optimizer_count(graph: Graph) -> int:
    return sum(_is_optimizer(node) for node in graph.nodes)


def _is_optimizer(node: Node) -> bool:
    return _is_computation(node) and node.number(KIND, NO_TASK) == OPTIMIZER_TASK


def _optimizer(graph: Graph) -> dict[int, Spans]:
    """Rank -> when it worked in steps of the optimizer."""
    found: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for at, node in enumerate(graph.nodes):
        if _is_optimizer(node):
            found[graph.rank[at]].append(_span(node))
    return {rank: _columns(sorted(spans)) for rank, spans in found.items()}


def _columns(spans: list[tuple[int, int]]) -> tuple[Ints, Ints]:
    start, end = np.array(spans, np.int64).T
    return start, end


def _communications(graph: Graph) -> list[Communication]:
    """Sends, receives and members of collectives that took time."""
    found: list[Communication] = []
    for at, node in enumerate(graph.nodes):
        if node.duration_us and node.type in {SEND, RECEIVE}:
            receives, rank = node.type == RECEIVE, graph.rank[at]
            source, target = (node.number("comm_src"), rank) if receives else (rank, node.number("comm_dst"))
            found.append(Communication(P2P, rank, source, target, round(node.size), 2, *_span(node), receives))
    for one in graph.collectives:
        ends = graph.rank[one.members[0]], graph.rank[one.members[-1]]
        for member in one.members:
            node = graph.nodes[member]
            if node.duration_us:
                found.append(
                    Communication(one.type_, graph.rank[member], *ends, one.size, len(one.members), *_span(node))
                )
    return found
