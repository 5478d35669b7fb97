"""The best of all schedules that order a plan as it lies, and of a search."""

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
from pipesim.schedulers.board import Board, board_of
from pipesim.schedulers.filling import Rules, fill, rules
from pipesim.schedulers.priorities import PRIORITIES
from pipesim.schedulers.timing import makespan
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
    """The shortest schedule that fits the devices' memory: of all members, of priorities, and of a search.

    `exact` gives for a schedule by how many bytes it exceeds the memory of a device, and its seconds; from the command
    line it simulates on the contended network. Without it, seconds are those of the abstract pipeline and memory does
    not count. So by `exact` no member that orders this plan as its stages lie is better. If none fits, the one that
    exceeds the memory least is taken. From the command line the stages are also laid out in the other shapes. With
    `among`, names of schedulers, only those are asked that order the plan as it lies: auto(among=["pe", "gpipe"]).
    """
    board = board_of(plan, costs, cluster)
    judge = exact or (lambda schedule: (0.0, float(makespan(board, schedule))))
    tried: dict[str, Schedule] = {}
    among = [among] if isinstance(among, str) else among
    if not isinstance(among, list | tuple) or not all(isinstance(name, str) for name in among):
        raise InputError(f"among = {shown(among)} found; names of schedulers were expected")
    members = _members(plan, costs, cluster, among or _asked())
    for schedule in members if among else itertools.chain(members, _filled(board, seed)):
        tried.setdefault(str(schedule), schedule)
    if not tried:
        raise ScheduleError(f"none of {', '.join(among)} orders this plan")
    scores = [(*judge(schedule), n) for n, schedule in enumerate(tried.values())]
    return list(tried.values())[min(scores)[2]]


def _asked() -> list[str]:
    """All schedulers but this one, and those that need an extra."""
    declared = infos(SCHEDULERS, "scheduler", SchedulerInfo)
    return [name for name, info in declared.items() if not info.every_layout and not info.requires]


def _members(plan: Plan, costs: Costs, cluster: Cluster, names: Sequence[str]) -> Iterator[Schedule]:
    for name in names:
        scheduler = lookup.resolve(name, SCHEDULERS, "scheduler")
        with suppress(ScheduleError, InputError):  # it does not order such plans
            yield scheduler(plan, costs, cluster)


def _filled(board: Board, seed: int) -> Iterator[Schedule]:
    rows = (fill(board, how).rows for how in _rules(board, seed))
    yield from (board.schedule(row) for row in rows if row is not None)


def _rules(board: Board, seed: int) -> Iterator[Rules]:
    """Priorities with limits on what is in flight; and searches, where each device holds one stage."""
    for keys, split in itertools.product(PRIORITIES.values(), (False, True)):
        forward, backward = keys(board)
        plain = rules(board, forward_key=forward, backward_key=backward, split=split, strict=False)
        for limit in (np.inf, board.stages, board.stages + board.stages / board.lanes, 1.5 * board.stages):
            yield replace(plain, limit=np.full(board.lanes, limit))
    if board.stages == board.lanes == len(board.lane_of):
        yield from (search(board, limit, RELEASED_BY_INPUT, seed) for limit in (board.lanes, 1.5 * board.lanes))
