"""Programs written by hand: transfers that become ready at given times over given links, and plain pipelines."""

from dataclasses import replace

import numpy as np

from pipesim.base.arrays import Ragged
from pipesim.core.cluster import Cluster, Device, Link
from pipesim.core.costs import costs_of
from pipesim.core.plan import Plan, Stage
from pipesim.core.program import ACTIVATION, FORWARD, Program
from pipesim.core.trace import Trace
from pipesim.engines.event import run
from pipesim.lowering import Options, Setup, lower
from pipesim.schedulers.gpipe import gpipe
from pipesim.schedulers.one_f_one_b import one_f_one_b

NS = 1e-9


def network(capacity, flows, sharing, limits=None):
    """Flow i = (ready ns, bytes, media[, delay ns]); capacity in bytes per ns. Task i readies flow i: task n + i."""
    count = len(flows)
    blank, one = np.zeros(2 * count, np.int64), np.arange(count)
    capacity = np.asarray(capacity, np.float64)
    delay = np.array([flow[3] if len(flow) > 3 else 0 for flow in flows], np.int64)
    limit = np.full(count, np.inf) if limits is None else np.asarray(limits, np.float64)
    least = [capacity[list(flow[2])].min(initial=np.inf) for flow in flows]
    limit = np.where(limit > least, np.inf, limit)  # a limit above the links would be a burst out of a buffer
    rates = np.minimum(limit, least).tolist()
    alone = [int(np.ceil(flow[1] / rate - 1e-6)) for flow, rate in zip(flows, rates, strict=True)]
    return Program(
        sharing=sharing,
        transfers="eager",
        devices=tuple(f"g{i}" for i in range(count)),
        media=tuple(f"link{i}" for i in range(len(capacity))),
        capacity=capacity,
        kind=np.repeat([FORWARD, ACTIVATION], count),
        stage=blank,
        microbatch=np.tile(one, 2),
        lane=np.concatenate([one, np.full(count, -1)]),
        source=np.tile(one, 2),
        target=np.tile(one, 2),
        duration=np.concatenate([[flow[0] for flow in flows], delay + alone]).astype(np.int64),
        delay=np.concatenate([blank[:count], delay]),
        size=np.concatenate([np.zeros(count), [flow[1] for flow in flows]]).astype(np.float64),
        limit=np.concatenate([np.full(count, np.inf), limit]),
        order=Ragged.of([[i] for i in range(count)]),
        needs=Ragged.of([[] for _ in range(count)] + [[i] for i in range(count)]),
        route=Ragged.of([[] for _ in range(count)] + [list(flow[2]) for flow in flows]),
        memory_start=blank,
        memory_end=blank,
        static_memory=blank[:count],
        memory=blank[:count],
        microbatches=count,
        samples=count,
        flops=None,
        peak_flops=None,
    )


def late_but_first():
    """A transfer that becomes ready after another at the same time, and stands before it in the queue of link 0.

    time      0      100       110       200
    flow 0           w |0 ...... |                  waits for flow 3, which takes no time; link 0
    flow 1           |1 waits for link 1 | ...      links 0 and 1
    flow 2    |2 ........................|          link 1
    """
    program = network([1.0] * 3, [(100, 10, [0]), (100, 10, [0, 1]), (0, 200, [1]), (100, 0, [2])], "fifo")
    return replace(program, needs=Ragged.of([[], [], [], [], [0, 7], [1], [2], [3]]))


LATE_BUT_FIRST = [100, 200, 0, 100]  # when the four flows start


def pipeline_trace(forward, backward, hop_bytes=None, parameters=0):
    """One layer per stage; times in ns, bytes across each hop, bytes of parameters of each layer."""
    layers = len(forward)
    return Trace(
        "by hand",
        "test",
        1,
        {
            "layer": np.arange(layers),
            "name": np.array([f"layer{i}" for i in range(layers)], object),
            "forward_s": np.array(forward) * NS,
            "backward_s": np.array(backward) * NS,
            "output_bytes": np.array([*(hop_bytes or [0] * (layers - 1)), 0]),
            "stash_bytes": np.ones(layers, np.int64),
            "parameter_bytes": np.full(layers, parameters),
        },
    )


def chain(count, latency=None, duplex="full"):
    """Devices in a row, 1 byte per ns; latency in ns per hop."""
    devices = tuple(Device(f"g{i}", "any") for i in range(count))
    latencies = latency or [0] * (count - 1)
    links = tuple(Link(f"g{i}", f"g{i + 1}", 1e9, latencies[i] * NS, duplex) for i in range(count - 1))
    return Cluster("chain", devices, links)


SCHEDULERS = {"gpipe": gpipe, "one_f_one_b": one_f_one_b}


def pipeline(
    forward, backward, microbatches, schedule, *, hop_bytes=None, latency=None, duplex="full", parameters=0, **options
):
    """A straight pipeline, one layer and one device per stage. `schedule` is a scheduler's name or a Schedule."""
    count = len(forward)
    costs = costs_of(pipeline_trace(forward, backward, hop_bytes, parameters))
    stages = tuple(Stage(n, n + 1, (f"g{n}",)) for n in range(count))
    plan = Plan("by hand", count, microbatches, stages)
    made = SCHEDULERS[schedule](plan) if isinstance(schedule, str) else schedule
    return lower(Setup(plan, made, costs, chain(count, latency, duplex), Options(**options)))


def ends_of(capacity, flows, sharing, limits=None):
    """When each flow of `network` ends."""
    timeline = run(network(capacity, flows, sharing, limits))
    timeline.verify()
    return timeline.end[len(flows) :].tolist()
