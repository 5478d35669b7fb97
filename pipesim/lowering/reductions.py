"""The pass that adds what the replicas of a stage exchange: rings that sum gradients and gather parameters.

    replicas    teams of the same stage; GPU i of each team exchanges with GPU i of the others, so a stage of tensor
                width t has t groups. Context-parallel GPUs hold the same parameters: they are of the same group.

    sharding    after the last backward                                 then the optimizer's step      then
    none        all-reduce: 2(k-1) messages of 1/k                      on all parameters
    zero1       reduce-scatter: k-1 messages of 1/k                     on 1/k of the parameters       all-gather: k-1
    zero2       a reduce-scatter after every backward                   as zero1                       as zero1
    zero3       as zero2, and an all-gather before every forward        on 1/k                         nothing
                and backward, one action ahead

With a smaller `sharding_size` s, k replicas form k/s groups that shard; what a GPU keeps of the sum is all-reduced
between the groups. With `gradient_overlap`, all but the last bucket of gradients is reduced while the last backward
runs, and all but the first bucket of parameters is gathered while the first forward does.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from pipesim.base import units
from pipesim.base.arrays import Ints, Ragged
from pipesim.base.errors import InputError
from pipesim.core.cluster import Cluster
from pipesim.core.program import ALL_GATHER, ALL_REDUCE, BACKWARD, FORWARD, INPUT, WEIGHT
from pipesim.lowering.messages import Alone, AloneColumns, alone, alone_each
from pipesim.lowering.setup import Groups, Setup
from pipesim.lowering.tasks import PAUSES, RINGS, RingTasks, Sort, Tasks

BUCKET = 40e6
"""Parameters in a bucket, as Megatron-LM's default."""
NOTHING: Ints = np.zeros(0, np.int64)


class RingGroups(NamedTuple):
    """A collective of each of some groups: bytes on each GPU, and how often they go round (an all-reduce: twice)."""

    groups: Groups
    rounds: int
    size: float
    kind: int = ALL_REDUCE


@dataclass(frozen=True, slots=True)
class Exchange:
    """What one stage exchanges: its groups of GPUs, and bytes of gradients and of parameters on each GPU.

    Parameters that are not trained have no gradient, and are gathered only where they are divided (zero3).
    """

    stage: int
    groups: tuple[tuple[str, ...], ...]
    gradients: float
    parameters: float
    shards: int

    @property
    def size(self) -> int:
        """The GPUs of a group."""
        return len(self.groups[0])


def exchange_of(setup: Setup, stage: int) -> Exchange:
    """The groups of a stage, of GPUs that hold the same parameters."""
    plan, options = setup.plan, setup.options
    teams, widths = [plan.team(device) for device in plan.stages[stage].devices], plan.widths(stage)
    tensor, context = widths.tensor, widths.context
    groups = tuple(tuple(team[part * tensor + i] for team in teams for part in range(context)) for i in range(tensor))
    held = setup.parameter_bytes(stage)
    factor = 1.0 if options.gradient_bytes is None else options.gradient_bytes
    trained = held - setup.frozen_bytes(stage)
    gathered = held if options.sharding == "zero3" else trained
    return Exchange(stage, groups, trained * factor, gathered, shards(setup, stage))


def shards(setup: Setup, stage: int, replicas: int | None = None) -> int:
    """Over how many GPUs the optimizer's state and step of a stage are divided; of so many replicas, if given."""
    if setup.options.sharding == "none":
        return 1
    copies = (replicas or len(setup.plan.stages[stage].devices)) * setup.plan.context
    size = min(setup.options.sharding_size or copies, copies)
    if copies % size:
        raise InputError(
            f"stages[{stage}]: {copies} replicas found; a multiple of sharding_size = {size} was expected, or fewer"
        )
    return size


def add_exchanges(tasks: Tasks, setup: Setup) -> None:
    """Reductions of every stage, the sum of a tied embedding, the norm, and gathers after the optimizer's step."""
    if not (tasks.optimizer_of or _may_exchange(setup)):
        return
    exchanges = [exchange_of(setup, n) for n in range(len(setup.plan.stages))]
    if setup.options.gradient_overlap:
        for exchange in exchanges:
            _add_first_gathers(tasks, setup, exchange)
    ends = [_add_reduction(tasks, setup, exchange) for exchange in exchanges]
    if setup.options.tied_all_reduce:
        _add_tied(tasks, setup, ends)
    if setup.options.gradient_norm and len(setup.plan.gpus) > 1:
        ends = [_add_norm(tasks, setup, ends)] * len(ends)
    for exchange, done in zip(exchanges, ends, strict=True):
        _add_step(tasks, setup, exchange, done)


def _may_exchange(setup: Setup) -> bool:
    """Whether any GPUs hold the same parameters, or sum the norm."""
    options, plan = setup.options, setup.plan
    return max(plan.replication) * plan.context > 1 or options.tied_all_reduce or options.gradient_norm


def _slots(setup: Setup, stage: int) -> range:
    return range(setup.first_slot[stage], setup.first_slot[stage + 1])


def _add_reduction(tasks: Tasks, setup: Setup, exchange: Exchange) -> Ints:
    """What sums a stage's gradients; returns what the optimizer's step must wait for."""
    slots = _slots(setup, exchange.stage)
    last = setup.last_backward[slots.start : slots.stop]
    last = last[last >= 0]
    if setup.options.sharding == "zero3" and exchange.shards > 1 and exchange.parameters:
        _add_gathers(tasks, setup, exchange)
    if exchange.size == 1 or not exchange.gradients:
        return last
    if setup.options.sharding in {"zero2", "zero3"} and exchange.shards > 1:
        steps = [_reduce(tasks, setup, exchange, 1.0, needed) for needed in _backwards(setup, exchange.stage)]
        return np.concatenate([last, *steps])
    last_part = _bucket_part(setup, exchange)
    if not setup.options.gradient_overlap or last_part == 1:
        return _reduce(tasks, setup, exchange, 1.0, last)
    # The first bucket is full when the last backwards have begun and have done their part for it.
    first_ready = int(_duration(tasks, last).min() * last_part)
    begun = _add_pause(tasks, setup, exchange.stage, first_ready, _awaited(tasks, setup, last))
    early = _reduce(tasks, setup, exchange, 1 - last_part, begun)
    late = _reduce(tasks, setup, exchange, last_part, last)
    tasks.needs.append((np.repeat(late, len(early)), np.tile(early, len(late))))
    return np.concatenate([early, late])


def _awaited(tasks: Tasks, setup: Setup, actions: Ints) -> Ints:
    """What these actions wait for, the action before each on its lane included: they begin when the last has ended."""
    waiting, awaited = tasks.awaited()
    before = actions[~np.isin(actions, setup.schedule.starts[:-1])] - 1
    return np.unique(np.concatenate([before, awaited[np.isin(waiting, actions)]]))


def _add_pause(tasks: Tasks, setup: Setup, stage: int, lasts: int, needs: Ints) -> Ints:
    """A task without bytes and links, that lasts so many ns after all these have ended."""
    index = tasks.add(1, kind=ALL_REDUCE, stage=stage, source=0, target=0, duration=lasts, delay=lasts)
    tasks.add_routes(Ragged.of([()]), None, NOTHING)
    tasks.collectives += 1
    if setup.fold is not None:
        tasks.name_classes(PAUSES, tasks.collectives)
    tasks.needs.append((np.repeat(index, len(needs)), needs))
    return index


def _bucket_part(setup: Setup, exchange: Exchange) -> float:
    """The part of a stage's parameters that is in the last bucket."""
    value = VALUE.get(setup.costs.model.precision, 2.0)
    return min(1.0, BUCKET * value / exchange.parameters)


VALUE = {"fp32": 4.0, "tf32": 4.0}  # bytes of a parameter; otherwise 2


def _duration(tasks: Tasks, action: Ints) -> Ints:
    """Nanoseconds of actions, which are the first tasks."""
    _, _, values = tasks.columns["duration"][0]
    durations: Ints = np.asarray(values)[action]
    return durations


def _backwards(setup: Setup, stage: int) -> Iterable[Ints]:
    """The j-th backwards of all replicas of a stage, for every j."""
    return _nth(setup, stage, (BACKWARD, WEIGHT))


def _nth(setup: Setup, stage: int, kinds: tuple[int, ...]) -> Iterable[Ints]:
    schedule = setup.schedule
    chosen = np.flatnonzero((schedule.stage == stage) & np.isin(schedule.kind, kinds))
    by_rank = [chosen[schedule.rank[chosen] == rank] for rank in np.unique(schedule.rank[chosen]).tolist()]
    for j in range(max(map(len, by_rank), default=0)):
        yield np.array([rows[j] for rows in by_rank if j < len(rows)], np.int64)


def _reduce(tasks: Tasks, setup: Setup, exchange: Exchange, part: float, needs: Ints) -> Ints:
    """Sum this part of the gradients, after these tasks; returns the tasks that do so."""
    size, shard = exchange.gradients * part, exchange.shards
    if setup.options.sharding == "none" or shard == 1:
        return _add_rings(tasks, setup, exchange.stage, RingGroups(exchange.groups, 2, size), needs)
    inner, outer = _divided(exchange)
    done = _add_rings(tasks, setup, exchange.stage, RingGroups(inner, 1, size), needs)
    if outer:
        done = _add_rings(tasks, setup, exchange.stage, RingGroups(outer, 2, size / shard), done)
    return done


def _divided(exchange: Exchange) -> tuple[tuple[tuple[str, ...], ...], tuple[tuple[str, ...], ...]]:
    """The groups that shard, neighbours, and those of GPUs that keep the same shard."""
    shard = exchange.shards
    if shard == exchange.size:
        return exchange.groups, ()
    inner = tuple(group[i : i + shard] for group in exchange.groups for i in range(0, len(group), shard))
    return inner, tuple(group[i::shard] for group in exchange.groups for i in range(shard))


def _add_tied(tasks: Tasks, setup: Setup, ends: list[Ints]) -> None:
    """The embedding's gradient is summed between the first stage and the one with the head that uses its matrix."""
    size, first, last = setup.tied_bytes, 0, len(setup.plan.stages) - 1
    if not size:
        return
    factor = 1.0 if setup.options.gradient_bytes is None else setup.options.gradient_bytes
    done = np.concatenate([ends[first], ends[last]])
    both = _add_rings(tasks, setup, first, RingGroups(_tied_groups(setup), 2, size * factor), done)
    ends[first], ends[last] = np.concatenate([ends[first], both]), np.concatenate([ends[last], both])


def _tied_groups(setup: Setup) -> Groups:
    """GPUs of the first and of the last stage that hold the same part of the embedding."""
    plan = setup.plan
    pairs = zip(plan.stages[0].devices, plan.stages[-1].devices, strict=False)
    both = (pair for one, other in pairs for pair in zip(plan.team(one), plan.team(other), strict=False))
    return tuple((one, other) for one, other in both if one != other)


def _add_norm(tasks: Tasks, setup: Setup, ends: list[Ints]) -> Ints:
    """A number that all devices sum: a task without bytes that needs all of them, as long as a tree's latencies."""
    gpus = setup.plan.gpus
    delay = setup.cluster.route(gpus[0], gpus[-1]).delay * 2 * np.ceil(np.log2(len(gpus)))
    summed = _add_pause(tasks, setup, 0, units.ns_of(delay), np.unique(np.concatenate(ends)))
    tasks.norm = int(summed[0])
    return summed


def _add_step(tasks: Tasks, setup: Setup, exchange: Exchange, done: Ints) -> None:
    """The optimizer's step waits for the gradients; where it is sharded, parameters are gathered after it."""
    of = tasks.optimizer_of
    steps = np.array([of[slot] for slot in _slots(setup, exchange.stage) if slot in of], np.int64)
    if len(steps):
        tasks.needs.append((np.repeat(steps, len(done)), np.tile(done, len(steps))))
    if not setup.options.gradient_overlap and _gathers_after_step(setup, exchange):
        gathered = RingGroups(_divided(exchange)[0], 1, exchange.parameters, ALL_GATHER)
        _add_rings(tasks, setup, exchange.stage, gathered, np.concatenate([done, steps]))


def _gathers_after_step(setup: Setup, exchange: Exchange) -> bool:
    """Whether each GPU of an exchange steps on a shard of parameters that all of them hold."""
    return setup.options.sharding in {"zero1", "zero2"} and exchange.shards > 1 and exchange.parameters > 0


def _add_first_gathers(tasks: Tasks, setup: Setup, exchange: Exchange) -> None:
    """In a steady state the gathers of the step before run beside the first forwards: they stand at the beginning."""
    if not _gathers_after_step(setup, exchange):
        return
    stage, groups, part = exchange.stage, _divided(exchange)[0], _bucket_part(setup, exchange)
    bucket = RingGroups(groups, 1, exchange.parameters * part, ALL_GATHER)
    begun = _add_rings(tasks, setup, stage, bucket, NOTHING)
    _add_needs(tasks, setup, _first(setup, stage, (FORWARD,)), begun)
    if part < 1:
        others = RingGroups(groups, 1, exchange.parameters * (1 - part), ALL_GATHER)
        rest = _add_rings(tasks, setup, stage, others, begun)
        _add_needs(tasks, setup, _first(setup, stage, (BACKWARD, INPUT)), rest)


def _first(setup: Setup, stage: int, kinds: tuple[int, ...]) -> Ints:
    return next(iter(_nth(setup, stage, kinds)), NOTHING)


def _add_needs(tasks: Tasks, setup: Setup, actions: Ints, awaited: Ints) -> None:
    """Each of these actions, or of a pair its first, waits for all of those tasks."""
    tasks.needs.append((np.repeat(setup.cell_start[actions], len(awaited)), np.tile(awaited, len(actions))))


def _add_gathers(tasks: Tasks, setup: Setup, exchange: Exchange) -> None:
    """A gather of the parameters before each forward and backward, while the action before that one runs."""
    gathered = RingGroups(_divided(exchange)[0], 1, exchange.parameters, ALL_GATHER)
    starts = setup.schedule.starts[:-1]
    for kinds in ((FORWARD,), (BACKWARD, INPUT)):
        for actions in _nth(setup, exchange.stage, kinds):
            here = setup.cell_start[actions]
            before = setup.cell_start[here[~np.isin(here, starts)] - 1]
            ahead = before[~np.isin(before, starts)] - 1
            _add_needs(tasks, setup, actions, _add_rings(tasks, setup, exchange.stage, gathered, ahead))


class RingEdge(NamedTuple):
    """From one GPU to the next of a ring; how many GPUs are in the ring, and how many rings its group has."""

    source: str
    target: str
    length: int
    rings: int


def ring_edges(setup: Setup, groups: Groups) -> list[RingEdge]:
    """A ring for each group, or several where they can use several NICs."""
    found: list[RingEdge] = []
    for group in groups:
        rings = _rings_of(setup, group)
        for ring in rings:
            found += [RingEdge(a, b, len(ring), len(rings)) for a, b in pairwise((*ring, ring[0]))]
    return found


def _rings_of(setup: Setup, group: Sequence[str]) -> list[list[str]]:
    return rings_of(group, setup.cluster) if setup.options.rings == "all" else [in_ring(group, setup.cluster)]


def collectives_of(setup: Setup) -> Iterable[Groups]:
    """The groups of all collectives that a program on links may have."""
    for n in range(len(setup.plan.stages)):
        exchange = exchange_of(setup, n)
        inner, outer = _divided(exchange) if exchange.shards > 1 else (exchange.groups, ())
        yield from (groups for groups in (inner, outer) if groups and len(groups[0]) > 1)
    yield _tied_groups(setup)


def _add_rings(tasks: Tasks, setup: Setup, stage: int, collective: RingGroups, needs: Ints) -> Ints:
    """The edges of rings, with rounds x (k-1) messages each; all of them wait for all of `needs`."""
    groups, rounds, size, kind = collective
    edges, streams = ring_edges(setup, groups), NOTHING
    tasks.collectives += 1
    if setup.fold is not None:
        streams = setup.fold.rings[groups] + np.arange(len(edges))
        kept = np.flatnonzero(setup.fold.keeps(streams))
        edges, streams = [edges[n] for n in kept.tolist()], streams[kept]
    if setup.sharing_rule.has_links:
        messages = _edges_alone(setup, edges, size, rounds)
    else:
        edges, worst_of = [], list[Alone]()
        for group in groups:  # all at the pace of the worst pair inside the group, on no link
            rings, k = _rings_of(setup, group), len(group)
            part = size / k / len(rings)
            worst = max(alone(setup.cluster, a, b, part, rounds * (k - 1)) for a in group for b in group if a != b)
            edges.append(RingEdge(rings[0][0], rings[0][1], k, len(rings)))
            worst_of.append(worst._replace(limit=np.inf, media=()))
        messages = AloneColumns.of(worst_of)
    index = tasks.add(
        len(edges),
        kind=kind,
        stage=stage,
        source=setup.represented(np.array([setup.rank_of_gpu[edge.source] for edge in edges], np.int64)),
        target=setup.represented(np.array([setup.rank_of_gpu[edge.target] for edge in edges], np.int64)),
        duration=messages.duration,
        delay=messages.delay,
        size=messages.size,
        limit=messages.limit,
    )
    tasks.add_routes(messages.routes, setup.fold, streams)
    tasks.needs.append((np.repeat(index, len(needs)), np.tile(needs, len(index))))
    if setup.fold is not None:
        tasks.name_classes(RINGS, setup.fold.streams[streams], tasks.collectives)
    elif setup.sharing_rule.has_links:
        _record_rings(tasks, setup, index, edges, collective)
    return index


def _edges_alone(setup: Setup, edges: list[RingEdge], size: float, rounds: int) -> AloneColumns:
    """What the messages on each edge cost together."""
    if not edges:
        return AloneColumns.of([])
    place = setup.cluster.index
    columns = [(place[a], place[b], size / k / n, rounds * (k - 1)) for a, b, k, n in edges]
    source, target, parts, times = (np.array(column) for column in zip(*columns, strict=True))
    return alone_each(setup.cluster, source, target, parts, times)


def _record_rings(tasks: Tasks, setup: Setup, index: Ints, edges: list[RingEdge], collective: RingGroups) -> None:
    """Between which GPUs a collective is."""
    place = setup.cluster.index
    source, target = np.array([(place[edge.source], place[edge.target]) for edge in edges]).T
    tasks.ends.append((index, source, target))
    firsts, at = [], 0
    while at < len(edges):
        firsts.append(at)
        at += edges[at].length
    length = np.array([edges[first].length for first in firsts])
    parts = np.array([collective.size / edges[first].length / edges[first].rings for first in firsts])
    whole: Sort = "all_gather" if collective.kind == ALL_GATHER else "reduce_scatter"
    sort: Sort = "all_reduce" if collective.rounds == 2 else whole
    tasks.rings.append(RingTasks(sort, index[0] + np.array(firsts), length, parts))


def in_ring(devices: Sequence[str], cluster: Cluster) -> list[str]:
    """Node after node, so that a ring enters each once; otherwise in the order of the plan."""
    nodes = [cluster.device(name).node for name in devices]
    first = {node: place for place, node in reversed(list(enumerate(nodes)))}
    return [name for _, name in sorted(zip(nodes, devices, strict=True), key=lambda pair: first[pair[0]])]


def rings_of(devices: Sequence[str], cluster: Cluster) -> list[list[str]]:
    """As many rings as every node has of these devices, each entering nodes at another of them, over its NIC."""
    by_node: dict[str, list[str]] = {}
    for name in devices:
        by_node.setdefault(cluster.device(name).node, []).append(name)
    here = {len(names) for names in by_node.values()}
    if len(by_node) == 1 or len(here) > 1:
        return [in_ring(devices, cluster)]
    return [[name for names in by_node.values() for name in (*names[r:], *names[:r])] for r in range(here.pop())]
