"""The abstract pipeline that schedulers order: the lane of each action, its duration, the time of each message.

lane     one device, or the replicas of a stage that split each microbatch, which do the same
slot     a stage on a lane
"""

import itertools
import math
from dataclasses import dataclass

import numpy as np

from pipesim.analysis.channels import slowest, stage_ns
from pipesim.base.arrays import Floats, Ints
from pipesim.core.cluster import Cluster
from pipesim.core.costs import Costs
from pipesim.core.plan import Plan
from pipesim.core.schedule import Schedule


@dataclass(frozen=True, slots=True, eq=False)
class AbstractPipeline:
    """Durations in nanoseconds, and lanes; [stage] where nothing else is stated."""

    ranks: tuple[tuple[int, ...], ...]  # [lane]: its ranks, which all do the same
    slot: Ints  # [stage, microbatch] -> slot
    lane_of: Ints  # [slot]
    stage_of: Ints  # [slot]
    forward: Ints
    backward: Ints
    input: Ints
    weight: Ints
    ahead: Ints  # activations from stage n to n + 1; 0 for the last
    back: Ints  # gradients from stage n to n - 1; 0 for the first
    stash: Floats  # what one microbatch keeps, in chunks: 1 each

    @property
    def stages(self) -> int:
        """The number of stages; each chunk is one."""
        return len(self.forward)

    @property
    def lanes(self) -> int:
        """The number of lanes."""
        return len(self.ranks)

    @property
    def microbatches(self) -> int:
        """The number of microbatches."""
        return int(self.slot.shape[1])

    @property
    def place(self) -> Ints:
        """[stage, microbatch] -> lane."""
        return self.lane_of[self.slot]

    def schedule(self, rows: list[Ints]) -> Schedule:
        """The schedule of all ranks, from a row per lane of (stage, kind, microbatch), optionally with `paired`."""
        by_rank = {rank: row for ranks, row in zip(self.ranks, rows, strict=True) for rank in ranks}
        return Schedule.of_arrays([by_rank[rank] for rank in range(len(by_rank))])


def abstract_pipeline(plan: Plan, costs: Costs, cluster: Cluster) -> AbstractPipeline:
    """The abstract pipeline of a plan."""
    ranks = _lanes(plan)
    lane = {rank: n for n, held in enumerate(ranks) for rank in held}
    rank = {device: r for r, device in enumerate(plan.devices)}
    taking = [
        [lane[rank[device]] for device in (stage.devices[:1] if plan.replicas == "split" else stage.devices)]
        for stage in plan.stages
    ]
    slots = [(n, at) for n, lanes in enumerate(taking) for at in lanes]
    first = np.concatenate([[0], np.cumsum([len(lanes) for lanes in taking])])
    m = np.arange(plan.microbatches)
    hops = [_hop_ns(plan, costs, cluster, n) for n in range(len(plan.stages) - 1)]
    return AbstractPipeline(
        ranks,
        np.array([first[n] + m % len(lanes) for n, lanes in enumerate(taking)], np.int64),
        np.array([at for _, at in slots], np.int64),
        np.array([n for n, _ in slots], np.int64),
        stage_ns(plan, costs, cluster, "forward"),
        stage_ns(plan, costs, cluster, "backward"),
        stage_ns(plan, costs, cluster, "backward_input"),
        stage_ns(plan, costs, cluster, "backward_weight"),
        np.array([*hops, 0], np.int64),
        np.array([0, *hops], np.int64),
        np.full(len(plan.stages), 1.0),
    )


def _lanes(plan: Plan) -> tuple[tuple[int, ...], ...]:
    if plan.replicas == "whole":
        return tuple((rank,) for rank in range(len(plan.devices)))
    rank = {device: r for r, device in enumerate(plan.devices)}
    groups = dict.fromkeys(tuple(sorted(rank[device] for device in stage.devices)) for stage in plan.stages)
    return tuple(groups)


def _hop_ns(plan: Plan, costs: Costs, cluster: Cluster, cut: int) -> int:
    """A message across a cut: between all replicas at once, or between those that take the same microbatch."""
    here, there = plan.stages[cut].devices, plan.stages[cut + 1].devices
    if plan.replicas == "split":
        pairs = list(itertools.product(here, there))
    else:
        pairs = [(here[m % len(here)], there[m % len(there)]) for m in range(math.lcm(len(here), len(there)))]
    size = float(costs.model.cut_bytes[plan.stages[cut].stop - 1]) * plan.share(cut) * plan.share(cut + 1)
    return slowest(cluster, pairs, size)
