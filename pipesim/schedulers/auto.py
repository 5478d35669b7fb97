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
    pipeline = abstract_pipeline(plan, costs, cluster)
    judge = exact or (lambda schedule: (0.0, float(makespan(pipeline, schedule))))
    tried: dict[str, Schedule] = {}
    among = [among] if isinstance(among, str) else among
    if not isinstance(among, list | tuple) or not all(isinstance(name, str) for name in among):
        raise InputError(f"among = {shown(among)} found; names of schedulers were expected")
    members = _members(plan, costs, cluster, among or _asked())
    for schedule in members if among else itertools.chain(members, _filled(pipeline, seed)):
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
            yield scheduler(plan, costs, cluster)


def _filled(pipeline: AbstractPipeline, seed: int) -> Iterator[Schedule]:
    rows = (greedy_order(pipeline, how).rows for how in _rules(pipeline, seed))
    yield from (pipeline.schedule(row) for row in rows if row is not None)


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
