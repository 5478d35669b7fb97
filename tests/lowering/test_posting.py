"""How sends and receives are posted: what holds the devices, and in which order."""

from itertools import pairwise

import numpy as np
import pytest

import pipesim as ps
from helpers.networks import pipeline_trace
from helpers.small_programs import star
from helpers.strategies import even_trace
from pipesim.base.errors import DeadlockError
from pipesim.core.costs import costs_of
from pipesim.core.plan import Plan, Stage
from pipesim.core.program import ACTIVATION, GRADIENT
from pipesim.core.schedule import parse
from pipesim.engines import compiled
from pipesim.lowering import Options, Setup, lower
from pipesim.schedulers.gpipe import gpipe
from pipesim.schedulers.interleaved import interleaved
from pipesim.schedulers.one_f_one_b import one_f_one_b

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


# What PyTorch 2.13.0 writes for its Interleaved1F1B of two ranks, two chunks and four microbatches (`compute_comms`).
COMMS = """
0F0,0SEND_F0,2RECV_F0,0F1,0SEND_F1,2RECV_F1,2F0,2SEND_F0,2F1,2SEND_F1,2RECV_B0,0F2,0SEND_F2,2B0,2SEND_B0,2RECV_B1,0F3,0SEND_F3,
2RECV_F2,2B1,2SEND_B1,0RECV_B0,2F2,2SEND_F2,2RECV_F3,0B0,0RECV_B1,2F3,2SEND_F3,0B1,2RECV_B2,2B2,2SEND_B2,2RECV_B3,2B3,2SEND_B3,
0RECV_B2,0B2,0RECV_B3,0B3
1RECV_F0,1F0,1SEND_F0,1RECV_F1,1F1,1SEND_F1,3RECV_F0,3F0,3RECV_F1,3B0,3SEND_B0,1RECV_F2,3F1,1RECV_B0,3B1,3SEND_B1,1RECV_F3,1F2,
1SEND_F2,1RECV_B1,1B0,1SEND_B0,3RECV_F2,1F3,1SEND_F3,1B1,1SEND_B1,3RECV_F3,3F2,3B2,3SEND_B2,1RECV_B2,3F3,3B3,3SEND_B3,1RECV_B3,
1B2,1SEND_B2,1B3,1SEND_B3
"""


def test_receives_that_are_posted_ahead_are_where_pytorch_posts_them():
    program = posted(interleaved, "posted", 2, 4, 2)
    names = [f"{program.stage[t]}{'FB'[program.kind[t]]}{program.microbatch[t]}" for t in range(32)]
    ranks = COMMS.strip().replace(",\n", ",").split("\n")
    for task in range(32, len(program)):
        forward, stage = program.kind[task] == ACTIVATION, int(program.stage[task])
        to = stage + (1 if forward else -1)
        cells = ranks[to % 2].split(",")
        receive = cells.index(f"{to}RECV_{'F' if forward else 'B'}{program.microbatch[task]}")
        before = [cell for cell in cells[:receive] if "_" not in cell][-1:]
        made = f"{stage}{'F' if forward else 'B'}{program.microbatch[task]}"
        assert {names[need] for need in program.needs[task]} == {made, *before}


def test_receives_that_are_posted_ahead_hold_up_less_than_those_right_before_their_actions():
    ends = [compiled.run(posted(interleaved, how, 4, 8, 2)).makespan for how in ("eager", "posted", "rendezvous")]
    assert ends == sorted(ends)
    assert ends[1] < ends[2]


def test_each_way_of_posting_takes_at_least_as_long_as_the_less_strict_one():
    spans = [simulated(how).makespan for how in ("eager", "rendezvous", "blocking", "sequential")]
    assert spans == sorted(spans)
    assert spans[0] < spans[-1]


def posted(scheduler, transfers, devices, microbatches, chunks=1):
    """A pipeline of so many chunks on each device, with sends of 5 ns."""
    stages = devices * chunks
    trace = pipeline_trace([10] * stages, [20] * stages, [5] * (stages - 1))
    plan = Plan("many", stages, microbatches, tuple(Stage(n, n + 1, (f"g{n % devices}",)) for n in range(stages)))
    made = scheduler(plan)
    return lower(Setup(plan, made, costs_of(trace), star(devices), Options("none", transfers)))


@pytest.mark.parametrize("scheduler", [gpipe, one_f_one_b])
@pytest.mark.parametrize("transfers", ["sequential", "paired", "blocking"])
@pytest.mark.parametrize("devices", [2, 3, 4, 7, 8])
def test_pipelines_end_however_messages_are_posted(scheduler, transfers, devices):
    for microbatches in (1, 2, 3, devices - 1, devices, devices + 1, 3 * devices):
        compiled.run(posted(scheduler, transfers, devices, microbatches)).verify()


@pytest.mark.parametrize("devices", [2, 3, 4, 5, 8])
@pytest.mark.parametrize("chunks", [2, 3, 4])
def test_interleaved_pipelines_end_with_one_exchange_for_each_pair(devices, chunks):
    for rounds in (1, 2, 3):
        compiled.run(posted(interleaved, "paired", devices, rounds * devices, chunks)).verify()


@pytest.mark.parametrize("devices", [2, 3])
def test_a_circle_of_devices_that_all_send_first_is_stuck(devices):
    """As it is with sends that wait for their receivers: each device of an interleaved pipeline sends to the next."""
    with pytest.raises(DeadlockError):
        compiled.run(posted(interleaved, "sequential", devices, 2 * devices, 2))


def test_weights_gradients_are_in_no_exchange_with_a_forward():
    """0F2 is followed by a W, whose end its activations must not wait for; once they did."""
    rows = "0F0,0F1,0I0,0F2,0W0,0I1,0W1,0I2,0W2\n1F0,1I0,1F1,1I1,1W0,1W1,1F2,1I2,1W2"
    trace = pipeline_trace([10] * 2, [20] * 2, [5])
    plan = Plan("split", 2, 3, (Stage(0, 1, ("g0",)), Stage(1, 2, ("g1",))))
    program = lower(Setup(plan, parse(rows), costs_of(trace), star(2), Options("none", "paired")))
    sent = np.flatnonzero((program.kind == ACTIVATION) & (program.microbatch == 2))
    needed = program.needs[int(sent[0])]
    assert "0F2 on g0" in {program.label(int(task)) for task in needed}
