"""Simulated annealing over cuts, replication and the placement of stages."""

from collections.abc import Callable
from itertools import pairwise
from math import exp, inf
from typing import NamedTuple

import numpy as np

from pipesim.base.checks import check_at_least
from pipesim.core import plan as plans
from pipesim.core.cluster import Cluster
from pipesim.core.costs import Costs
from pipesim.core.limits import PER_PAIR
from pipesim.core.members import PlannerInfo, ProblemSize
from pipesim.core.model import Model
from pipesim.core.plan import Plan, Stage
from pipesim.planners.abstract_cost import Cost, abstract_cost
from pipesim.planners.balanced import balanced
from pipesim.planners.balanced import table_bytes as balanced_bytes

# A round of cooling: the number of evaluations, and the first and last temperature, relative to the best cost.
ROUND = 200
HOT, COLD = 0.05, 0.0005


class State(NamedTuple):
    """Layers bounds[n] .. bounds[n + 1] - 1 are on the devices groups[n], in order; idle devices hold nothing."""

    bounds: tuple[int, ...]
    groups: tuple[tuple[int, ...], ...]
    idle: tuple[int, ...] = ()


def table_bytes(size: ProblemSize) -> float:
    """Bytes of its start, which is `balanced`, and of the states that it keeps."""
    kept = PER_PAIR * size.devices**2 + 200_000 * size.devices
    return balanced_bytes(size) + kept


@PlannerInfo(tables=table_bytes, look=10)
def annealing(
    model: Model,
    cluster: Cluster,
    costs: Costs,
    microbatches: int,
    *,
    cost: Cost | None = None,
    seed: int = 0,
    evaluations: int = 1000,
) -> Plan:
    """The least `cost` that a search finds which starts from one device per stage or plain data parallelism.

    `cost` is seconds of a Plan, by default of the abstract pipeline under PE, which ignores contention and memory. The
    search shifts cuts, splits and merges stages, moves replicas to neighbours and swaps devices. A worse plan is
    accepted with a probability that falls with the temperature; every 200 evaluations the temperature is reset, and the
    search continues from the best plan so far. The budget is a number of evaluations: the same seed gives the same
    plan, and a larger budget continues where a smaller one stops. Ignores plans whose replicas take whole microbatches,
    and several chunks per device.
    """
    plans.check_microbatches(microbatches)
    check_at_least("evaluations", evaluations, 1)
    check_at_least("seed", seed, 0)
    judge = abstract_cost(costs, cluster, evaluations) if cost is None else cost
    known: dict[State, float] = {}

    def plan_of(state: State, seconds: float | None = None) -> Plan:
        return _plan(state, model.name, cluster, microbatches, seconds)

    def seconds_of(state: State) -> float:
        if state not in known:
            known[state] = judge(plan_of(state))
        return known[state]

    starts = _starts(model, cluster, costs, microbatches)[:evaluations]
    best = min(starts, key=seconds_of)
    best = _search(best, seconds_of, np.random.default_rng(seed), evaluations - len(starts))
    return plan_of(best, seconds_of(best))


def _starts(model: Model, cluster: Cluster, costs: Costs, microbatches: int) -> list[State]:
    """Plain data parallelism, and one device per stage."""
    devices = tuple(range(len(cluster.devices)))
    straight = balanced(model, cluster, costs, microbatches)
    groups = tuple(tuple(cluster.index[name] for name in stage.devices) for stage in straight.stages)
    bounds = (0, *straight.cuts, len(model))
    return [State((0, len(model)), (devices,)), State(bounds, groups, devices[len(groups) :])]


def _plan(state: State, name: str, cluster: Cluster, microbatches: int, seconds: float | None) -> Plan:
    names = [tuple(cluster.devices[position].name for position in group) for group in state.groups]
    return Plan(
        model=name,
        layers=state.bounds[-1],
        microbatches=microbatches,
        stages=tuple(Stage(a, b, group) for (a, b), group in zip(pairwise(state.bounds), names, strict=True)),
        planner="annealing",
        objective_s=seconds,
    )


def _search(start: State, seconds_of: Callable[[State], float], rng: np.random.Generator, steps: int) -> State:
    """The best state found in this many steps; each evaluates a neighbour of the current state."""
    best = now = start
    for step in range(steps):
        if step % ROUND == 0:
            now = best
        near = _near(now, rng)
        if near is None:
            break
        temperature = HOT * (COLD / HOT) ** (step % ROUND / ROUND) * seconds_of(best)
        worse = seconds_of(near) - seconds_of(now)
        if worse <= 0 or (worse < inf and rng.random() < _chance(worse, temperature)):
            now = near
        if seconds_of(now) < seconds_of(best):
            best = now
    return best


def _chance(worse: float, temperature: float) -> float:
    return exp(-worse / temperature) if temperature > 0 else 0.0


def _near(state: State, rng: np.random.Generator) -> State | None:
    """A neighbour of a state, by a random move that is possible; None if there is only one plan."""
    moves = (MOVES[move](state, rng) for move in rng.permutation(len(MOVES)))
    return next((near for near in moves if near is not None), None)


def _shifted(state: State, rng: np.random.Generator) -> State | None:
    """A cut some layers earlier or later, mostly by one."""
    cuts = [n for n in range(1, len(state.groups)) if state.bounds[n + 1] - state.bounds[n - 1] > 2]
    if not cuts:
        return None
    n = int(rng.choice(cuts))
    lowest, highest = state.bounds[n - 1] + 1, state.bounds[n + 1] - 1
    step = int(rng.geometric(0.5)) * (1 if rng.random() < 0.5 else -1)
    at = min(max(state.bounds[n] + step, lowest), highest)
    if at == state.bounds[n]:
        at = lowest if at == highest else highest  # it is at the end of its range already
    return State((*state.bounds[:n], at, *state.bounds[n + 1 :]), state.groups, state.idle)


def _split(state: State, rng: np.random.Generator) -> State | None:
    """One stage becomes two, which share its devices; a single device is joined by an idle one."""
    several = [len(group) > 1 or bool(state.idle) for group in state.groups]
    ways = [n for n, (a, b) in enumerate(pairwise(state.bounds)) if b - a > 1 and several[n]]
    if not ways:
        return None
    n = int(rng.choice(ways))
    group, idle = state.groups[n], state.idle
    if len(group) == 1:
        group, idle = (*group, idle[0]), idle[1:]
    layer = int(rng.integers(state.bounds[n] + 1, state.bounds[n + 1]))
    place = int(rng.integers(1, len(group)))
    groups = (*state.groups[:n], group[:place], group[place:], *state.groups[n + 1 :])
    return State((*state.bounds[: n + 1], layer, *state.bounds[n + 1 :]), groups, idle)


def _merged(state: State, rng: np.random.Generator) -> State | None:
    """Two neighbouring stages become one on the devices of both."""
    if len(state.groups) == 1:
        return None
    n = int(rng.integers(1, len(state.groups)))
    both = tuple(sorted(state.groups[n - 1] + state.groups[n]))
    groups = (*state.groups[: n - 1], both, *state.groups[n + 1 :])
    return State((*state.bounds[:n], *state.bounds[n + 1 :]), groups, state.idle)


def _moved(state: State, rng: np.random.Generator) -> State | None:
    """A replica goes to a neighbouring stage, or an idle device to any."""
    last = len(state.groups) - 1
    ways = [(n, m) for n in range(last + 1) for m in (n - 1, n + 1) if len(state.groups[n]) > 1 and 0 <= m <= last]
    ways += [(-1, m) for m in range(last + 1) if state.idle]
    if not ways:
        return None
    source, target = ways[int(rng.integers(len(ways)))]
    device = int(rng.choice(state.idle if source < 0 else state.groups[source]))
    groups = [tuple(d for d in group if d != device) for group in state.groups]
    groups[target] = tuple(sorted((*groups[target], device)))
    return state._replace(groups=tuple(groups), idle=tuple(d for d in state.idle if d != device))


def _swapped(state: State, rng: np.random.Generator) -> State | None:
    """Two devices of different stages change places, or an idle one with one of a stage."""
    sets = [*state.groups, state.idle] if state.idle else list(state.groups)
    if len(sets) == 1:
        return None
    one, other = (int(rng.choice(sets[k])) for k in rng.choice(len(sets), 2, replace=False))
    instead = {one: other, other: one}
    groups = tuple(tuple(sorted(instead.get(d, d) for d in group)) for group in state.groups)
    return state._replace(groups=groups, idle=tuple(sorted(instead.get(d, d) for d in state.idle)))


MOVES: tuple[Callable[[State, np.random.Generator], State | None], ...] = (_shifted, _split, _merged, _moved, _swapped)
