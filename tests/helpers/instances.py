"""Small instances for the certified bound: a model, a cluster and microbatches, small enough to try their plans.

drawn(rng)           an instance
changed(instance)    the same with one number a little different
tried(instance, rng) every plan, or so many of them, under schedules: (seconds, case)
"""

import functools
import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from pipesim.analysis import metrics
from pipesim.base.errors import DeadlockError, ScheduleError
from pipesim.core.cluster import Cluster, Device, Link
from pipesim.core.costs import Costs, costs_of
from pipesim.core.plan import Plan, Stage
from pipesim.core.scenario import CALM, Degraded, Scenario, Slow
from pipesim.core.schedule import BACKWARD, FORWARD, Schedule
from pipesim.core.trace import Trace
from pipesim.engines.event import run
from pipesim.lowering import Options, Setup, lower
from pipesim.lowering.setup import RINGS, SHARDINGS
from pipesim.schedulers.gpipe import gpipe
from pipesim.schedulers.one_f_one_b import one_f_one_b
from pipesim.schedulers.pe import pe
from pipesim.schedulers.zb_h1 import zb_h1
from pipesim.studies import certified

SHAPES = ("switch", "servers", "chain", "pairs", "bus")


@dataclass(frozen=True)
class Instance:
    """Seconds are keyed by (device kind, recorded size, layer); a trace and a cluster are made of it."""

    forward: dict[tuple[str, int, int], float]
    backward: dict[tuple[str, int, int], float]
    outputs: tuple[int, ...]
    parameters: tuple[int, ...]
    cluster: Cluster
    microbatches: int
    options: Options
    scenario: Scenario

    @functools.cached_property
    def costs(self) -> Costs:
        kinds, sizes, layers = zip(*self.forward, strict=True)
        at = np.array(layers)
        columns = {
            "layer": at,
            "name": np.array([f"layer{n}" for n in layers], object),
            "device_kind": np.array(kinds, object),
            "microbatch_size": np.array(sizes),
            "forward_s": np.array(list(self.forward.values())),
            "backward_s": np.array([self.backward[key] for key in self.forward]),
            "output_bytes": np.array(self.outputs)[at] * np.array(sizes) // max(sizes),
            "stash_bytes": np.zeros(len(at), np.int64),
            "parameter_bytes": np.array(self.parameters)[at],
        }
        return costs_of(Trace("small", "drawn", max(sizes), columns), max(sizes))


# --- drawing ---------------------------------------------------------------------------------------------------------


def drawn(rng: random.Random) -> Instance:
    """Transfers, all-reduces and work are of one size, more or less: any of them may be what a plan waits for."""
    layers, devices = rng.choice([1, 2, 3, 3, 4, 5]), rng.choice([1, 2, 2, 3, 3, 4, 4])
    kinds, sizes = rng.choice([("any",)] * 3 + [("a", "b")]), rng.choice([(8,)] * 3 + [(2, 8)])
    even, scale = rng.random() < 0.3, rng.choice([0.01, 0.1, 0.5, 1, 2])
    base = [1e-3 if even else 1e-3 * rng.uniform(0.2, 2) for _ in range(layers)]
    keys = list(itertools.product(kinds, sizes, range(layers)))
    spread = {key: (1 if even else rng.uniform(0.7, 1.4)) * (key[1] / 8) ** rng.choice([0.3, 1.0, 1.0]) for key in keys}
    forward = {key: base[key[2]] * spread[key] for key in keys}
    backward = {key: base[key[2]] * spread[key] * rng.choice([1, 2, rng.uniform(0.5, 3)]) for key in keys}
    outputs = tuple(int(scale * 1e6 * (1 if even else rng.uniform(0, 2))) for _ in range(layers))
    heavy = rng.choice([0, 1e6, 1e7, 1e8, 1e9, 1e10, 1e10])  # the larger, the more a pipeline is worth
    parameters = tuple(int(heavy * rng.uniform(0, 2)) for _ in range(layers))
    cluster = drawn_cluster(rng, devices, kinds)
    options = Options(*_options(rng))
    if random.Random(f"{parameters} {outputs}").random() < 0.3:
        options = _training(random.Random(f"{outputs} {parameters}"), options)
    return Instance(
        forward, backward, outputs, parameters, cluster, rng.choice([1, 2, 3, 4, 6, 8]), options,
        _scenario(rng, cluster, options.sharing),
    )  # fmt: skip


def _options(rng: random.Random) -> tuple[str, str]:
    sharing = rng.choice(["fair", "fair", "fifo", "none", "channel"])
    return sharing, "eager" if rng.random() < 0.75 else rng.choice(["rendezvous", "blocking"])


def _training(rng: random.Random, options: Options) -> Options:
    """What replicas exchange, and sends that hold devices, as frameworks have them."""
    return replace(
        options,
        transfers=rng.choice([options.transfers, options.transfers, "paired", "sequential"]),
        sharding=rng.choice(SHARDINGS),
        gradient_bytes=rng.choice([None, 0.5, 2.0]),
        gradient_overlap=rng.random() < 0.4,
        rings=rng.choice(RINGS),
        optimizer_s_per_byte=rng.choice([0.0, 1e-12]),
        gradient_norm=rng.random() < 0.3,
    )


def _scenario(rng: random.Random, cluster: Cluster, sharing: str) -> Scenario:
    if rng.random() < 0.8:
        return CALM
    window = rng.choice([(0.0, None), (0.0, 2e-3), (1e-3, 4e-3)])
    slow = Slow(rng.choice(cluster.devices).name, rng.choice([0.5, 1.5, 3.0]), *window)
    if sharing == "channel" or not cluster.links:
        return Scenario((slow,))
    link = rng.choice(cluster.links)
    return Scenario((slow,), (Degraded(link.source, link.target, rng.choice([0.3, 0.7]), *window),))


def drawn_cluster(rng: random.Random, count: int, kinds: tuple[str, ...]) -> Cluster:
    """Devices around a switch, on two servers, in a row, each joined with each, or on one shared wire."""
    shape = rng.choice(SHAPES)
    uneven = rng.random() < 0.4
    devices = tuple(Device(f"gpu{i}", rng.choice(kinds), f"node{i % 2}") for i in range(count))
    names = [device.name for device in devices]
    ends = {
        "switch": [(name, "switch") for name in names],
        "bus": [(name, "switch") for name in names],
        "chain": list(itertools.pairwise(names)),
        "pairs": list(itertools.combinations(names, 2)),
        "servers": [(name, f"nic{i % 2}") for i, name in enumerate(names)] + [("nic0", "core"), ("nic1", "core")],
    }[shape]
    links = []
    first = _numbers(rng, "duplex")
    for source, target in ends:
        bandwidth, latency, duplex = _numbers(rng, first[2]) if uneven else first
        inside = 10 if shape == "servers" and target != "core" else 1
        if shape == "bus":
            links.append(Link(source, target, first[0], first[1], "shared", "wire"))
        elif shape == "pairs" and uneven:  # another bandwidth each way
            links.append(Link(source, target, bandwidth, latency, "one_way"))
            links.append(Link(target, source, *_numbers(rng, "full")[:2], "one_way"))
        else:
            links.append(Link(source, target, bandwidth * inside, latency, duplex))
    if rng.random() < 0.2:
        links = [_with_bursts(rng, link) for link in links]
    return Cluster(shape, devices, tuple(links))


def _with_bursts(rng: random.Random, link: Link) -> Link:
    """With a table in which messages up to some size are faster alone than the bandwidth, as out of a buffer."""
    size, faster = 10 ** rng.uniform(3, 6.5), rng.choice([1.0, 1.5, 4.0, 30.0])
    points = ((0.0, 0.0), (size, size / link.bandwidth / faster), (4 * size, 4 * size / link.bandwidth))
    return replace(link, table=tuple((x, link.latency + seconds) for x, seconds in points))


def _numbers(rng: random.Random, duplex: str) -> tuple[float, float, str]:
    duplex = rng.choice(["full", "full", "full", "half"]) if duplex == "duplex" else duplex
    return rng.choice([0.5e9, 1e9, 2e9, rng.uniform(0.3e9, 4e9)]), rng.choice([0.0, 0.0, 5e-6, 2e-4]), duplex


# --- changing --------------------------------------------------------------------------------------------------------


def changed(instance: Instance, rng: random.Random) -> Instance:
    """One number of the instance a little larger or smaller, or much."""
    factor = rng.choice([0.5, 0.8, 0.95, 0.99, 1.01, 1.05, 1.25, 2.0])
    what = rng.choice(["forward", "backward", "outputs", "parameters", "bandwidth", "latency"])
    if what in {"forward", "backward"}:
        times = dict(getattr(instance, what))
        times[rng.choice(list(times))] *= factor
        return replace(instance, **{what: times})
    if what in {"outputs", "parameters"}:
        sizes = list(getattr(instance, what))
        at = rng.randrange(len(sizes))
        sizes[at] = int(sizes[at] * factor) + rng.choice([0, 1, 1000])
        return replace(instance, **{what: tuple(sizes)})
    links = list(instance.cluster.links)
    if not links:
        return instance
    at = rng.randrange(len(links))
    value = getattr(links[at], what) * factor + (1e-6 if what == "latency" and rng.random() < 0.3 else 0)
    same = [at] if links[at].duplex != "shared" or what == "latency" else range(len(links))
    links = [replace(link, **{what: value}) if i in same else link for i, link in enumerate(links)]
    return replace(instance, cluster=replace(instance.cluster, links=tuple(links)))


# --- trying ----------------------------------------------------------------------------------------------------------


def every_plan(instance: Instance) -> Iterator[Plan]:
    """All contiguous plans on some or all of the devices, in every order, replicated in both ways."""
    layers, names = len(instance.outputs), [device.name for device in instance.cluster.devices]
    for used in range(1, len(names) + 1):
        for chosen in itertools.permutations(names, used):
            for stages in range(1, min(layers, used) + 1):
                for cuts, ends in itertools.product(
                    itertools.combinations(range(1, layers), stages - 1),
                    itertools.combinations(range(1, used), stages - 1),
                ):
                    first, last = itertools.pairwise([0, *cuts, layers]), itertools.pairwise([0, *ends, used])
                    parts = tuple(Stage(a, b, chosen[c:d]) for (a, b), (c, d) in zip(first, last, strict=True))
                    yield Plan("small", layers, instance.microbatches, parts)
                    if stages < used:
                        yield Plan("small", layers, instance.microbatches, parts, "whole")


def any_order(plan: Plan, rng: random.Random) -> Schedule:
    """An order in which everything can run: again and again one of the actions that could come next."""
    rows = [[] for _ in plan.devices]
    here = {}
    for rank, (n,) in enumerate(plan.chunks):
        here[rank] = (n, plan.microbatches_of(n, plan.stages[n].devices.index(plan.devices[rank])))
    left = {(rank, n, kind, m) for rank, (n, mine) in here.items() for m in mine for kind in (FORWARD, BACKWARD)}
    last = len(plan.stages) - 1

    def waits(rank, n, kind, m) -> bool:
        if kind == FORWARD:
            return n > 0 and any((r, n - 1, FORWARD, m) in left for r in here)
        return (rank, n, FORWARD, m) in left or (n < last and any((r, n + 1, BACKWARD, m) in left for r in here))

    while left:
        rank, *action = rng.choice(sorted(cell for cell in left if not waits(*cell)))
        left.remove((rank, *action))
        rows[rank].append(tuple(action))
    return Schedule.of(rows)


SCHEDULERS = {
    "1F1B, long warm-up": lambda plan, *_: one_f_one_b(plan, warm_up="3A"),
    "1F1B": lambda plan, *_: one_f_one_b(plan),
    "gpipe": lambda plan, *_: gpipe(plan),
    "pe": lambda plan, instance, _: pe(plan, instance.costs, instance.cluster),
    "zb_h1": lambda plan, *_: zb_h1(plan),
    "any order": lambda plan, _, rng: any_order(plan, rng),
    "another order": lambda plan, _, rng: any_order(plan, rng),
}


def case_of(instance: Instance, plan: Plan, schedule: Schedule) -> Setup:
    return Setup(plan, schedule, instance.costs, instance.cluster, instance.options, instance.scenario)


def seconds(case: Setup) -> float:
    return metrics.iteration_time(run(lower(case)))


def tried(instance: Instance, rng: random.Random, plans: int, best: int) -> list[tuple[float, Setup]]:
    """So many plans (all, if there are no more) under 1F1B, and the best of them under all schedulers; best first."""
    known = list(every_plan(instance))
    known = known if len(known) <= plans else rng.sample(known, plans)
    first, *others = SCHEDULERS.values()
    found = [result for plan in known for result in _timed(instance, plan, first, rng)]
    found.sort(key=lambda result: result[0])
    for _, case in found[:best]:
        found += [result for make in others for result in _timed(instance, case.plan, make, rng)]
    return sorted(found, key=lambda result: result[0])


def _timed(instance: Instance, plan: Plan, make, rng: random.Random) -> list[tuple[float, Setup]]:
    """Nothing if the scheduler does not do such plans, or if its order comes to a standstill with such transfers."""
    try:
        case = case_of(instance, plan, make(plan, instance, rng))
        return [(seconds(case), case)]
    except (ScheduleError, DeadlockError):
        return []


def check(time: float, case: Setup) -> float:
    """Time over the bound of all plans; neither that bound nor the plan's own may lie above the time."""
    bound, own = certified.bound(case), certified.schedule_bound(case)
    what = f"{time:.9f} s, {case.plan}, {case.options}, {case.scenario}, {case.schedule}"
    assert time >= bound, f"the bound of all plans, {bound:.9f} s, lies above {what}"
    every = certified.layout_bound(case, memory=False)
    assert every is None or time >= every, f"the bound of all layouts, {every:.9f} s, lies above {what}"
    assert own is None or time >= own, f"the bound of this plan, {own:.9f} s, lies above {what}"
    return time / bound if bound else float("inf")


def tightness(ratio: float) -> str:
    """How near the best plan came to the bound."""
    for most, words in ((0.001, "within 0.1 %"), (0.01, "within 1 %"), (0.1, "within 10 %")):
        if ratio <= 1 + most:
            return words
    return "looser"


def stages(case: Setup) -> str:
    """Whether it is a pipeline, or mere replicas of the whole model."""
    return "a pipeline" if len(case.plan.stages) > 1 else "one stage"


def conditions(case: Setup) -> str:
    """What decides which bound is taken, in a few words."""
    waiting = "" if case.options.transfers == "eager" else ", waiting in turn"
    scenario = "" if case.scenario == CALM else ", in a scenario"
    return f"{case.options.sharing}{waiting}{scenario}, {stages(case)}"
