"""Backwards in two parts, gradients of weights where nothing else can be done: what zero-bubble schedules share."""

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from pipesim.base.arrays import Ints
from pipesim.base.errors import ScheduleError
from pipesim.core.cluster import Cluster
from pipesim.core.costs import Costs
from pipesim.core.plan import Plan
from pipesim.core.schedule import Schedule
from pipesim.schedulers.board import Board, board_of
from pipesim.schedulers.filling import Filled, Rules, fill, positions, rules
from pipesim.schedulers.shapes import check_shape

WORK = 3_000_000  # actions that a search may place in all
MOST, PER_FORWARD = 6_000, 40  # trials, in all and for each forward
STARTS = 3  # best simple rules that a search goes on from
PATIENCE = (0.0, 0.25, 0.5, 0.75, 1.0)


class Found(NamedTuple):
    """Rules, and what they make: first the longest stage or the makespan, then the other."""

    score: tuple[int, int]
    rules: Rules


def straight_board(plan: Plan, costs: Costs, cluster: Cluster, scheduler: str) -> Board:
    """The abstract pipeline of a plan with one stage per device."""
    check_shape(plan, "straight", scheduler)
    if plan.replicas == "whole" and max(plan.replication) > 1:
        raise ScheduleError(
            f"the plan gives whole microbatches to its replicas; {scheduler} orders plans that split them"
        )
    return board_of(plan, costs, cluster)


def schedule_of(board: Board, how: Rules, scheduler: str) -> Schedule:
    """The schedule that rules make."""
    rows = fill(board, how).rows
    if rows is None:
        raise ScheduleError(f"{scheduler}: the limits on memory leave no way to go on")
    return board.schedule(rows)


def search(board: Board, limit: float, released: float, seed: int) -> Rules:
    """The rules with the shortest longest stage, and then makespan, that keep `limit` microbatches at most per stage.

    From the best of simple rules on, by small changes of how many each stage takes in (`hold`, `warm`) and how many of
    its weights' gradients may wait (`quota`). The number of trials is bounded by the work that they are.
    """
    position = positions(board, rules(board).forward_key)
    rng = np.random.default_rng(seed)
    trials = min(max(WORK // (3 * position.size), 30), MOST, PER_FORWARD * position.size)
    found = sorted((_tried(board, how, position) for how in _simple(board, limit, released)), key=lambda it: it.score)
    best = found[0]
    for start in found[:STARTS]:
        here = start
        for _ in range(max(trials - len(found), 0) // STARTS):
            there = _tried(board, _changed(here.rules, board, rng), position)
            here = there if there.score <= here.score else here
        best = min(best, here, key=lambda it: it.score)
    return best.rules


def _tried(board: Board, how: Rules, position: Ints) -> Found:
    filled = fill(board, how, position)
    return Found(_score(filled), how)


def _score(filled: Filled) -> tuple[int, int]:
    return (filled.longest, filled.makespan) if filled.rows is not None else (1 << 62, 1 << 62)


def _simple(board: Board, limit: float, released: float) -> Iterator[Rules]:
    """Rules that all stages share, as functions of how far they are from the end."""
    left, most = np.arange(board.lanes, 0, -1), board.microbatches
    plain = rules(board, limit=np.full(board.lanes, float(limit)), split=True, released=released)
    depths = (left, left + 1, -(-3 * left // 2), 2 * left - 1, np.full(board.lanes, most))
    waits = [np.full(board.lanes, count) for count in dict.fromkeys((0, 1, 2, 4, 8, most))]
    waits += [board.lanes - left, np.minimum(2 * (board.lanes - left), most)]
    for patience in (0.0, 0.5, 1.0):
        for hold in depths:
            for warm in (np.ones_like(left), hold):
                for quota in waits:
                    yield replace(plain, hold=hold, warm=warm, quota=quota, patience=patience)


def _changed(how: Rules, board: Board, rng: np.random.Generator) -> Rules:
    """One to three small changes."""
    columns = {"hold": how.hold.copy(), "warm": how.warm.copy(), "quota": how.quota.copy()}
    patience = how.patience
    for _ in range(int(rng.integers(1, 4))):
        which = int(rng.integers(7))
        if which == 6:
            patience = float(rng.choice(PATIENCE))
            continue
        name, lane = ("hold", "warm", "quota")[which // 2], int(rng.integers(board.lanes))
        least = 1 if name == "hold" else 0
        columns[name][lane] = np.clip(columns[name][lane] + rng.integers(-3, 4), least, board.microbatches)
    return replace(how, hold=columns["hold"], warm=columns["warm"], quota=columns["quota"], patience=patience)
