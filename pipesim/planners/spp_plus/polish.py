"""Local moves on a plan: shift a cut, move a replica to a neighbour, merge or split stages, swap two devices."""

from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import chain, pairwise
from math import inf
from typing import TypeVar

from pipesim.base.errors import PlanError
from pipesim.core.plan import Plan, Replicas, Stage
from pipesim.core.teams import Team
from pipesim.planners.abstract_cost import Begin, Cost, CostBelow

Item = TypeVar("Item")
POLISHED = 3  # plans that local moves start from
Key = tuple[tuple[Stage, ...], Replicas, tuple[Team, ...]]
Moves = Callable[[Plan, Container[Key]], Iterable[Plan]]
"""From a plan to plans one step away; those whose keys are in the second argument need not be made."""


def polished(  # noqa: PLR0917 - what a search has
    plan: Plan,
    cost: CostBelow,
    floor: Cost,
    evaluations: int,
    least: float,
    begin: Begin | None = None,
    steps: Moves | None = None,
) -> tuple[Plan, float, int]:
    """Take the first move that helps, repeatedly, until none does or the evaluations are used up.

    The cost of a plan is not evaluated where `floor`, which it is never below, is already no less than the best cost.
    `begin` is called with the plan that comes next if this one does not help. `steps` are the plans one step away: by
    default those of `moves`. Returns the plan, its cost, and how many
    evaluations were used.
    """
    steps, seen, used = steps or moved, {key_of(plan)}, 0
    improved = True
    while improved and used < evaluations:
        improved = False
        for tried, following in with_next(_worth_a_price(steps(plan, seen), floor, least, seen)):
            if key_of(tried) in seen:
                continue
            if used >= evaluations:
                break
            seen.add(key_of(tried))
            used += 1
            if begin is not None and following is not None and used < evaluations:
                begin(following, least)
            price = cost(tried, least)
            if price < least:
                plan, least, improved = tried, price, True
                break
    return plan, least, used


def key_of(plan: Plan) -> Key:
    """What differs between plans of one problem."""
    return plan.stages, plan.replicas, plan.teams


def fastest(plans: list[Plan], price: CostBelow, begin: Begin) -> tuple[Plan, float]:
    """The plan with the least price, the first of equal ones, and the price; the last plan where none has any."""
    different = dict[Key, Plan]()
    for plan in plans:
        different.setdefault(key_of(plan), plan)
    least, best = inf, plans[-1]
    for plan, following in with_next(different.values()):
        if following is not None:
            begin(following, least)
        seconds = price(plan, least)
        if seconds < least:
            least, best = seconds, plan
    return best, least


def _worth_a_price(plans: Iterable[Plan], floor: Cost, least: float, seen: set[Key]) -> Iterator[Plan]:
    """Those of these plans that have not been seen; those that cannot be better are seen with that."""
    for tried in plans:
        if key_of(tried) in seen:
            continue
        if floor(tried) >= least:
            seen.add(key_of(tried))
        else:
            yield tried


def moved(plan: Plan, seen: Container[Key]) -> Iterator[Plan]:
    """All plans one step away that have not been seen, where teams of a stage are of one width."""
    for stages in moves(plan.stages):
        if (stages, plan.replicas, plan.teams) not in seen:
            with suppress(PlanError):
                yield replace(plan, stages=stages)


def with_next(found: Iterable[Item]) -> Iterator[tuple[Item, Item | None]]:
    """Each of them, and the one after it."""
    none: list[Item | None] = [None]
    for one, following in pairwise(chain[Item | None](found, none)):
        assert one is not None  # noqa: S101 - only the last one is
        yield one, following


def moves(stages: tuple[Stage, ...]) -> Iterator[tuple[Stage, ...]]:
    """All plans one step away, small steps first; where devices have several stages, only those that shift a cut."""
    if len({stage.devices for stage in stages}) < len(stages):
        for n in range(len(stages) - 1):
            yield from _shifted(stages, n)
        return
    for n in range(len(stages) - 1):
        a, b = stages[n], stages[n + 1]
        yield from _shifted(stages, n)
        if len(b.devices) > 1:
            yield _with(
                stages, n, Stage(a.start, a.stop, (*a.devices, b.devices[0])), Stage(b.start, b.stop, b.devices[1:])
            )
        if len(a.devices) > 1:
            yield _with(
                stages, n, Stage(a.start, a.stop, a.devices[:-1]), Stage(b.start, b.stop, (a.devices[-1], *b.devices))
            )
        yield (*stages[:n], Stage(a.start, b.stop, (*a.devices, *b.devices)), *stages[n + 2 :])
    for n, stage in enumerate(stages):
        middle, half = (stage.start + stage.stop) // 2, len(stage.devices) // 2
        if half and middle > stage.start:
            parts = Stage(stage.start, middle, stage.devices[:half]), Stage(middle, stage.stop, stage.devices[half:])
            yield (*stages[:n], *parts, *stages[n + 1 :])
    for n in range(len(stages) - 1):
        for m in range(n + 1, len(stages)):
            a, b = stages[n], stages[m]
            swapped = list(stages)
            swapped[n] = Stage(a.start, a.stop, (*a.devices[:-1], b.devices[0]))
            swapped[m] = Stage(b.start, b.stop, (a.devices[-1], *b.devices[1:]))
            yield tuple(swapped)


def _shifted(stages: tuple[Stage, ...], n: int) -> Iterator[tuple[Stage, ...]]:
    """The cut behind stage n at other layers."""
    a, b = stages[n], stages[n + 1]
    for step in (1, -1, 2, -2, 4, -4):
        if a.start < a.stop + step < b.stop:
            yield _with(stages, n, Stage(a.start, a.stop + step, a.devices), Stage(b.start + step, b.stop, b.devices))


def _with(stages: tuple[Stage, ...], n: int, a: Stage, b: Stage) -> tuple[Stage, ...]:
    return (*stages[:n], a, b, *stages[n + 2 :])
