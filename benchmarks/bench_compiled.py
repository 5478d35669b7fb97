"""The compiled engine beside the SimPy engine, in batches, under fair sharing with many flows, and at 4,096 GPUs."""

import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np

import bench_event
from pipesim.base.arrays import Floats, Ragged
from pipesim.core.plan import Plan, Stage
from pipesim.core.program import ACTIVATION, Program
from pipesim.engines import compiled, event
from pipesim.lowering import Options, Setup, lower
from pipesim.schedulers.one_f_one_b import one_f_one_b
from pipesim.studies import equal_stages
from pipesim.studies.loading import load_cluster

Row = tuple[str, str, str]
GROWTH = ((1, 8), (4, 16), (16, 32), (64, 64))  # (copies of the pipeline, its stages)


def seconds(call: Callable[[], object], repeats: int = 5) -> float:
    """The least seconds of several calls."""
    return min(bench_event.seconds(call) for _ in range(repeats))


def rows() -> list[Row]:
    """(what, measured, bar) for the tables of benchmarks/README.md."""
    return [*_beside_simpy(), _batch(), *_contended_batches(), _fair(), _joined(), *_growth()]


def _beside_simpy() -> list[Row]:
    found = []
    for shape, bar in (((16, 64), "≥ 60"), ((128, 1024), "≥ 30")):
        made = bench_event.program(*shape, "fifo")
        compiled.run(made)  # the kernels are fetched
        quick, slow = seconds(lambda p=made: compiled.run(p)), seconds(lambda p=made: event.run(p), 2)
        fixed = seconds(lambda p=made: compiled.in_fixed_order(p))
        found.append((f"fifo {shape}: heap loop, times faster than the SimPy engine", f"{slow / quick:.0f}", bar))
        found.append(("... loop in fixed order, with the time to find the order", f"{slow / fixed:.0f}", ""))
        found.append((f"... ns per task of {len(made):,}", f"{quick / len(made) * 1e9:.0f}", ""))
    return found


def _batch(plans: int = 20_000) -> Row:
    """One program of (16, 64) under many sets of durations: one for each stage and kind."""
    made = lower(
        equal_stages.setup("one_f_one_b", 16, 64, equal_stages.Times.of(1e-3, 2e-3, hop=3e-4), None, Options("fifo"))
    )
    sorts, sort = np.unique(made.kind * 100 + made.stage, return_inverse=True)
    base = np.array([made.duration[sort == s][0] for s in range(len(sorts))])
    spread = np.random.default_rng(0).uniform(0.9, 1.1, (len(sorts), plans))
    durations = np.rint(base[:, None] * spread).astype(np.int64)
    compiled.makespans(made, sort, durations[:, :64])
    took = seconds(lambda: compiled.makespans(made, sort, durations), 3)
    return f"batch of {plans:,} plans of (16, 64): plans per second", f"{plans / took:,.0f}", "≥ 100,000"


def _contended_batches(sets: int = 256) -> list[Row]:
    """Durations of 16 stages on four servers behind shared NICs, whose order on links no rule fixes beforehand."""
    found, rng = [], np.random.default_rng(0)
    for rule in ("fifo", "fair"):
        made = behind_nics(rule)
        spread = rng.uniform(0.9, 1.1, (len(made), sets))
        durations = np.maximum(1, np.rint(made.duration[:, None] * spread)).astype(np.int64)
        sort = np.arange(len(made))
        compiled.makespans(made, sort, durations[:, :2])
        began = time.process_time()
        compiled.makespans(made, sort, durations)
        each, began = (time.process_time() - began) / sets, time.process_time()
        ends = [int(event.run(replace(made, duration=durations[:, n])).end.max()) for n in range(4)]
        slow = (time.process_time() - began) / 4
        if ends != compiled.makespans(made, sort, durations[:, :4]).tolist():
            raise AssertionError(f"{rule}: the engines differ")
        what = f"{rule}, batch of {sets} sets of durations of {len(made):,} contending tasks"
        found.append((f"{what}: times the SimPy engine, for each core", f"{slow / each:.0f}", "≥ 20"))
    return found


def behind_nics(rule: str) -> Program:
    """1F1B on 16 stages and 64 microbatches, on four servers of four devices; all messages cross NICs."""
    costs = bench_event.even(16)
    cluster = load_cluster('servers(4, 4, intra="25GB/s", inter="1GB/s")')
    order = [cluster.devices[4 * (n % 4) + n // 4].name for n in range(16)]
    plan = Plan(costs.model.name, 16, 64, tuple(Stage(n, n + 1, (order[n],)) for n in range(16)))
    return lower(Setup(plan, one_f_one_b(plan), costs, cluster, Options(rule)))


def _fair(flows: int = 1000) -> Row:
    """So many flows at once between random devices of a fat tree of 1,024, again and again."""
    return _per_change(f"fair sharing, {flows:,} flows on 1,024 GPUs", waves_of_flows(flows, 4), "≤ 300")


def waves_of_flows(flows: int, waves: int) -> Program:
    """So many flows at once between random devices of a fat tree of 1,024, each after that of the wave before."""
    cluster = load_cluster('fat_tree(16, bandwidth="100Gb/s")')
    names = [device.name for device in cluster.devices]
    rng = np.random.default_rng(0)
    count = flows * waves
    source = np.tile(rng.permutation(len(names))[:flows], waves)
    target = (source + 1 + rng.integers(0, len(names) - 1, count)) % len(names)
    routes = [cluster.route(names[a], names[b]) for a, b in zip(source.tolist(), target.tolist(), strict=True)]
    needs = [[n - flows] if n >= flows else [] for n in range(count)]
    capacity = np.array(cluster.media_bandwidth) / 1e9
    media = [list(route.media) for route in routes]
    return _flows(capacity, media, rng.uniform(1e6, 1e7, count), needs)


def _joined(flows: int = 3000, links: int = 600) -> Row:
    what = f"fair sharing, {flows:,} flows over {links} links"
    return _per_change(what, joined_flows(flows, links), "≤ 100")


def joined_flows(flows: int, links: int) -> Program:
    """Flows over two to four random links, which begin in the first millisecond and last up to a hundred."""
    rng = np.random.default_rng(0)
    media = [rng.permutation(links)[: rng.integers(2, 5)].tolist() for _ in range(flows)]
    begins = rng.integers(0, 1_000_000, flows)
    made = _flows(rng.uniform(1, 10, links), media, rng.uniform(1e5, 1e7, flows), [[] for _ in media])
    return replace(made, delay=begins)


def _per_change(what: str, made: Program, bar: str) -> Row:
    timeline = compiled.run(made)
    assert timeline.rates is not None  # noqa: S101 - fair sharing has rates
    changes = len(np.unique(timeline.rates.time))
    took = seconds(lambda: compiled.run(made), 2)
    return f"{what}: us per change ({changes:,} changes)", f"{took / changes * 1e6:.0f}", bar


def _flows(capacity: Floats, media: list[list[int]], size: Floats, needs: list[list[int]]) -> Program:
    """A program of transfers alone, with the links and the needs of each."""
    count = len(media)
    zero = np.zeros(count, np.int64)
    alone = np.ceil(size / np.array([capacity[route].min() for route in media])).astype(np.int64)
    return Program(
        sharing="fair",
        transfers="eager",
        devices=("any",),
        media=tuple(f"link{m}" for m in range(len(capacity))),
        capacity=capacity,
        kind=np.full(count, ACTIVATION),
        stage=zero,
        microbatch=np.arange(count),
        lane=zero - 1,
        source=zero,
        target=zero,
        duration=alone,
        delay=zero,
        size=size,
        limit=np.full(count, np.inf),
        order=Ragged.of([[]]),
        needs=Ragged.of(needs),
        route=Ragged.of(media),
        memory_start=zero,
        memory_end=zero,
        static_memory=np.zeros(1, np.int64),
        memory=np.zeros(1, np.int64),
        microbatches=1,
        samples=1,
        flops=None,
        peak_flops=None,
    )


def _growth() -> list[Row]:
    """Copies of a pipeline side by side, 512 microbatches each, with their all-reduces, under fair sharing."""
    found = []
    for copies, stages in GROWTH:
        began = time.perf_counter()
        made = _copies(copies, stages)
        built = time.perf_counter() - began
        took = seconds(lambda p=made: compiled.run(p), 1)
        bar = "≤ 60 s in all" if copies * stages == 4096 else ""
        what = f"{copies * stages:,} GPUs, {len(made):,} tasks: seconds to build and to replay"
        found.append((what, f"{built:.1f} + {took:.1f}", bar))
    return found


def _copies(copies: int, stages: int, microbatches: int = 512) -> Program:
    costs = bench_event.even(stages, parameter_bytes=[10_000_000] * stages)
    cluster = load_cluster(f'servers({copies * stages // 8}, 8, intra="300GB/s", inter="200Gb/s", nics=8)')
    names = [device.name for device in cluster.devices]
    parts = tuple(Stage(n, n + 1, tuple(names[r * stages + n] for r in range(copies))) for n in range(stages))
    plan = Plan("even", stages, microbatches * copies, parts, "whole")
    return lower(Setup(plan, one_f_one_b(plan), costs, cluster, Options("fair")))


if __name__ == "__main__":
    for row in rows():
        print(" | ".join(row))
