"""The exact solver is never beaten, and what it says is true."""

import numpy as np
import pytest

from pipesim.analysis import metrics
from pipesim.base.errors import ScheduleError
from pipesim.engines import by_name
from pipesim.lowering import lower
from pipesim.studies import equal_stages
from pipesim.studies.equal_stages import Times

pytest.importorskip("ortools", reason="the extra cpsat is not installed")

SMALL = [(2, 2), (2, 4), (3, 3)]


def makespan(scheduler, p, m, times):
    return by_name.run(lower(equal_stages.setup(scheduler, p, m, times))).makespan


@pytest.mark.parametrize(("p", "m"), SMALL)
@pytest.mark.parametrize("times", [Times(), Times.of(1, 3, hop=0.5), Times.of(2, None, 1, 2, 0.25)])
def test_no_straight_schedule_beats_the_exact_one(p, m, times):
    best = makespan("exact", p, m, times)
    for name in ("gpipe", "one_f_one_b", "zb_h1", "zb_1p", "zb_2p", "list_schedule(split=True)"):
        assert best <= makespan(name, p, m, times), name


@pytest.mark.parametrize(("p", "m"), SMALL)
def test_without_split_backwards_1f1b_is_optimal(p, m):
    assert makespan("exact(split=False)", p, m, Times()) == 3 * (m + p - 1) * 10**9


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_a_limit_on_what_is_in_flight_is_kept(limit):
    timeline = by_name.run(lower(equal_stages.setup(f"exact(limit={limit})", 3, 4, Times())))
    assert metrics.in_flight(timeline).max() <= limit


def test_two_stages_on_a_device_are_ordered_too():
    """Against all orders of one device with two stages: it never idles, so the sum is the optimum."""
    made = equal_stages.setup("exact", 1, 3, Times(), chunks=2)
    assert by_name.run(lower(made)).makespan == 2 * 3 * 3 * 10**9


def test_uneven_stages_are_solved_as_the_engine_times_them():
    """Its makespan is that of the replay: no contention on a ring without bytes."""
    rng = np.random.default_rng(0)
    for _ in range(5):
        times = Times.of(*(float(x) for x in rng.integers(1, 5, 1)), None, *(float(x) for x in rng.integers(1, 5, 2)))
        assert makespan("exact", 2, 3, times) <= makespan("zb_2p", 2, 3, times)


def test_what_is_too_large_is_refused():
    with pytest.raises(ScheduleError, match="exact orders at most 300"):
        equal_stages.setup("exact", 8, 32, Times())


def test_too_little_effort_is_an_error():
    with pytest.raises(ScheduleError, match="after effort = "):
        equal_stages.setup("exact(effort=0.000001)", 4, 6, Times())
