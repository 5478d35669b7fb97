"""The shortest schedule there is, for small instances, by constraint programming."""

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
from pipesim.schedulers.board import Board, board_of

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
    their backward, or their gradient of weights, is done). `effort` bounds the search in the solver's deterministic
    seconds; where it does not suffice, that is said. Microbatches of one way are taken in order.
    """
    board = board_of(plan, costs, cluster)
    kinds = SPLIT if split else WHOLE
    count = len(kinds) * board.stages * board.microbatches
    if count > LARGEST:
        raise ScheduleError(f"{count} actions found; exact orders {LARGEST} at most")
    if limit is not None:
        check_at_least("limit", limit)
    try:
        from ortools.sat.python import cp_model  # noqa: PLC0415 - an extra
    except ImportError:
        raise MissingExtraError("the scheduler exact", "cpsat") from None
    return _solved(board, kinds, limit, effort, cp_model)


def _solved(board: Board, kinds: tuple[int, ...], limit: int | None, effort: float, cp: Any) -> Schedule:  # noqa: ANN401 - OR-Tools has no types
    took = {FORWARD: board.forward, BACKWARD: board.backward, INPUT: board.input, WEIGHT: board.weight}
    unit = max(int(np.gcd.reduce([int(t) for kind in kinds for t in took[kind]] + board.ahead.tolist())), 1)
    seconds = {kind: (took[kind] // unit).tolist() for kind in kinds}
    horizon = sum(sum(seconds[kind]) for kind in kinds) * board.microbatches + 2 * int(board.ahead.sum()) // unit
    horizon *= 1 + int(board.ahead.any())
    model = cp.CpModel()
    cells = [(n, kind, m) for n in range(board.stages) for kind in kinds for m in range(board.microbatches)]
    start = {cell: model.new_int_var(0, horizon, "") for cell in cells}
    end = {cell: start[cell] + seconds[cell[1]][cell[0]] for cell in cells}
    _add_lanes(model, board, cells, start, end, seconds, limit)
    for cell in cells:
        for before, hop in _needs(board, cell):
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
            f"{solver.status_name(status).lower()} after an effort of {effort}; allow more, or a larger limit"
        )
    # By start and end, and what takes no time by its place in the chain: so no order contradicts what needs what.
    when = {cell: (solver.value(start[cell]), solver.value(end[cell]), _depth(board, cell), cell) for cell in cells}
    place = board.place
    rows = [
        np.array(sorted((c for c in cells if place[c[0], c[2]] == lane), key=lambda c: when[c]), np.int64)
        for lane in range(board.lanes)
    ]
    return board.schedule([row.reshape(-1, 3) for row in rows])


def _depth(board: Board, cell: Cell) -> int:
    """How far along its microbatch's way there and back an action stands."""
    stage, kind, _ = cell
    return stage if kind == FORWARD else 2 * board.stages - stage + (kind == WEIGHT)


def _needs(board: Board, cell: Cell) -> list[tuple[Cell, int]]:
    """What comes before an action, and the nanoseconds of the message between."""
    n, kind, m = cell
    backward = BACKWARD if kind == BACKWARD else INPUT
    if kind == WEIGHT:
        return [((n, INPUT, m), 0)]
    near = [((n, FORWARD, m), 0)] if kind != FORWARD else []
    other = n - 1 if kind == FORWARD else n + 1
    if not 0 <= other < board.stages:
        return near
    hop = board.ahead[other] if kind == FORWARD else board.back[other]
    same = board.place[other, m] == board.place[n, m]
    return [*near, ((other, FORWARD if kind == FORWARD else backward, m), 0 if same else int(hop))]


def _add_lanes(  # noqa: PLR0917 - a model has its parts
    model: Any,  # noqa: ANN401 - OR-Tools has no types
    board: Board,
    cells: list[Cell],
    start: dict[Cell, Any],
    end: dict[Cell, Any],
    seconds: dict[int, list[int]],
    limit: int | None,
) -> None:
    """One action at a time on each lane; like microbatches in order; no more in flight than allowed."""
    place = board.place
    for lane in range(board.lanes):
        mine = [cell for cell in cells if place[cell[0], cell[2]] == lane]
        model.add_no_overlap(
            [model.new_fixed_size_interval_var(start[cell], seconds[cell[1]][cell[0]], "") for cell in mine]
        )
        for n in range(board.stages):
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
