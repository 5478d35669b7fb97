"""The best schedule of all schedulers that order the plan, of priority rules, and of a search."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np

from pipesim.base import lookup
from pipesim.base.errors import InputError, ScheduleError, shown
from pipesim.core.cluster import Cluster
from pipesim.core.costs import Costs
from pipesim.core.members import SchedulerInfo, infos
from pipesim.core.plan import Plan
from pipesim.core.schedule import RELEASED_BY_INPUT, Schedule
from pipesim.schedulers import SCHEDULERS
from pipesim.schedulers.abstract_pipeline import AbstractPipeline, abstract_pipeline
from pipesim.schedulers.abstract_time import makespan
from pipesim.schedulers.greedy import Rules, greedy_order, rules
from pipesim.schedulers.priorities import PRIORITIES
from pipesim.schedulers.side_by_side import alike, merged, one_by_one, pipelines_of
from pipesim.schedulers.zero_bubble import search

Judge = Callable[[Schedule], tuple[float, float]]


@SchedulerInfo(every_layout=True, completes=True, is_search=True, look=18)
def auto(
    plan: Plan,
    costs: Costs,
    cluster: Cluster,
    *,
    exact: Judge | None = None,
    seed: int = 0,
    among: Sequence[str] = (),
) -> Schedule:
    """The shortest schedule that fits the devices' memory: of all schedulers, of priority rules, and of a search.

    `exact` returns for a schedule the bytes by which it exceeds the memory of a device, and its seconds; from the
    command line it simulates on the contended network. Without it, seconds are those of the abstract pipeline and
    memory is ignored. By `exact`, no scheduler that accepts this plan is better. If no schedule fits, the one that
    exceeds the memory least is taken. From the command line the other layouts of stages are tried too. `among` limits
    the choice to schedulers that accept the plan in its own layout: auto(among=["pe", "gpipe"]).
    """
    judge = exact or _timed(plan, costs, cluster)
    tried: dict[str, Schedule] = {}
    among = [among] if isinstance(among, str) else among
    if not isinstance(among, list | tuple) or not all(isinstance(name, str) for name in among):
        raise InputError(f"among = {shown(among)} found; names of schedulers were expected")
    members = _members(plan, costs, cluster, among or _asked())
    for schedule in members if among else itertools.chain(members, _filled(plan, costs, cluster, seed)):
        tried.setdefault(str(schedule), schedule)
    if not tried:
        raise ScheduleError(f"none of {', '.join(among)} orders this plan; name a scheduler that accepts it")
    scores = [(*judge(schedule), n) for n, schedule in enumerate(tried.values())]
    return list(tried.values())[min(scores)[2]]


def _asked() -> list[str]:
    """All schedulers but this one and those that need an extra."""
    declared = infos(SCHEDULERS, "scheduler", SchedulerInfo)
    return [name for name, info in declared.items() if not info.every_layout and not info.requires]


def _members(plan: Plan, costs: Costs, cluster: Cluster, names: Sequence[str]) -> Iterator[Schedule]:
    for name in names:
        scheduler = lookup.resolve(name, SCHEDULERS, "scheduler")
        with suppress(ScheduleError, InputError):  # it does not accept such plans
            yield one_by_one(scheduler, plan, costs, cluster)


def _timed(plan: Plan, costs: Costs, cluster: Cluster) -> Judge:
    """A judge that takes the time on the abstract pipeline, and ignores memory."""
    pipeline = abstract_pipeline(plan, costs, cluster)
    return lambda schedule: (0.0, float(makespan(pipeline, schedule)))


def _filled(plan: Plan, costs: Costs, cluster: Cluster, seed: int) -> Iterator[Schedule]:
    """The schedules of all rules; pipelines side by side have the same rule each."""
    parts = pipelines_of(plan)
    keys = alike(parts, cluster)
    first = {key: part.plan for key, part in reversed(list(zip(keys, parts, strict=True)))}
    orders = {key: _orders(abstract_pipeline(one, costs, cluster), seed) for key, one in first.items()}
    for made in zip(*orders.values(), strict=True):
        schedules = dict(zip(orders, made, strict=True))
        found = [schedule for key in keys if (schedule := schedules[key]) is not None]
        if len(found) == len(parts):
            yield found[0] if parts[0].plan is plan else merged(plan, parts, found)


def _orders(pipeline: AbstractPipeline, seed: int) -> Iterator[Schedule | None]:
    """The schedule of each rule; None if its limits cause a deadlock."""
    rows = (greedy_order(pipeline, how).rows for how in _rules(pipeline, seed))
    yield from (None if row is None else pipeline.schedule(row) for row in rows)


def _rules(pipeline: AbstractPipeline, seed: int) -> Iterator[Rules]:
    """Priority rules with limits on the microbatches in flight; and searches, where each device holds one stage."""
    for keys, split in itertools.product(PRIORITIES.values(), (False, True)):
        forward, backward = keys(pipeline)
        plain = rules(pipeline, forward_key=forward, backward_key=backward, split=split, strict=False)
        for limit in (
            np.inf,
            pipeline.stages,
            pipeline.stages + pipeline.stages / pipeline.lanes,
            1.5 * pipeline.stages,
        ):
            yield replace(plain, limit=np.full(pipeline.lanes, limit))
    if pipeline.stages == pipeline.lanes == len(pipeline.lane_of):
        yield from (
            search(pipeline, limit, RELEASED_BY_INPUT, seed) for limit in (pipeline.lanes, 1.5 * pipeline.lanes)
        )
