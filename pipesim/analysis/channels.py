"""The abstract pipeline that planners reason about: stages, and channels between them, as machines.

    F_1 -> cF_1 -> F_2 -> ... -> cF_S-1 -> [F_S then B_S] -> cB_S-1 -> B_S-1 -> ... -> cB_1 -> B_1

A microbatch is a chain of these 4S - 3 blocks. A channel is one half-duplex machine (our assumption about the SPP
paper, of which only the abstract was available), or two, one each way (`full`). Times are whole nanoseconds.

PE, the order of execution in our reconstruction of SPP, is *cycle order*: the smallest m + j first (microbatch m, block
j), backward first among equals; a machine that becomes idle takes the first block of that order whose predecessor is
done.
"""

import functools
import heapq
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pipesim.base import units
from pipesim.base.arrays import Ints
from pipesim.base.kernels import suited
from pipesim.core.cluster import Cluster
from pipesim.core.costs import Costs, Phase
from pipesim.core.plan import Plan
from pipesim.lowering.messages import alone

Group = tuple[str, ...]
Known = dict[tuple[object, ...], tuple[int, ...]]

MANY = 100_000  # blocks; from here on the import of numba pays
MOST_GROUPS = 10_000  # pairs of groups whose routes a cluster keeps


@dataclass(frozen=True, slots=True, eq=False)
class Pipeline:
    """Nanoseconds of each stage's forward, backward and all-reduce, and of each channel's messages, per microbatch."""

    forward: Ints
    backward: Ints
    ahead: Ints  # activations over channel n, from stage n to n + 1
    back: Ints  # gradients over channel n, from stage n + 1 to n
    all_reduce: Ints
    microbatches: int

    @property
    def cycle(self) -> int:
        """The busiest machine's time per microbatch."""
        return int(max((self.forward + self.backward).max(), (self.ahead + self.back).max(initial=0)))


class Execution(NamedTuple):
    """What PE does: when each stage's last backward ends, and the order of each stage's actions."""

    ends: Ints
    order: Ints  # [stage, position]: 2 m for the forward of microbatch m, 2 m + 1 for its backward

    def time(self, pipeline: Pipeline) -> int:
        """When the last all-reduce is over."""
        return int((self.ends + pipeline.all_reduce).max())


def pipeline_of(plan: Plan, costs: Costs, cluster: Cluster, known: Known | None = None) -> Pipeline:
    """The abstract pipeline of a plan whose replicas split each microbatch, at the pace of the slowest of a group.

    `known` keeps what stages and channels take, for plans of one model and cluster that have most of them in common.
    """
    known = {} if known is None else known
    stages = plan.stages
    one = [_of_stage(plan, costs, cluster, n, known) for n in range(len(stages))]
    between = [_of_cut(plan, costs, cluster, n, known) for n in range(len(stages) - 1)]
    forward, backward, all_reduce = np.array(one, np.int64).T
    ahead, back = np.array(between, np.int64).reshape(-1, 2).T
    return Pipeline(forward, backward, ahead, back, all_reduce, plan.microbatches)


def _of_stage(plan: Plan, costs: Costs, cluster: Cluster, n: int, known: Known) -> tuple[int, ...]:
    """Forward, backward and all-reduce of a stage."""
    key = plan.replicas, plan.stages[n]
    if key not in known:
        both = (units.ns_of(_seconds(plan, costs, cluster, n, phase)) for phase in ("forward", "backward"))
        known[key] = *both, _all_reduce_ns(plan, costs, cluster, n)
    return known[key]


def _of_cut(plan: Plan, costs: Costs, cluster: Cluster, n: int, known: Known) -> tuple[int, ...]:
    """A message across a cut, ahead and back."""
    here, there = plan.stages[n], plan.stages[n + 1]
    key = plan.replicas, here.stop, here.devices, there.devices
    if key not in known:
        ends = (n, n + 1), (n + 1, n)
        known[key] = tuple(_channel_ns(plan, costs, cluster, *each) for each in ends)
    return known[key]


def stage_ns(plan: Plan, costs: Costs, cluster: Cluster, phase: Phase) -> Ints:
    """Nanoseconds of one microbatch on each stage, at the pace of its slowest replica."""
    return units.to_ns(np.array([_seconds(plan, costs, cluster, n, phase) for n in range(len(plan.stages))]))


def _seconds(plan: Plan, costs: Costs, cluster: Cluster, n: int, phase: Phase) -> float:
    stage = plan.stages[n]
    kinds = {cluster.device(device).kind for device in stage.devices}
    return max(costs.seconds_of(kind, plan.share(n), stage.start, stage.stop)[phase] for kind in kinds)


def _channel_ns(plan: Plan, costs: Costs, cluster: Cluster, sender: int, receiver: int) -> int:
    """All pairs send their part at once; the slowest pair sets the pace."""
    cut = plan.stages[min(sender, receiver)].stop - 1
    size = float(costs.model.cut_bytes[cut]) * plan.share(sender) * plan.share(receiver)
    pairs = _sorts_of_pairs(cluster, plan.stages[sender].devices, plan.stages[receiver].devices)
    return _slowest(cluster, pairs, size, 1)


def _all_reduce_ns(plan: Plan, costs: Costs, cluster: Cluster, n: int) -> int:
    """A ring at the pace of the worst pair inside the stage."""
    stage, k = plan.stages[n], len(plan.stages[n].devices)
    part = costs.model.parameters_of(stage.start, stage.stop) / k
    pairs = _sorts_of_pairs(cluster, stage.devices, stage.devices) if part else ()
    return _slowest(cluster, pairs, part, 2 * (k - 1))


def _sorts_of_pairs(cluster: Cluster, senders: Group, receivers: Group) -> tuple[int, ...]:
    """One pair of each sort of route from a device of one group to one of the other, for messages of any size."""
    key, known = (senders, receivers), cluster.route_table.sorts
    if key not in known:
        if len(known) >= MOST_GROUPS:
            known.clear()
        a, b = (np.array([cluster.index[name] for name in group], np.int64) for group in (senders, receivers))
        known[key] = sorts_of_routes(cluster, np.repeat(a, len(b)), np.tile(b, len(a)))
    return known[key]


def sorts_of_routes(cluster: Cluster, source: Ints, target: Ints) -> tuple[int, ...]:
    """Of these pairs of devices one of each sort of route, as source * devices + target; none of a device with itself.

    Messages of one size take as long on all routes of a sort.
    """
    table, apart = cluster.route_table, source != target
    codes = source[apart] * len(cluster.devices) + target[apart]
    rows = table.rows(source[apart], target[apart])
    if not table.is_plain[rows].all():
        return tuple(dict.fromkeys(codes.tolist()))
    sorts = zip(table.delay[rows].tolist(), table.bandwidth[rows].tolist(), strict=True)
    return tuple(dict(zip(sorts, codes.tolist(), strict=True)).values())


def slowest(cluster: Cluster, pairs: list[tuple[str, str]], size: float) -> int:
    """Nanoseconds of the slowest pair's message; a device sends itself none."""
    source, target = np.array([(cluster.index[a], cluster.index[b]) for a, b in pairs], np.int64).reshape(-1, 2).T
    return _slowest(cluster, sorts_of_routes(cluster, source, target), size, 1)


def _slowest(cluster: Cluster, pairs: tuple[int, ...], size: float, times: int) -> int:
    """Nanoseconds of the slowest pair's message."""
    names, count = cluster.devices, len(cluster.devices)
    ends = ((names[pair // count].name, names[pair % count].name) for pair in pairs)
    return max((alone(cluster, a, b, size, times).duration for a, b in ends), default=0)


def execute(pipeline: Pipeline, *, full: bool = False) -> Execution:
    """PE: run the pipeline in cycle order."""
    large = pipeline.microbatches * (4 * len(pipeline.forward) - 3) >= MANY
    return Execution(*suited(cycle_order, large=large)(chain_of(pipeline), pipeline.microbatches, full))


class Chain(NamedTuple):
    """The blocks of one microbatch, by kind: 2 q is on machine q upwards, 2 q + 1 downwards.

    machine     0  1  2  ...  last  ...  2  1  0     last = 2 S - 2: the last stage, forward and backward in one
    kind        0  2  4     2 last       5  3  1     machine 2 n is stage n, 2 n + 1 the channel after it
    """

    work: Ints  # nanoseconds
    position: Ints  # j, in the order of the chain
    after: Ints  # the kind of the next block; -1 after the last


def chain_of(pipeline: Pipeline) -> Chain:
    """The blocks of a pipeline."""
    stages = len(pipeline.forward)
    work = np.zeros(4 * stages - 2, np.int64)
    work[::4], work[1::4] = pipeline.forward, pipeline.backward
    work[2::4], work[3::4] = pipeline.ahead, pipeline.back
    work[-2] += work[-1]
    return Chain(work, *_order_of_kinds(stages))


@functools.cache
def _order_of_kinds(stages: int) -> tuple[Ints, Ints]:
    """`position` and `after` of a `Chain`; the last kind, the last stage downwards, is never run."""
    machine, last = np.arange(2 * stages - 1), 2 * stages - 2
    position = np.stack([machine, 2 * last - machine], axis=1).ravel()
    after = np.stack([2 * machine + 2, 2 * machine - 1], axis=1).ravel()
    after[2 * last] = 2 * last - 1
    return position, after


def cycle_order(chain: Chain, microbatches: int, full: bool) -> tuple[Ints, Ints]:  # noqa: C901, FBT001 - one loop over events; Python runs it too, where calls cost more than they do
    """Ends of the last backwards, and orders, of all stages.

    Blocks of one kind become ready in the order of microbatches, so a counter of ready ones is a queue.
    """
    work, position, after = chain
    machines = len(work) // 2
    last_up = 2 * machines - 2
    started, ready = np.zeros(len(work), np.int64), np.zeros(len(work), np.int64)
    busy = np.zeros(len(work), np.bool_)
    order = np.zeros(((machines + 1) // 2, 2 * microbatches), np.int64)
    placed = np.zeros((machines + 1) // 2, np.int64)
    ends = np.zeros((machines + 1) // 2, np.int64)
    ready[0] = microbatches
    events = [(0, -1)]  # (time, kind of the block that ends); -1 starts everything
    touched = [0]
    while len(events) > 0:
        now = events[0][0]
        touched.clear()
        while len(events) > 0 and events[0][0] == now:  # all that ends now is finished first
            _, kind = heapq.heappop(events)
            touched.append(max(kind, 0) // 2)
            if kind < 0:
                continue
            busy[kind] = False
            if after[kind] >= 0:
                ready[after[kind]] += 1
                touched.append(after[kind] // 2)
            if kind % 4 == 1 or kind == last_up:
                ends[kind // 4] = now
        for machine in touched:
            up, down = 2 * machine, 2 * machine + 1
            apart = full and machine % 2 == 1  # the two directions of a full-duplex channel do not wait for each other
            for _ in range(2):
                can_up = ready[up] > 0 and not busy[up] and (apart or not busy[down])
                can_down = ready[down] > 0 and not busy[down] and (apart or not busy[up])
                if not (can_up or can_down):
                    break
                down_first = started[down] + position[down] <= started[up] + position[up]
                kind = down if can_down and (down_first or not can_up) else up
                ready[kind] -= 1
                busy[kind] = True
                heapq.heappush(events, (now + work[kind], kind))
                if machine % 2 == 0:
                    stage = machine // 2
                    order[stage, placed[stage]] = 2 * started[kind] + kind % 2
                    placed[stage] += 1
                    if kind == last_up:
                        order[stage, placed[stage]] = 2 * started[kind] + 1
                        placed[stage] += 1
                started[kind] += 1
    return ends, order


def theorem_bound(pipeline: Pipeline) -> int:
    """The most that cycle order may take: max over stages n = 1..S of (M + 4S - 2n - 2) C + A_n.

    Proven for the static order in which block (m, j) takes cycle m + j - 1; for PE it is tested.
    """
    stages = len(pipeline.forward)
    n = np.arange(1, stages + 1)
    return int(((pipeline.microbatches + 4 * stages - 2 * n - 2) * pipeline.cycle + pipeline.all_reduce).max())


def work_bound(pipeline: Pipeline) -> int:
    """The least that any order takes: each stage's own work, and its all-reduce after it."""
    work = pipeline.microbatches * (pipeline.forward + pipeline.backward)
    return int((work + pipeline.all_reduce).max())
