"""Pipelines side by side: plans whose replicas take whole microbatches, ordered one pipeline at a time.

    stage 0    a0 b0        pipeline 0 is a0, a1 with microbatches 0, 2, 4; pipeline 1 is b0, b1 with 1, 3, 5
    stage 1    a1 b1        each is a plan of its own, in which its microbatches are 0, 1, 2

Pipelines share no device. Two copies of a model in opposite directions are one pipeline, with every microbatch of both.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from pipesim.base.arrays import Ints
from pipesim.base.errors import ScheduleError, within
from pipesim.core.cluster import Cluster
from pipesim.core.costs import Costs
from pipesim.core.plan import Plan
from pipesim.core.schedule import Schedule


@dataclass(frozen=True, slots=True)
class OnePipeline:
    """One pipeline of a plan: the plan of it alone, and which replicas of every stage are in it."""

    plan: Plan
    replicas: tuple[int, ...]
    of: int  # replicas of a stage in the whole plan

    def microbatches(self, own: Ints) -> Ints:
        """The numbers in the whole plan of microbatches of this pipeline."""
        count = len(self.replicas)
        numbers: Ints = self.of * (own // count) + np.array(self.replicas, np.int64)[own % count]
        return numbers


def pipelines_of(plan: Plan) -> list[OnePipeline]:
    """The pipelines of a plan that have microbatches; the plan itself if it is one, or if their widths differ."""
    width = plan.replication[0]
    groups = _groups(plan) if plan.replicas == "whole" and set(plan.replication) == {width} else []
    if len(groups) < 2:
        return [OnePipeline(plan, tuple(range(width)), width)]
    place = {team[0]: n for n, team in enumerate(plan.teams)}
    return [_alone(plan, group, place) for group in groups if group[0] < plan.microbatches]


def _groups(plan: Plan) -> list[tuple[int, ...]]:
    """The replicas that share devices, directly or through others, in order."""
    group_of = list(range(plan.replication[0]))
    first: dict[str, int] = {}
    for stage in plan.stages:
        for replica, device in enumerate(stage.devices):
            here, other = group_of[replica], group_of[first.setdefault(device, replica)]
            if here != other:
                low, high = sorted((here, other))
                group_of = [low if group == high else group for group in group_of]
    return [tuple(n for n, group in enumerate(group_of) if group == wanted) for wanted in sorted(set(group_of))]


def _alone(plan: Plan, group: tuple[int, ...], team_at: dict[str, int]) -> OnePipeline:
    width = plan.replication[0]
    stages = tuple(replace(stage, devices=tuple(stage.devices[n] for n in group)) for stage in plan.stages)
    count = sum(len(range(n, plan.microbatches, width)) for n in group)
    devices = dict.fromkeys(device for stage in stages for device in stage.devices)
    teams = tuple(plan.teams[n] for n in sorted(team_at[device] for device in devices if device in team_at))
    return OnePipeline(replace(plan, stages=stages, microbatches=count, teams=teams), group, width)


def one_by_one(
    scheduler: Callable[[Plan, Costs, Cluster], Schedule], plan: Plan, costs: Costs, cluster: Cluster
) -> Schedule:
    """The schedule of a plan in which each pipeline has the order that the scheduler gives it alone.

    Of pipelines that are alike it is asked once.
    """
    parts = pipelines_of(plan)
    if parts[0].plan is plan:
        return scheduler(plan, costs, cluster)
    known: dict[object, Schedule] = {}
    for part, key in zip(parts, keys := alike(parts, cluster), strict=True):
        if key not in known:
            with within(f"the pipeline of replica {part.replicas[0]}, one of {len(parts)} side by side"):
                known[key] = scheduler(part.plan, costs, cluster)
    return merged(plan, parts, [known[key] for key in keys])


def alike(parts: list[OnePipeline], cluster: Cluster) -> list[object]:
    """For each pipeline a key; equal where kinds of devices, routes and the number of microbatches are."""
    if len(parts) == 1:
        return [None]
    cluster.find_routes(ends for part in parts for ends in _neighbours(part.plan))
    return [_key(part.plan, cluster) for part in parts]


def _neighbours(plan: Plan) -> Iterable[tuple[str, str]]:
    for here, there in pairwise(plan.stages):
        yield from zip(here.devices, there.devices, strict=True)


def _key(plan: Plan, cluster: Cluster) -> object:
    kinds = tuple(cluster.device(device).kind for stage in plan.stages for device in stage.devices)
    routes: list[object] = []
    for a, b in _neighbours(plan):
        if a == b:  # the tensor is there already
            routes.append(None)
            continue
        route = cluster.route(a, b)
        routes.append((route.delay, route.bandwidth, () if cluster.is_plain else route.links))
    return plan.microbatches, kinds, tuple(routes)


def merged(plan: Plan, parts: list[OnePipeline], schedules: list[Schedule]) -> Schedule:
    """The schedule of a plan from those of its pipelines, with the ranks and the microbatches of the plan."""
    rank = {device: r for r, device in enumerate(plan.devices)}
    rows = [np.zeros((0, 4), np.int64) for _ in rank]  # a pipeline without microbatches does nothing
    for part, schedule in zip(parts, schedules, strict=True):
        if len(schedule) != len(part.plan.devices):
            raise ScheduleError(f"{len(schedule)} ranks found; {len(part.plan.devices)} were expected, one per device")
        numbers = part.microbatches(schedule.microbatch)
        table = np.stack([schedule.stage, schedule.kind, numbers, schedule.paired.astype(np.int64)], axis=1)
        for device, row in zip(part.plan.devices, np.split(table, schedule.starts[1:-1]), strict=True):
            rows[rank[device]] = row
    return Schedule.of_arrays(rows)
