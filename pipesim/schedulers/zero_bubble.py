"""What zero-bubble schedules share: greedy rules with backwards in two parts, and a local search over such rules."""

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
from pipesim.schedulers.abstract_pipeline import AbstractPipeline, abstract_pipeline
from pipesim.schedulers.greedy import GreedyOrder, Rules, greedy_order, positions, rules
from pipesim.schedulers.layouts import check_layout, check_split_replicas

WORK = 3_000_000  # actions that a search may order, over all trials
MOST, PER_FORWARD = 6_000, 40  # trials: at most, and for each forward
STARTS = 3  # the best simple rules, from which a search starts
PATIENCE = (0.0, 0.25, 0.5, 0.75, 1.0)


class Found(NamedTuple):
    """Rules, and the score of the order they give: the longest stage, then the makespan."""

    score: tuple[int, int]
    rules: Rules


def straight_pipeline(plan: Plan, costs: Costs, cluster: Cluster, scheduler: str) -> AbstractPipeline:
    """The abstract pipeline of a plan with one stage per device."""
    check_layout(plan, "straight", scheduler)
    check_split_replicas(plan, scheduler)
    return abstract_pipeline(plan, costs, cluster)


def schedule_of(pipeline: AbstractPipeline, how: Rules, scheduler: str) -> Schedule:
    """The schedule that these rules give."""
    rows = greedy_order(pipeline, how).rows
    if rows is None:
        raise ScheduleError(f"{scheduler}: no device can go on within the limit on memory; use a larger limit")
    return pipeline.schedule(rows)


def search(pipeline: AbstractPipeline, limit: float, released: float, seed: int) -> Rules:
    """Rules that keep at most `limit` microbatches per stage, with the least longest stage, then the least makespan.

    A local search: it starts from the best of some simple rules, and makes small changes to how many forwards a stage
    does ahead (`hold`, `warm`) and how many gradients of weights may wait (`quota`). The number of trials is bounded
    by the number of actions that they order.
    """
    position = positions(pipeline, rules(pipeline).forward_key)
    rng = np.random.default_rng(seed)
    trials = min(max(WORK // (3 * position.size), 30), MOST, PER_FORWARD * position.size)
    found = sorted(
        (_tried(pipeline, how, position) for how in _simple(pipeline, limit, released)), key=lambda it: it.score
    )
    best = found[0]
    for start in found[:STARTS]:
        here = start
        for _ in range(max(trials - len(found), 0) // STARTS):
            there = _tried(pipeline, _changed(here.rules, pipeline, rng), position)
            here = there if there.score <= here.score else here
        best = min(best, here, key=lambda it: it.score)
    return best.rules


def _tried(pipeline: AbstractPipeline, how: Rules, position: Ints) -> Found:
    made = greedy_order(pipeline, how, position)
    return Found(_score(made), how)


def _score(made: GreedyOrder) -> tuple[int, int]:
    return (made.longest, made.makespan) if made.rows is not None else (1 << 62, 1 << 62)


def _simple(pipeline: AbstractPipeline, limit: float, released: float) -> Iterator[Rules]:
    """Rules that depend only on how many stages follow."""
    left, most = np.arange(pipeline.lanes, 0, -1), pipeline.microbatches
    plain = rules(pipeline, limit=np.full(pipeline.lanes, float(limit)), split=True, released=released)
    depths = (left, left + 1, -(-3 * left // 2), 2 * left - 1, np.full(pipeline.lanes, most))
    waits = [np.full(pipeline.lanes, count) for count in dict.fromkeys((0, 1, 2, 4, 8, most))]
    waits += [pipeline.lanes - left, np.minimum(2 * (pipeline.lanes - left), most)]
    for patience in (0.0, 0.5, 1.0):
        for hold in depths:
            for warm in (np.ones_like(left), hold):
                for quota in waits:
                    yield replace(plain, hold=hold, warm=warm, quota=quota, patience=patience)


def _changed(how: Rules, pipeline: AbstractPipeline, rng: np.random.Generator) -> Rules:
    """One to three small changes."""
    columns = {"hold": how.hold.copy(), "warm": how.warm.copy(), "quota": how.quota.copy()}
    patience = how.patience
    for _ in range(int(rng.integers(1, 4))):
        which = int(rng.integers(7))
        if which == 6:
            patience = float(rng.choice(PATIENCE))
            continue
        name, lane = ("hold", "warm", "quota")[which // 2], int(rng.integers(pipeline.lanes))
        least = 1 if name == "hold" else 0
        columns[name][lane] = np.clip(columns[name][lane] + rng.integers(-3, 4), least, pipeline.microbatches)
    return replace(how, hold=columns["hold"], warm=columns["warm"], quota=columns["quota"], patience=patience)
