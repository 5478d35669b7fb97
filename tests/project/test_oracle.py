"""A second simulator of the same semantics agrees with both engines to the nanosecond: by hand, and on drawn cases."""

import re
from collections import Counter

import pytest

from fuzz.engines import attempt
from helpers.networks import chain, pipeline_trace
from oracle import judging
from oracle.cases import Case
from oracle.rounding import Rounding
from oracle.routes import Roads
from oracle.simulate import simulate
from oracle.tasks import ranks
from pipesim.core.cluster import Cluster, Device, Link
from pipesim.core.plan import Plan, Stage
from pipesim.core.scenario import Degraded, Scenario, Slow
from pipesim.lowering import Options

NS = 1e-9


def case(
    forward, backward, schedule, hop_bytes=None, *, cluster=None, plan=None, scenario=None, background="", **options
):
    """One layer and one device per stage on a chain of 1 byte per ns, unless a plan and a cluster are given; in ns."""
    count = len(forward)
    microbatches = 1 + max(int(number) for number in re.findall(r"[FBIW](\d+)", schedule))
    parameters = options.pop("parameters", 0)
    return Case(
        pipeline_trace(forward, backward, hop_bytes, parameters),
        cluster or chain(count),
        plan or Plan("by hand", count, microbatches, tuple(Stage(n, n + 1, (f"g{n}",)) for n in range(count))),
        schedule,
        Options(**options),
        scenario or Scenario(),
        background,
        {},
        None,
    )


def check(made, expected):
    """The oracle finds these times, on all replicas or on those named, and both engines find what the oracle finds."""
    found = simulate(*made[:-1])
    assert not found.doubts
    spans = {}
    for (kind, stage, *rest), span in found.spans.items():
        label = f"{stage}{kind}{''.join(str(part) for part in rest if isinstance(part, int))}"
        for name in (label, (label, *(part for part in rest if isinstance(part, str)))):
            spans.setdefault(name, set()).add(span)
    assert {name: spans[name] for name in expected} == {name: {span} for name, span in expected.items()}
    assert judging.judged(made) == "equal"


GPIPE = "0F0,0F1,0B0,0B1\n1F0,1F1,1B0,1B1"
ONE_F_ONE_B = "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1"


def test_two_transfers_share_a_link_fairly():
    """The first is alone from 10 to 20, then both have half: 90 bytes take 180 ns, and leave 10 to the second."""
    check(
        case([10, 10], [20, 20], GPIPE, [100], sharing="fair"),
        {
            "0F0": (0, 10), "0F1": (10, 20), "0>0": (10, 200), "0>1": (20, 210), "1F0": (200, 210), "1F1": (210, 220),
            "1B0": (220, 240), "1B1": (240, 260), "1<0": (240, 420), "1<1": (260, 440), "0B0": (420, 440),
            "0B1": (440, 460),
        },
    )  # fmt: skip


def test_one_transfer_at_a_time():
    check(
        case([10, 10], [20, 20], GPIPE, [100], sharing="fifo"),
        {
            "0>0": (10, 110), "0>1": (110, 210), "1F0": (110, 120), "1F1": (210, 220), "1B0": (220, 240),
            "1B1": (240, 260), "1<0": (240, 340), "1<1": (340, 440), "0B0": (340, 360), "0B1": (440, 460),
        },
    )  # fmt: skip


def test_every_transfer_alone():
    check(
        case([10, 10], [20, 20], GPIPE, [100], sharing="none"),
        {
            "0>0": (10, 110), "0>1": (20, 120), "1<0": (150, 250), "1<1": (170, 270), "0B0": (250, 270),
            "0B1": (270, 290),
        },
    )  # fmt: skip


def test_a_receive_is_posted_when_the_receiver_comes_to_it():
    """The second activations exist at 20; stage 1 comes to them at 45, when its first backward has ended."""
    check(
        case([10, 10], [20, 20], ONE_F_ONE_B, [5], transfers="rendezvous"),
        {
            "0F1": (10, 20), "0>0": (10, 15), "1F0": (15, 25), "1B0": (25, 45), "0>1": (45, 50), "1<0": (45, 50),
            "1F1": (50, 60), "0B0": (50, 70), "1B1": (60, 80), "1<1": (80, 85), "0B1": (85, 105),
        },
    )  # fmt: skip


def test_a_blocking_sender_goes_on_when_its_message_has_gone():
    check(
        case([10, 10], [20, 20], ONE_F_ONE_B, [5], transfers="blocking"),
        {
            "0>0": (10, 15), "0F1": (15, 25), "0>1": (45, 50), "1<0": (45, 50), "1F1": (50, 60), "0B0": (50, 70),
        },
    )  # fmt: skip


def test_messages_that_wait_for_each_other_are_stuck_in_the_oracle_and_in_both_engines():
    """Two chunks on each of two devices, 2F0 after 0F1 and 1F1 after 3F0; eager transfers pass.

    Blocking, 2F0 waits until the activations of 0F1 have gone, these until 1F1 is next, so until 3F0 has ended, which
    reads what 2F0 makes.
    """
    rows = "0F0,0F1,2F0,2F1,2B0,2B1,0B0,0B1\n1F0,3F0,1F1,3F1,3B0,1B0,3B1,1B1"
    plan = Plan("loop", 4, 2, tuple(Stage(n, n + 1, (f"g{n % 2}",)) for n in range(4)))
    for transfers, expected in (("eager", "equal"), ("blocking", "stuck: blocking")):
        made = case([1] * 4, [1] * 4, rows, [5] * 3, cluster=chain(2), plan=plan, transfers=transfers)
        assert judging.judged(made) == expected


def test_of_messages_that_are_ready_together_the_earlier_microbatch_goes_first():
    """At 44 the gradients of microbatch 0 and the activations of microbatch 1 want the same half-duplex link."""
    check(
        case([22, 7], [9, 10], ONE_F_ONE_B, [5], cluster=chain(2, duplex="half"), sharing="fifo"),
        {
            "0F1": (22, 44), "1B0": (34, 44), "1<0": (44, 49), "0>1": (49, 54),
        },
    )  # fmt: skip


def test_of_messages_of_one_microbatch_that_are_ready_together_gradients_go_first():
    """At 55 one replica of stage 1 has the gradients of microbatch 1, the other comes to its activations; one wire.

    10 bytes to each, one after the other: at 10 and 20, those of microbatch 1 at 30 to g1 only, which has done 1F0.
    g1 does 1F1 from 40 to 45 and 1B1 from 45 to 55; g2, slow from 35 on, does 1F0 from 30 to 35 and 1B0 until 55.
    """
    links = tuple(Link(f"g{i}", "hub", 1e9, 0.0, "shared", "wire") for i in range(3))
    cluster = Cluster("bus", tuple(Device(f"g{i}", "any") for i in range(3)), links)
    check(
        case(
            [10, 10], [20, 20], "0F0,0F1,0B1,0B0\n1F0,1F1,1B1,1B0\n1F0,1B0,1F1,1B1", [20], cluster=cluster,
            plan=Plan("even", 2, 2, (Stage(0, 1, ("g0",)), Stage(1, 2, ("g1", "g2")))),
            scenario=Scenario((Slow("g2", 2.0, 35 * NS),)), sharing="fifo", transfers="rendezvous",
        ),
        {
            ("1B1", "g1"): (45, 55), ("1B0", "g2"): (35, 55), ("1<1", "g1", "g0"): (55, 65),
            ("0>1", "g0", "g2"): (65, 75),
        },
    )  # fmt: skip


def test_a_channel_is_one_machine_for_both_directions():
    check(
        case([22, 7], [9, 10], ONE_F_ONE_B, [5], sharing="channel"),
        {
            "0F1": (22, 44), "1B0": (34, 44), "1<0": (44, 49), "0>1": (49, 54),
        },
    )  # fmt: skip


def star(count, latency=0.0):
    devices = tuple(Device(f"g{i}", "any") for i in range(count))
    return Cluster("star", devices, tuple(Link(f"g{i}", "hub", 1e9, latency) for i in range(count)))


def test_three_replicas_go_round_a_ring_four_times_then_step():
    """A third of 60 and 120 ns; 4 messages of 300 bytes over two links of 5 ns each; 1 ns per byte of parameters."""
    check(
        case(
            [60], [120], "0F0,0B0\n0F0,0B0\n0F0,0B0", cluster=star(3, 5e-9), parameters=900, optimizer_s_per_byte=1e-9,
            plan=Plan("ring", 1, 1, (Stage(0, 1, ("g0", "g1", "g2")),)),
        ),
        {
            "0F0": (0, 20), "0B0": (20, 60), "0A": (60, 1300), "0O": (1300, 2200),
        },
    )  # fmt: skip


def test_a_flow_slows_down_while_its_link_is_degraded_and_a_task_while_its_device_is_slow():
    """100 bytes from 10 on: 40 until 50, 10 until 70 at half speed, 50 until 120. Then 15 ns at a third do 5 of 10."""
    scenario = Scenario((Slow("g1", 3.0, 120 * NS, 135 * NS),), (Degraded("g1", "g0", 0.5, 50 * NS, 70 * NS),))
    for sharing in ("fair", "fifo", "none"):
        check(
            case([10, 10], [20, 20], "0F0,0B0\n1F0,1B0", [100], scenario=scenario, sharing=sharing),
        {
            "0>0": (10, 120), "1F0": (120, 140), "1B0": (140, 160), "1<0": (160, 260),
        },
        )  # fmt: skip


def test_others_take_their_share_of_one_direction():
    """Three quarters from 50 ns on: 40 bytes by then, 60 at a quarter of the speed. The way back is free."""
    background = "link,time,share\ng0->g1,5e-8,0.75\n"
    check(
        case([10, 10], [20, 20], "0F0,0B0\n1F0,1B0", [100], background=background),
        {
            "0>0": (10, 290), "1F0": (290, 300), "1B0": (300, 320), "1<0": (320, 420),
        },
    )  # fmt: skip


def test_a_forward_and_a_backward_as_one_wait_for_both_and_give_both_at_the_end():
    """10 + 20 ns of which half of the shorter hides: 25, parted 8 + 17. The gradients of microbatch 0 come at 45."""
    rows = "0F0,(0F1;0B0)OVERLAP_F_B,0B1\n1F0,1B0,1F1,1B1"
    check(
        case([10, 10], [20, 20], rows, [5], pair_overlap=0.5),
        {
            "1<0": (45, 50), "0F1": (50, 58), "0B0": (58, 75), "0>1": (75, 80), "1F1": (80, 90),
        },
    )  # fmt: skip


def test_destinations_are_dealt_out_over_equal_ways():
    names = ("g0", "g1", "g2", "g3")
    links = [Link(name, f"leaf{i // 2}", 1e9) for i, name in enumerate(names)]
    links += [Link(f"leaf{i}", f"spine{j}", 1e9) for i in range(2) for j in range(2)]
    cluster = Cluster("leaf and spine", tuple(Device(name, "any") for name in names), tuple(links))
    roads = Roads(cluster, Rounding())
    assert [hop for hop, _ in roads.way("g0", "g2")] == ["g0", "leaf0", "spine0", "leaf1"]
    assert [hop for hop, _ in roads.way("g0", "g3")] == ["g0", "leaf0", "spine1", "leaf1"]


def test_copies_in_opposite_directions_stand_in_the_order_of_the_first():
    stages = tuple(Stage(n, n + 1, pair) for n, pair in enumerate([("a", "d"), ("b", "c"), ("c", "b"), ("d", "a")]))
    for replicas, expected in (("whole", ["a", "b", "c", "d"]), ("split", ["a", "d", "b", "c"])):
        made = Plan("both", 4, 2, stages, replicas)
        assert ranks(made) == expected == list(made.devices)
    pairs = [(*stage.devices, *(name.upper() for name in stage.devices)) for stage in stages]
    made = Plan("both", 4, 4, tuple(Stage(n, n + 1, names) for n, names in enumerate(pairs)), "whole")
    assert ranks(made) == list("aAbBcCdD") == list(made.devices)


@pytest.mark.parametrize("begin", range(0, 150, 10))
def test_drawn_cases(begin):
    """Ten of the cases of `fuzz/engines.py`; most must decide something."""
    found = Counter(attempt(seed).split(":")[-1].strip() for seed in range(begin, begin + 10))
    assert found["equal"] >= 4, found
