"""Local moves on a plan: shift a cut, move a replica to a neighbour, merge or split stages, swap two devices."""

from collections.abc import Iterator
from dataclasses import replace

from pipesim.core.plan import Plan, Stage
from pipesim.planners.abstract_cost import Cost, CostBelow


def polished(plan: Plan, cost: CostBelow, floor: Cost, evaluations: int, least: float) -> tuple[Plan, float, int]:
    """Take the first move that helps, repeatedly, until none does or the evaluations are used up.

    The cost of a plan is not evaluated where `floor`, which it is never below, is already no less than the best cost.
    Returns the plan, its cost, and how many evaluations were used.
    """
    seen, used = {plan.stages}, 0
    improved = True
    while improved and used < evaluations:
        improved = False
        for stages in moves(plan.stages):
            if stages in seen:
                continue
            if used >= evaluations:
                break
            seen.add(stages)
            tried = replace(plan, stages=stages)
            if floor(tried) >= least:
                continue
            used += 1
            price = cost(tried, least)
            if price < least:
                plan, least, improved = tried, price, True
                break
    return plan, least, used


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
