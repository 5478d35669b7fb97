"""The shortest possible schedule, for small instances, by constraint programming."""

import itertools
from typing import Any

import numpy as np

from pipesim.base.checks import check_at_least
from pipesim.base.errors import MissingExtraError, ScheduleError
from pipesim.core.cluster import Cluster
from pipesim.core.costs import Costs
from pipesim.core.members import SchedulerInfo
from pipesim.core.plan import Plan
from pipesim.core.schedule import BACKWARD, FORWARD, INPUT, WEIGHT, Schedule
from pipesim.schedulers.abstract_pipeline import AbstractPipeline, abstract_pipeline

LARGEST = 300  # actions
SPLIT = (FORWARD, INPUT, WEIGHT)
WHOLE = (FORWARD, BACKWARD)

Cell = tuple[int, int, int]  # stage, kind, microbatch


@SchedulerInfo(splits_backward=True, is_search=True, requires=("ortools",), look=19)
def exact(
    plan: Plan,
    costs: Costs,
    cluster: Cluster,
    *,
    split: bool = True,
    limit: int | None = None,
    effort: float = 60.0,
) -> Schedule:
    """The least makespan on the abstract pipeline (no contention), proven by OR-Tools' CP-SAT; needs the extra `cpsat`.

    With `split`, backwards are in two parts. With `limit`, no device has more stages of microbatches in flight (until
    their backward, or their gradient of weights, has ended). `effort` bounds the search in the solver's deterministic
    seconds; a search that is not finished then is an error. Microbatches on the same route are taken in order.
    """
    pipeline = abstract_pipeline(plan, costs, cluster)
    kinds = SPLIT if split else WHOLE
    count = len(kinds) * pipeline.stages * pipeline.microbatches
    if count > LARGEST:
        raise ScheduleError(f"{count} actions found; exact orders at most {LARGEST}: use fewer stages or microbatches")
    if limit is not None:
        check_at_least("limit", limit)
    try:
        from ortools.sat.python import cp_model  # noqa: PLC0415 - an extra
    except ImportError:
        raise MissingExtraError("the scheduler exact", "cpsat") from None
    return _solved(pipeline, kinds, limit, effort, cp_model)


def _solved(pipeline: AbstractPipeline, kinds: tuple[int, ...], limit: int | None, effort: float, cp: Any) -> Schedule:  # noqa: ANN401 - OR-Tools has no types
    took = {FORWARD: pipeline.forward, BACKWARD: pipeline.backward, INPUT: pipeline.input, WEIGHT: pipeline.weight}
    unit = max(int(np.gcd.reduce([int(t) for kind in kinds for t in took[kind]] + pipeline.ahead.tolist())), 1)
    seconds = {kind: (took[kind] // unit).tolist() for kind in kinds}
    horizon = sum(sum(seconds[kind]) for kind in kinds) * pipeline.microbatches + 2 * int(pipeline.ahead.sum()) // unit
    horizon *= 1 + int(pipeline.ahead.any())
    model = cp.CpModel()
    cells = [(n, kind, m) for n in range(pipeline.stages) for kind in kinds for m in range(pipeline.microbatches)]
    start = {cell: model.new_int_var(0, horizon, "") for cell in cells}
    end = {cell: start[cell] + seconds[cell[1]][cell[0]] for cell in cells}
    _add_lanes(model, pipeline, cells, start, end, seconds, limit)
    for cell in cells:
        for before, hop in _needs(pipeline, cell):
            model.add(start[cell] >= end[before] + hop // unit)
    makespan = model.new_int_var(0, horizon, "")
    for cell in cells:
        model.add(makespan >= end[cell])
    model.minimize(makespan)
    solver = cp.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.max_deterministic_time = effort
    status = solver.solve(model)
    if status != cp.OPTIMAL:
        raise ScheduleError(
            f"exact: {solver.status_name(status).lower()} after effort = {effort}; give a larger effort or limit"
        )
    # By start and end; actions that take no time by their place in the chain, so that dependencies are kept.
    when = {cell: (solver.value(start[cell]), solver.value(end[cell]), _depth(pipeline, cell), cell) for cell in cells}
    place = pipeline.place
    rows = [
        np.array(sorted((c for c in cells if place[c[0], c[2]] == lane), key=lambda c: when[c]), np.int64)
        for lane in range(pipeline.lanes)
    ]
    return pipeline.schedule([row.reshape(-1, 3) for row in rows])


def _depth(pipeline: AbstractPipeline, cell: Cell) -> int:
    """The position of an action among those of its microbatch, forwards and back."""
    stage, kind, _ = cell
    return stage if kind == FORWARD else 2 * pipeline.stages - stage + (kind == WEIGHT)


def _needs(pipeline: AbstractPipeline, cell: Cell) -> list[tuple[Cell, int]]:
    """The actions that an action depends on, each with the nanoseconds of the message between."""
    n, kind, m = cell
    backward = BACKWARD if kind == BACKWARD else INPUT
    if kind == WEIGHT:
        return [((n, INPUT, m), 0)]
    near = [((n, FORWARD, m), 0)] if kind != FORWARD else []
    other = n - 1 if kind == FORWARD else n + 1
    if not 0 <= other < pipeline.stages:
        return near
    hop = pipeline.ahead[other] if kind == FORWARD else pipeline.back[other]
    same = pipeline.place[other, m] == pipeline.place[n, m]
    return [*near, ((other, FORWARD if kind == FORWARD else backward, m), 0 if same else int(hop))]


def _add_lanes(  # noqa: PLR0917 - a model has its parts
    model: Any,  # noqa: ANN401 - OR-Tools has no types
    pipeline: AbstractPipeline,
    cells: list[Cell],
    start: dict[Cell, Any],
    end: dict[Cell, Any],
    seconds: dict[int, list[int]],
    limit: int | None,
) -> None:
    """One action at a time on each lane; microbatches in order; no more in flight than the limit."""
    place = pipeline.place
    for lane in range(pipeline.lanes):
        mine = [cell for cell in cells if place[cell[0], cell[2]] == lane]
        model.add_no_overlap(
            [model.new_fixed_size_interval_var(start[cell], seconds[cell[1]][cell[0]], "") for cell in mine]
        )
        for n in range(pipeline.stages):
            for kind in {cell[1] for cell in mine}:
                queue = sorted(cell for cell in mine if cell[:2] == (n, kind))
                for one, other in itertools.pairwise(queue):
                    model.add(start[other] >= end[one])
        if limit is not None:
            last = WEIGHT if any(cell[1] == WEIGHT for cell in mine) else BACKWARD
            kept = [cell for cell in mine if cell[1] == FORWARD]
            spans = []
            for n, _, m in kept:
                size = model.new_int_var(0, 1 << 40, "")
                spans.append(model.new_interval_var(start[n, FORWARD, m], size, end[n, last, m], ""))
            model.add_cumulative(spans, [1] * len(spans), limit)
