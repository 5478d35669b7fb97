"""Stages on submeshes, the sum of their latencies weighed against the slowest: after Alpa's outer level."""

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from pipesim.base.arrays import Floats, Ints
from pipesim.base.errors import InputError
from pipesim.base.kernels import suited
from pipesim.core import plan as plans
from pipesim.core.cluster import Cluster
from pipesim.core.costs import Costs
from pipesim.core.limits import PER_PAIR
from pipesim.core.members import PlannerInfo, ProblemSize
from pipesim.core.model import Model
from pipesim.core.plan import Plan, Stage
from pipesim.planners.groups import by_node, kinds_of, layer_seconds, prefix, ring, worst_bandwidths

SMALL = 100_000  # submeshes x layers^2: up to here a call takes milliseconds as plain Python


class _Sliced(NamedTuple):
    """Stages that cover all layers and all devices: the sum of latencies, the slowest, and (layers, devices) bounds."""

    total: float
    slowest: float
    layers: tuple[int, ...]
    devices: tuple[int, ...]

    def weighed(self, more: int) -> float:
        """Seconds of an iteration: the first microbatch, and `more` of them at the slowest stage's pace."""
        return self.total + more * self.slowest


def table_bytes(size: ProblemSize) -> float:
    """Bytes of the bandwidths between devices, and of two tables of layers x layers for each submesh."""
    meshes = size.kinds * (size.devices_per_node.bit_length() + size.nodes - 1)
    return PER_PAIR * size.devices**2 + 8 * (2 * meshes + 2) * size.layers**2


@PlannerInfo(tables=table_bytes, look=5)
def alpa(model: Model, cluster: Cluster, costs: Costs, microbatches: int) -> Plan:
    """The least sum of stage latencies + (microbatches - 1) x the slowest, over stages on submeshes; all devices used.

    A submesh is 1, 2, 4, ... devices inside a node, or one or more whole nodes. A stage's latency is forward and
    backward of a microbatch split evenly over its devices, plus its all-reduce divided by the microbatches: Alpa's
    choice of sharding for every operator, an integer program, is not implemented. Submeshes are taken node by node in
    the cluster's order, so that each has the times of its own devices and links; Alpa chooses sizes first and places
    them afterwards, which allows a few more sequences (2, 4, 2 devices on two nodes of 4).
    Ignores transfers between stages, as Alpa does, latencies of links, and memory.
    """
    plans.check_microbatches(microbatches)
    order = [position for node in by_node(cluster) for position in node]
    meshes = _submeshes([len(node) for node in by_node(cluster)])
    best = _best(_problem(meshes, order, cluster, costs, microbatches), microbatches)
    names = [cluster.devices[position].name for position in order]
    return Plan(
        model=model.name,
        layers=len(model),
        microbatches=microbatches,
        stages=tuple(
            Stage(a, b, tuple(names[i:j]))
            for (a, b), (i, j) in zip(pairwise(best.layers), pairwise(best.devices), strict=True)
        ),
        planner="alpa",
        objective_s=best.weighed(microbatches - 1),
    )


def _submeshes(sizes: list[int]) -> list[tuple[int, int]]:
    """(first device, the one after the last), in order of the first, for nodes of these sizes.

    Powers of two inside a node, and whole nodes.

    a b c | d e      a, ab, abc, abcde, b, bc, c, d, de, e
    """
    ends = [0, *np.cumsum(sizes).tolist()]
    inside = {
        (start, start + (1 << power))
        for first, last in pairwise(ends)
        for start in range(first, last)
        for power in range((last - start).bit_length())
    }
    whole = {(first, last) for n, first in enumerate(ends) for last in ends[n + 1 :]}
    return sorted(inside | whole)


class _Problem(NamedTuple):
    """Submeshes in order of their first device, and the latencies of each."""

    meshes: Ints  # [mesh]: first device, the one after the last, which latencies
    latency: Floats  # [which, b, a]: seconds of layers a .. b-1

    def least(self, bound: float) -> _Sliced | None:
        """The least sum of latencies, over stages that are all below the bound."""
        kernel = suited(sliced, large=len(self.meshes) * self.latency[0].size > SMALL)
        best, start, first = kernel(self.meshes, self.latency, bound)
        return self._traced(start, first) if np.isfinite(best[-1, -1]) else None

    def _traced(self, start: Ints, first: Ints) -> _Sliced:
        devices, layers = [len(start) - 1], [start.shape[1] - 1]
        number = {(i, j): which for i, j, which in self.meshes.tolist()}
        seconds = []
        while devices[-1] > 0:
            j, b = devices[-1], layers[-1]
            i, a = int(first[j, b]), int(start[j, b])
            seconds.append(float(self.latency[number[i, j], b, a]))
            devices.append(i)
            layers.append(a)
        return _Sliced(sum(seconds), max(seconds), tuple(layers[::-1]), tuple(devices[::-1]))


def _problem(
    meshes: list[tuple[int, int]], order: list[int], cluster: Cluster, costs: Costs, microbatches: int
) -> _Problem:
    """The seconds of a microbatch on each submesh; equal submeshes share them."""
    between, parameters = worst_bandwidths(cluster), prefix(costs.model.trained_bytes)
    number: dict[tuple[frozenset[str], int, float], int] = {}
    latency: list[Floats] = []
    alike: list[int] = []
    for first, last in meshes:
        group = order[first:last]
        kinds, pace = frozenset(kinds_of(cluster, group)), ring(between, group)
        alike.append(number.setdefault((kinds, len(group), pace), len(latency)))
        if alike[-1] == len(latency):
            reduce = (parameters[None, :] - parameters[:, None]) * (pace / microbatches)
            latency.append(layer_seconds(costs, sorted(kinds), 1 / len(group)) + reduce)
    return _Problem(np.column_stack([np.array(meshes), alike]), np.array([one.T for one in latency]))


def sliced(meshes: Ints, latency: Floats, bound: float) -> tuple[Floats, Ints, Ints]:
    """The least sum of latencies that are all below the bound, with each stage's first layer and device.

    best[j, b] = least over submeshes i .. j and layers a < b of best[i, a] + the latency of a .. b-1

    The more layers, the longer the stage: from a = b - 1 down, the search ends where it is too slow.
    """
    devices, layers = 0, latency.shape[1] - 1
    for m in range(len(meshes)):
        devices = max(devices, meshes[m, 1])
    best = np.full((devices + 1, layers + 1), np.inf)
    start, first = np.zeros(best.shape, np.int64), np.zeros(best.shape, np.int64)
    best[0, 0] = 0.0
    for m in range(len(meshes)):
        i, j, which = meshes[m]
        for b in range(1, layers + 1):
            for a in range(b - 1, -1, -1):
                own = latency[which, b, a]
                if own >= bound or own >= best[j, b]:
                    break
                if own + best[i, a] < best[j, b]:
                    best[j, b], start[j, b], first[j, b] = own + best[i, a], a, i
    return best, start, first


def _best(problem: _Problem, microbatches: int) -> _Sliced:
    """The best over every bound t_max on the slowest stage, of which few are tried.

    The plan found below a bound has the least sum of all plans below it. Let s be its slowest stage: a plan whose
    slowest stage is between s and the bound has neither a lesser sum nor a lesser slowest stage, so only bounds up to s
    remain; or up to a lower one, if only a slowest stage below it can compensate for the larger sum. They are halved,
    and the plans of a half have no lesser sum than the plan found, and no slowest stage below the half.
    """
    more = microbatches - 1
    best = problem.least(np.inf)
    if best is None:
        raise InputError("times of layers must be finite")
    left = [(0.0, best.slowest, best.total)]  # plans with a slowest stage from .. to, and what their sum is at least
    while left:
        low, high, total = left.pop()
        if more:
            high = min(high, (best.weighed(more) - total) / more)
        if high <= low or total + more * low > best.weighed(more):
            continue
        found = problem.least(high)
        if found is None:
            continue
        if (found.weighed(more), -found.slowest) < (best.weighed(more), -best.slowest):
            best = found
        if found.slowest > low:
            middle = (low + found.slowest) / 2
            left += [(middle, found.slowest, found.total), (low, middle, found.total)]
    return best
