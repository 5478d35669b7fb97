"""What no plan, or no schedule, can beat.

For stages 1..S on disjoint devices, any order of microbatches and any schedule that does not split the backward:

    head_n = sum over k < n of ( F_k + cF_k + cB_k + B_k )      what must pass before stage n starts and after it ends
    T     >= M (F_n + B_n) + max( head_n , A_n )                for every stage n

(The forward part of head_n comes before A_n too; we use the weaker bound, which needs only one number carried along.)
For a guessed T a dynamic program over all contiguous plans finds the least head; a smaller head is never worse, so it
is exact, and T is bisected. Everything in it is at its best, whichever devices a plan takes: the fastest kind, and
for r devices that all talk to each other the greatest bandwidth at which any r devices hang together. Where servers
are joined by slow links, a group that is larger than a server has the slow ones inside.
"""

import itertools
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipesim.cluster import Cluster
from pipesim.costs import Costs, Phase
from pipesim.kernels import compiled
from pipesim.plan import Plan
from pipesim.schedule import INPUT, WEIGHT, Schedule

Floats = NDArray[np.float64]

PRECISION = 1e-5  # relative; the certificate is the end of the last interval that no plan reaches


def stage_seconds(plan: Plan, costs: Costs, cluster: Cluster, phase: Phase) -> Floats:
    """Seconds of one microbatch on each stage: on its fastest replica."""
    return np.array(
        [
            min(
                costs.seconds(phase, cluster.devices[cluster.index[device]].kind, plan.share(n))[s.start : s.stop].sum()
                for device in s.devices
            )
            for n, s in enumerate(plan.stages)
        ]
    )


def schedule_bound(plan: Plan, costs: Costs, cluster: Cluster) -> float:
    """Seconds that every schedule of this plan needs which does not split the backward.

        max over stages n of   work_n + what must pass before stage n starts and after it ends
        head_n = sum over k < n of (forward_k + backward_k);    work_n = M (forward_n + backward_n)

    With whole replication a stage's replicas share its microbatches. Chunks on one device share the device, and
    transfers take time: both are left out, so the bound holds but is not reached.
    """
    both = stage_seconds(plan, costs, cluster, "forward") + np.minimum(
        stage_seconds(plan, costs, cluster, "backward"), stage_seconds(plan, costs, cluster, "backward_first")
    )
    head = np.concatenate([[0.0], np.cumsum(both)[:-1]])
    replicas = np.array(plan.replication) if plan.replicas == "whole" else np.ones(len(plan.stages))
    passing = np.ceil(plan.microbatches / replicas)
    return float((passing * both + head).max())


def plan_bound(costs: Costs, cluster: Cluster, microbatches: int) -> float:
    """Seconds that every plan of one stage per device needs, on any order of devices, with any unsplit schedule.

    Holds for replicas that split microbatches and for those that take them whole. Times are rounded to nanoseconds in a
    simulation; what that can gain is taken off.
    """
    tables = _tables(costs, cluster)
    low = max(total_work(costs, cluster, microbatches), single_stage(costs, cluster, microbatches))
    high = max(low, float(microbatches * tables[0][1, -1])) * (1 + PRECISION)
    if _reachable(tables, microbatches, low):
        high = low
    while high - low > PRECISION * high:
        middle = (low + high) / 2
        if _reachable(tables, microbatches, middle):
            high = middle
        else:
            low = middle
    return max(0.0, low - (2 * microbatches + 4 * len(cluster.devices)) * 1e-9)


def bound_for(plan: Plan, schedule: Schedule, costs: Costs, cluster: Cluster) -> float:
    """What a plan and its schedule can be held against: `plan_bound` where that speaks of such, else the work.

    It does not speak of several stages on one device, nor of schedules that split the backward.
    """
    simple = all(len(held) == 1 for held in plan.chunks) and not np.isin(schedule.kind, [INPUT, WEIGHT]).any()
    return (plan_bound if simple else total_work)(costs, cluster, plan.microbatches)


def total_work(costs: Costs, cluster: Cluster, microbatches: int) -> float:
    """All work over all devices: a bound for any plan and schedule, several stages on a device included.

    Each layer on as many replicas of the fastest kind as take the least of the devices' time, whole or in parts.
    """
    devices = len(cluster.devices)
    least = np.full(len(costs.model), np.inf)
    for kind, r in itertools.product(_kinds(cluster), range(1, devices + 1)):
        split = costs.seconds("backward_input", kind, 1 / r) + costs.seconds("backward_weight", kind, 1 / r)
        least = np.minimum(least, r * np.minimum(_both(costs, kind, 1 / r), costs.forward(kind, 1 / r) + split))
    return max(0.0, float(microbatches * least.sum() / devices) - (2 * microbatches + 4 * devices) * 1e-9)


def single_stage(costs: Costs, cluster: Cluster, microbatches: int) -> float:
    """The layer that is worst to have in any stage: on as many replicas as suit it best, with their all-reduce."""
    tables = _tables(costs, cluster)
    alone = microbatches * np.diff(tables.work[1:], axis=1) + np.diff(tables.reduce[1:], axis=1)  # [replicas, layer]
    return float(alone.min(axis=0).max())


def _kinds(cluster: Cluster) -> list[str]:
    return list(dict.fromkeys(device.kind for device in cluster.devices))


def _both(costs: Costs, kind: str, share: float) -> Floats:
    backward = np.minimum(costs.backward(kind, share), costs.seconds("backward_first", kind, share))
    return costs.forward(kind, share) + backward


class Tables(NamedTuple):
    """What the program reads, everything at its best; prefix sums over layers."""

    work: Floats  # [r, l]: seconds of a microbatch on r devices, in parts, or whole on each in turn
    passage: Floats  # [r, l]: seconds until it has passed
    reduce: Floats  # [r, l]: seconds of all-reduce
    cut: Floats  # [l]: bytes both ways across the cut before layer l
    channel: Floats  # [r, r']: seconds per byte from r devices to r' others


def _tables(costs: Costs, cluster: Cluster) -> Tables:
    """Of whole microbatches each of r devices has 1/r of the work, but none passes faster than on one device."""
    devices, model = len(cluster.devices), costs.model
    together = group_bandwidths(cluster)
    work, passage, reduce = (np.zeros((devices + 1, len(model) + 1)) for _ in range(3))
    whole = np.min([_both(costs, kind, 1.0) for kind in _kinds(cluster)], axis=0)
    for r in range(1, devices + 1):
        split = np.min([_both(costs, kind, 1 / r) for kind in _kinds(cluster)], axis=0)
        work[r, 1:] = np.cumsum(np.minimum(split, whole / r))
        passage[r, 1:] = np.cumsum(np.minimum(split, whole))
        reduce[r, 1:] = 2 * (r - 1) / r * np.cumsum(model.parameter_bytes) / together[r]
    channel = np.zeros((devices + 1, devices + 1))
    for r, k in itertools.product(range(1, devices), repeat=2):
        if r + k <= devices:  # r k parts between all pairs at once, or the whole between one pair
            channel[r, k] = min(1 / (r * k * together[r + k]), 1 / together[2])
    return Tables(work, passage, reduce, np.concatenate([[0.0], 2 * model.cut_bytes]), channel)


def group_bandwidths(cluster: Cluster) -> Floats:
    """[r]: a bandwidth that no r devices exceed between all of them; infinite for one.

    Links are added from the widest down. Devices that all reach each other at some bandwidth or more are then in one
    component, so r of them cannot before a component has r.
    """
    matrix = np.minimum(cluster.bandwidth_matrix, cluster.bandwidth_matrix.T)
    count = len(matrix)
    found = np.full(count + 1, np.inf)
    component = [{i} for i in range(count)]
    reached = 1
    rows, columns = np.triu_indices(count, 1)
    for at in np.argsort(-matrix[rows, columns], kind="stable").tolist():
        a, b = component[rows[at]], component[columns[at]]
        if a is not b:
            a |= b
            for device in b:
                component[device] = a
            if len(a) > reached:
                found[reached + 1 : len(a) + 1] = matrix[rows[at], columns[at]]
                reached = len(a)
    return found


def _reachable(tables: Tables, microbatches: int, target: float) -> bool:
    return bool(compiled(reachable)(*tables, microbatches, target))


def reachable(  # noqa: PLR0917 - kernels take plain values
    work: Floats, passage: Floats, reduce: Floats, cut: Floats, channel: Floats, microbatches: int, target: float
) -> bool:
    """Whether some plan breaks no stage's inequality for T = target.

    head[l, i, r]     least F + B of all stages and channels up to layer l, on i devices, r of them in the last stage
    before[l, i, r']  the same with the channel to a next stage of r' devices: what passes before that one starts
    """
    devices, layers = work.shape[0] - 1, work.shape[1] - 1
    head = np.full((layers + 1, devices + 1, devices + 1), np.inf)
    for l in range(layers):  # noqa: E741 - the letter of the formulas
        for i in range(devices):
            for k in range(1, devices - i + 1):
                before = 0.0 if l == 0 and i == 0 else np.inf
                for r in range(1, i + 1):
                    before = min(before, head[l, i, r] + cut[l] * channel[r, k])
                if before == np.inf:
                    continue
                for end in range(l + 1, layers + 1):
                    own = microbatches * (work[k, end] - work[k, l])
                    if own + max(before, reduce[k, end] - reduce[k, l]) > target:
                        break  # more layers only make it worse
                    head[end, i + k, k] = min(head[end, i + k, k], before + passage[k, end] - passage[k, l])
    return bool((head[layers] < np.inf).any())
