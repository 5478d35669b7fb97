"""Replicas of a stage with equal surroundings do everything at the same time: section 5 of docs/certificate.md, tried.

The proof is in exact arithmetic. Here is how far rates in floating point and whole nanoseconds take replicas apart.
"""

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.networks import pipeline_trace
from helpers.strategies import even_trace
from pipesim.analysis.bounds.islands import Network
from pipesim.core.cluster import Cluster, Device, Link
from pipesim.core.costs import costs_of
from pipesim.core.plan import Plan, Stage
from pipesim.core.schedule import BACKWARD, FORWARD, Schedule
from pipesim.engines import event
from pipesim.lowering import Options, Setup, lower

MOST = 1  # ns that replicas in lockstep may be apart


@st.composite
def servers(draw):
    """Some servers with one switch, and one NIC to a core, each link with its own numbers and perhaps bursts."""
    rate = st.sampled_from([0.3e9, 1e9, 3e9, 7e9, 25e9])
    delay = st.sampled_from([0.0, 5e-6, 3.3e-7])
    links, devices = [], []
    for node in range(draw(st.integers(1, 3))):
        inside, late, duplex = draw(rate), draw(delay), draw(st.sampled_from(["full", "full", "half"]))
        names = [f"n{node}g{i}" for i in range(draw(st.integers(2, 4)))]
        devices += [Device(name, "any", f"n{node}") for name in names]
        one = Link("a", "b", inside, late, duplex)
        if draw(st.booleans()):
            one = replace(one, table=((0.0, late), (1e4, late + 1e4 / inside / 4), (1e6, late + 1e6 / inside)))
        links += [replace(one, source=name, target=f"sw{node}") for name in names]
        links.append(Link(f"sw{node}", "core", draw(rate), draw(delay)))
    return Cluster("servers", tuple(devices), tuple(links))


@st.composite
def plans(draw, cluster):
    """Stages on any devices, in any order."""
    names = draw(st.permutations([device.name for device in cluster.devices]))
    used = draw(st.integers(2, len(names)))
    stages = draw(st.integers(2, min(3, used)))
    ends = sorted(draw(st.permutations(range(1, used)))[: stages - 1])
    edges = [0, *ends, used]
    parts = tuple(Stage(n, n + 1, tuple(names[edges[n] : edges[n + 1]])) for n in range(stages))
    return Plan("m", stages, draw(st.integers(1, 6)), parts)


def any_order(plan, rng):
    """Rows of actions, the same for all replicas of a stage, in which everything can run."""
    rows = [[] for _ in plan.stages]
    last, count = len(rows) - 1, plan.microbatches
    left = {(n, kind, m) for n in range(len(rows)) for kind in (FORWARD, BACKWARD) for m in range(count)}

    def waits(n, kind, m):
        if kind == FORWARD:
            return n > 0 and (n - 1, FORWARD, m) in left
        return (n, FORWARD, m) in left or (n < last and (n + 1, BACKWARD, m) in left)

    while left:
        ready = sorted(cell for cell in left if not waits(*cell))
        action = ready[rng.integers(len(ready))]
        left.remove(action)
        rows[action[0]].append(action)
    return Schedule.of([rows[n] for (n,) in plan.chunks])


@settings(max_examples=80)
@given(st.data(), st.integers(0, 10**6))
def test_replicas_that_are_alike_compute_at_the_same_time(data, seed):
    rng, cluster = np.random.default_rng(seed), data.draw(servers())
    plan = data.draw(plans(cluster))
    forward, backward = (rng.integers(1, 10**6, plan.layers).tolist() for _ in range(2))
    hops = rng.integers(0, 10**7, plan.layers - 1).tolist() or None
    costs = costs_of(pipeline_trace(forward, backward, hops, int(rng.integers(0, 10**7))))
    timeline = event.run(lower(Setup(plan, any_order(plan, rng), costs, cluster, Options("fair"))))
    assert apart(plan, cluster, timeline) <= MOST


def apart(plan, cluster, timeline):
    """The most nanoseconds between the starts, or the ends, of one action on replicas that are alike."""
    nodes = [device.node for device in cluster.devices]
    label = np.unique(nodes, return_inverse=True)[1]
    alike, most, program = Network(cluster).alike(label), 0, timeline.program
    for n, stage in enumerate(plan.stages):
        for island in np.flatnonzero(alike).tolist():
            lanes = [plan.devices.index(name) for name in stage.devices if label[cluster.index[name]] == island]
            if len(lanes) > 1:
                for column in (timeline.start, timeline.end):
                    rows = [np.sort(column[(program.lane == lane) & (program.stage == n)]) for lane in lanes]
                    most = max(most, int(np.ptp(np.array(rows), axis=0).max()))
    return most


def test_where_one_link_is_slower_replicas_are_not_alike_and_may_drift_apart():
    """So the test above would see it."""
    links = tuple(Link(f"g{i}", "sw", rate) for i, rate in enumerate((4e9, 1e9, 0.5e9)))
    cluster = Cluster("uneven", tuple(Device(f"g{i}", "any", "n") for i in range(3)), links)
    plan = Plan("even", 2, 2, (Stage(0, 1, ("g0",)), Stage(1, 2, ("g1", "g2"))))
    costs = costs_of(even_trace(2, output_bytes=10**6))
    schedule = any_order(plan, np.random.default_rng(0))
    timeline = event.run(lower(Setup(plan, schedule, costs, cluster)))
    assert not Network(cluster).alike(np.zeros(3, np.int64)).any()
    starts = [timeline.start[timeline.program.lane == lane] for lane in (1, 2)]
    assert np.ptp(np.array([row.min() for row in starts])) > 100_000
