"""What one message costs alone on its route."""

import numpy as np
import pytest

from helpers.networks import pipeline_trace
from pipesim.core.cluster import Cluster, Device, Link
from pipesim.core.costs import costs_of
from pipesim.core.plan import Plan, Stage
from pipesim.core.program import ACTIVATION
from pipesim.engines import compiled, event
from pipesim.engines.event import run
from pipesim.lowering import Options, Setup, lower
from pipesim.lowering.messages import AloneColumns, alone, alone_each
from pipesim.schedulers.gpipe import gpipe


def test_a_recorded_table_sets_delay_pace_and_limit():
    """10 ns for nothing, 110 for 50 bytes, 160 for 100: a message of 75 bytes takes 135."""
    link = Link("g0", "g1", 1e9, table=((0.0, 10e-9), (50.0, 110e-9), (100.0, 160e-9)))
    cluster = Cluster("table", (Device("g0", "any"), Device("g1", "any")), (link,))
    costs = costs_of(pipeline_trace([1, 1], [1, 1], [75]))
    plan = Plan("by hand", 2, 1, (Stage(0, 1, ("g0",)), Stage(1, 2, ("g1",))))
    for sharing in ("none", "fifo", "fair"):
        timeline = run(lower(Setup(plan, gpipe(plan), costs, cluster, Options(sharing))))
        timeline.verify()
        transfer = timeline.program.kind == ACTIVATION
        assert (timeline.end - timeline.start)[transfer].tolist() == [135]


@pytest.mark.parametrize(("sharing", "ends"), [("none", [30, 30]), ("fifo", [30, 60]), ("fair", [50, 50])])
@pytest.mark.parametrize("engine", [event.run, compiled.run], ids=["event", "compiled"])
def test_a_burst_that_is_faster_alone_than_the_link_takes_turns_with_others_all_the_same(sharing, ends, engine):
    """A half-duplex link of 1 byte/ns takes 100 bytes in 10 + 20 ns alone, out of a buffer; two at once meet on it.

    Recorders used to write the rate of such a burst as what the link has, so that nothing ever met on it.
    """
    link = Link("g0", "g1", 1e9, duplex="half", table=((0.0, 10e-9), (100.0, 30e-9), (1100.0, 1030e-9)))
    cluster = Cluster("burst", (Device("g0", "any"), Device("g1", "any")), (link,))
    costs = costs_of(pipeline_trace([1, 1], [1, 1], [100]))
    plan = Plan("by hand", 2, 2, (Stage(0, 1, ("g0",)), Stage(1, 2, ("g1",))))
    program = lower(Setup(plan, gpipe(plan), costs, cluster, Options(sharing)))
    transfers = np.flatnonzero(program.kind == ACTIVATION)
    timeline = engine(program.with_durations(np.where(program.is_compute, 0, program.duration)))
    timeline.verify()
    assert timeline.end[transfers].tolist() == ends
    assert timeline.moved.sum() == 4 * 100, "the bytes that pass are those of the messages"
    assert timeline.used.sum() == pytest.approx(4 * 20), "each uses the whole link for 20 ns"


def test_a_message_sent_several_times_in_a_row_takes_its_delay_every_time():
    """10 ns of latency and 1 byte per ns; 2.5 bytes three times are rounded up once."""
    cluster = Cluster("pair", (Device("g0", "any"), Device("g1", "any")), (Link("g0", "g1", 1e9, 10e-9),))
    message = alone(cluster, "g0", "g1", 2.5, 3)
    assert message.duration == 30 + 8
    assert message.delay == 30
    assert message.size == 7.5
    assert message.limit == np.inf, "no table limits it"
    assert len(message.media) == 1


@pytest.mark.parametrize(
    "special", [{}, {"table": ((0.0, 10e-9), (50.0, 110e-9), (100.0, 160e-9))}, {"burst": 500.0, "peak": 9e9}]
)
def test_many_messages_at_once_cost_what_each_does(special):
    links = Link("g0", "g1", 3e9, 1e-8, **special), Link("g1", "g2", 7e9, 5e-9)
    cluster = Cluster("line", tuple(Device(name, "any") for name in ("g0", "g1", "g2")), links)
    source, target = np.array([0, 2, 1, 0, 2]), np.array([1, 0, 2, 2, 1])
    size, times = np.array([75.0, 1e6, 0.0, 12345.0, 33.3]), np.array([1, 2, 3, 1, 7])
    one_by_one = [
        alone(cluster, cluster.devices[a].name, cluster.devices[b].name, each, n)
        for a, b, each, n in zip(*(column.tolist() for column in (source, target, size, times)), strict=True)
    ]
    expected = AloneColumns.of(one_by_one)
    found = alone_each(cluster, source, target, size, times)
    assert found.routes == expected.routes
    for name in ("duration", "delay", "size", "limit"):
        assert getattr(found, name).tolist() == getattr(expected, name).tolist(), name
