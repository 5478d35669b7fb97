"""Changes of a program, each as the columns that it replaces: what is changed, and when it first matters, is drawn."""

import numpy as np

from pipesim.base.arrays import Ragged
from pipesim.core.scenario import Speeds
from pipesim.engines import compiled


def _drawn_tasks(program, rng):
    """Up to an eighth of all tasks."""
    found = np.zeros(len(program), bool)
    found[rng.sample(range(len(program)), rng.randint(1, max(1, len(program) // 8)))] = True
    return found


def _moment(program, rng):
    return rng.randint(1, 1 + compiled.run(program).makespan)


def other_durations(program, rng):
    free = _drawn_tasks(program, rng) & (program.is_compute | (not program.sharing_rule.rated))
    return {"duration": np.where(free, program.delay + rng.randint(0, 3_000_000), program.duration)}


def more_bytes(program, rng):
    return {"size": np.where(_drawn_tasks(program, rng), program.size * 2, program.size)}


def no_delays(program, rng):
    return {"delay": np.where(_drawn_tasks(program, rng) & ~program.is_compute, 0, program.delay)}


def fewer_needs(program, rng):
    needs = program.needs
    kept = np.ones(len(needs.values), bool)
    kept[rng.sample(range(len(kept)), min(len(kept), 2))] = False
    return {"needs": Ragged.of_pairs(len(program), needs.row_of_value()[kept], needs.values[kept])}


def other_order(program, rng):
    """Two neighbours on a lane swapped, of which the second waits for nothing."""
    values = program.order.values.copy()
    for at in rng.sample(range(len(values) - 1), len(values) - 1):
        a, b = values[at], values[at + 1]
        if program.lane[a] == program.lane[b] and not len(program.needs[b]):
            values[at], values[at + 1] = b, a
            break
    return {"order": Ragged(program.order.starts, values)}


def slower_lane(program, rng):
    return {"lane_speeds": {0: Speeds((0, _moment(program, rng)), (1.0, rng.choice([0.5, 0.7])))}}


def slower_link(program, rng):
    return {"media_speeds": {0: Speeds((0, _moment(program, rng)), (1.0, 0.5))} if program.media else {}}


def narrower_link(program, rng):
    chosen = rng.randrange(max(1, len(program.media)))
    return {"capacity": program.capacity / np.where(np.arange(len(program.media)) == chosen, 2, 1)}


def no_route(program, rng):
    """Some transfers with nothing to carry."""
    none, route = _drawn_tasks(program, rng) & ~program.is_compute, program.route
    kept = ~none[route.row_of_value()]
    return {
        "route": Ragged.of_pairs(len(program), route.row_of_value()[kept], route.values[kept]),
        "duration": np.where(none, program.delay, program.duration),
        "size": np.where(none, 0.0, program.size),
    }


def nothing(*_):
    return {}


CHANGES = (
    other_durations, more_bytes, no_delays, fewer_needs, other_order, slower_lane, slower_link, narrower_link,
    no_route, nothing,
)  # fmt: skip


def check_equal(one, other):
    assert one.same_as(other)
    for name in ("task", "time", "rate") if one.rates is not None else ():
        assert np.array_equal(getattr(one.rates, name), getattr(other.rates, name))


def resume_always(monkeypatch):
    """Have even small runs resumed, however little that saves."""
    monkeypatch.setattr(compiled, "LEAST_SAVED", 0.0)
    monkeypatch.setattr(compiled, "LEAST_TASKS", 0)
