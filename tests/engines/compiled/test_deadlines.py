"""When tasks must have ended: a run is given up only if it is late, and soon where that is plain."""

import numpy as np
import pytest

from helpers.networks import network, pipeline
from helpers.small_programs import pair
from pipesim.core.scenario import Scenario, Slow
from pipesim.engines import compiled, event
from pipesim.engines.compiled import deadlines
from pipesim.engines.compiled.simulation_state import arrays_of

FAIR = {"hop_bytes": [700, 900], "latency": [5, 5], "sharing": "fair"}


def drawn(seed):
    """A pipeline of three stages, or flows over links that they share."""
    rng = np.random.default_rng(seed)
    if seed % 2:
        times = rng.integers(100, 1000, (2, 3)).tolist()
        return pipeline(*times, 6, "one_f_one_b", **FAIR, duplex="half", parameters=500)
    routes = [rng.permutation(5)[: rng.integers(1, 4)].tolist() for _ in range(30)]
    return network(
        rng.uniform(0.5, 3, 5),
        [(int(rng.integers(0, 999)), int(rng.integers(1, 9999)), route) for route in routes],
        "fair",
    )


@pytest.mark.parametrize("seed", range(14))
def test_the_end_is_found_up_to_the_limit_and_none_beyond(seed):
    program = drawn(seed)
    end = event.run(program).makespan
    assert [compiled.end_by(program, until) for until in (end + 1, end, end - 1, 0)] == [end, end, None, None]


@pytest.mark.parametrize("seed", range(14))
def test_no_task_takes_less_time_after_it_than_it_must(seed):
    """In the run itself, what comes after each task takes at least the time that is required."""
    program = drawn(seed)
    timeline = event.run(program)
    latest = deadlines.latest_ends(program, arrays_of(program), timeline.makespan)
    assert (timeline.end <= latest).all()
    assert (timeline.end == latest).any(), "something ends last"


def test_the_time_after_a_task_is_that_of_the_longest_way_to_the_end():
    """Two stages, two microbatches: after F0 on the first, F0 and B1 of both and what stage 1 does between."""
    program = pipeline([100, 100], [200, 200], 2, "gpipe", hop_bytes=[0], sharing="fair")
    latest = deadlines.latest_ends(program, arrays_of(program), 10_000)
    first, last = program.order[0].tolist()[0], program.order[0].tolist()[-1]
    assert 10_000 - latest[first] == 100 + 100 + 2 * 200 + 200
    assert latest[last] == 10_000


def test_a_run_that_is_late_from_the_beginning_is_given_up_at_once():
    program = pipeline([100] * 3, [200] * 3, 40, "one_f_one_b", hop_bytes=[10, 10], sharing="fair")
    arrays = arrays_of(program)
    late = arrays._replace(latest=deadlines.latest_ends(program, arrays, 40 * 300))
    times = program.sharing_rule.implementation("event_loop")(late)
    assert times.is_late
    assert (times.end >= 0).sum() < 5


def test_where_speeds_change_a_run_goes_to_its_end():
    program = pair(Scenario((Slow("a", 2.0),)))
    assert not len(deadlines.latest_ends(program, arrays_of(program), 0))
    assert compiled.end_by(program, 1) is None


def test_a_run_whose_links_are_too_busy_is_given_up_before_it_begins():
    """Ten flows of 100 bytes on one link of 1 byte per ns, each of which would take 100 ns alone."""
    program = network([1.0], [(0, 100, [0])] * 10, "fair")
    arrays = arrays_of(program)
    late = arrays._replace(latest=deadlines.latest_ends(program, arrays, 900))
    times = program.sharing_rule.implementation("event_loop")(late)
    assert times.is_late
    assert (times.end[10:] < 0).all()
    assert compiled.end_by(program, 1000) == 1000
