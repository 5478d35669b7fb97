"""How sends and receives are posted: what holds the devices, and in which order."""

from itertools import pairwise

import numpy as np
import pytest

import pipesim as ps
from helpers.strategies import even_trace
from pipesim.core.program import ACTIVATION, GRADIENT

PAIR = 'flat(2, bandwidth="1GB/s", latency="0s", device="v100-16gb")'


def simulated(transfers, scheduler="one_f_one_b", cluster=PAIR, **more):
    trace = even_trace(4, 1e-3, 2e-3, output_bytes=int(5e5))
    return ps.simulate(trace, cluster, "uniform", scheduler, 6, transfers=transfers, **more).timeline


def test_sequential_sends_take_turns_on_a_device():
    """Messages between the same two computations: gradients first, then activations, never at the same time."""
    timeline = simulated("sequential")
    program = timeline.program
    moving = np.flatnonzero(np.isin(program.kind, [ACTIVATION, GRADIENT]))
    for device in range(len(program.devices)):
        mine = [task for task in moving.tolist() if device in {program.source[task], program.target[task]}]
        mine.sort(key=lambda task: (timeline.start[task], timeline.end[task]))
        assert all(timeline.end[a] <= timeline.start[b] for a, b in pairwise(mine))


def test_messages_that_are_posted_together_overlap_where_links_are_full_duplex():
    assert simulated("blocking").makespan < simulated("sequential").makespan


def test_each_way_of_posting_takes_at_least_as_long_as_the_less_strict_one():
    spans = [simulated(how).makespan for how in ("eager", "rendezvous", "blocking", "sequential")]
    assert spans == sorted(spans)
    assert spans[0] < spans[-1]


@pytest.mark.parametrize("scheduler", ["gpipe", "one_f_one_b"])
@pytest.mark.parametrize("devices", [2, 3, 4])
def test_sequential_pipelines_end(scheduler, devices):
    cluster = f'flat({devices}, bandwidth="1GB/s", device="v100-16gb")'
    simulated("sequential", scheduler, cluster).verify()
