"""Whole simulations drawn from a seed, with what pipesim makes of them."""

import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np

from oracle import orders, wirings
from oracle.tasks import ranks
from pipesim.base.errors import InputError
from pipesim.core import background as loads
from pipesim.core import schedule as schedules
from pipesim.core.cluster import Cluster
from pipesim.core.costs import costs_of
from pipesim.core.plan import Plan
from pipesim.core.program import SHARINGS, TRANSFERS, Program
from pipesim.core.scenario import Degraded, Scenario, Slow
from pipesim.core.trace import ANY_KIND, Trace
from pipesim.lowering import Options, Setup, lower, redraw
from pipesim.lowering.setup import RINGS, SHARDINGS
from pipesim.studies.ordering import ordered_with


class Case(NamedTuple):
    """What a user gives."""

    trace: Trace
    cluster: Cluster
    plan: Plan
    schedule: str
    options: Options
    scenario: Scenario
    background: str
    reading: dict
    drawn: int | None  # the seed of times drawn anew

    def program(self) -> Program:
        """What pipesim makes of it."""
        costs = costs_of(self.trace, **self.reading)
        scenario = self.scenario
        if self.background:
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "background.csv"
                path.write_text(self.background)
                scenario = scenario.beside(loads.read(path, self.cluster))
        schedule = schedules.parse(self.schedule)
        setup = Setup(self.plan, schedule, costs, self.cluster, self.options, scenario)
        made = lower(setup)
        if self.drawn is None:
            return made
        rng = np.random.default_rng(self.drawn)
        return redraw(made, setup, rng=rng, jitter=0.1)


def draw(rng) -> Case:
    """Anything that fits together, or nearly."""
    even = rng.random() < 0.35
    kinds = wirings.KINDS if rng.random() < 0.7 else wirings.KINDS[1:]
    cluster = wirings.cluster(rng, kinds, even=even)
    trace = _trace(rng, (ANY_KIND,) if rng.random() < 0.4 else kinds, even=even)
    options = _options(rng)
    reading = _reading(rng)
    made = orders.plan(rng, trace.layer_count, [device.name for device in cluster.devices])
    made, schedule = _ordered(rng, trace, cluster, made, options, reading)
    return Case(
        trace,
        cluster,
        made,
        schedule,
        options,
        _scenario(rng, cluster, options) if rng.random() < 0.5 else Scenario(),
        _background(rng, cluster) if options.sharing != "channel" and rng.random() < 0.2 else "",
        reading,
        rng.randrange(2**32) if rng.random() < 0.1 else None,
    )


def _ordered(rng, trace, cluster, made, options, reading) -> tuple[Plan, str]:  # noqa: PLR0917 - parts of a case
    """By one of pipesim's schedulers, which may lay out stages anew; at random where it does not order such a plan."""
    if rng.random() < 0.6:
        try:
            other, schedule = ordered_with(rng.choice(orders.NAMED), made, costs_of(trace, **reading), cluster, options)
            return other, str(schedule)
        except InputError:
            pass
    return made, orders.drawn_order(rng, made, ranks(made))


# --- traces ----------------------------------------------------------------------------------------------------------

_BACKWARDS = (
    ("backward_s",),
    ("backward_s", "backward_first_s"),
    ("backward_input_s", "backward_weight_s"),
    ("backward_s", "backward_input_s", "backward_weight_s", "recompute_s"),
)


def _trace(rng, kinds, *, even: bool) -> Trace:
    layers, sizes = rng.randint(1, 8), rng.choice([(4,), (4,), (2, 8), (1, 3, 16)])
    backward = rng.choice(_BACKWARDS)
    unit = rng.choice([1, 64, 1000])
    number, seconds = (lambda: 4096 * unit), (lambda: 16384e-9)
    if not even:
        number = lambda: rng.choice([0, 1024, 4096, rng.randint(1, 9000)]) * unit  # noqa: E731 - one of two ways to draw
        seconds = lambda: rng.choice([0.0, 8192e-9, 16384e-9, 1e-5, rng.uniform(0, 1e-3)])  # noqa: E731 - as above
    rows, buckets, tied = [], rng.choice([1, 1, 64]), rng.random() < 0.5
    for layer in range(layers):
        earlier = ";".join(map(str, rng.sample(range(layer), min(layer, rng.randint(1, 2)))))
        fixed = {"layer": layer, "name": f"layer{layer}", "inputs": rng.choice(["", "", earlier, "-"])}
        fixed["parameter_bytes"] = number() * buckets
        fixed["kind"] = {0: "embedding", layers - 1: "tied_head"}.get(layer, "layer") if tied else "layer"
        for size in sizes:
            moved = {"output_bytes": number(), "stash_bytes": number()}
            for kind in kinds:
                for sample in range(1 if even else rng.choice([1, 1, 2, 3])):
                    timed = {name: seconds() for name in ("forward_s", *backward)}
                    place = {"device_kind": kind, "microbatch_size": size, "sample": sample}
                    rows.append(fixed | moved | place | timed)
    text = {"name", "inputs", "device_kind", "kind"}
    columns = {name: np.array([row[name] for row in rows], object if name in text else None) for name in rows[0]}
    return Trace("drawn", "drawn", sizes[0], columns)


def _reading(rng) -> dict:
    found = {}
    if rng.random() < 0.4:
        found["microbatch_size"] = rng.choice([1, 2, 3, 4, 5, 6, 8, 12, 16, 20])
    if rng.random() < 0.2:
        found["statistic"] = rng.choice(["mean", "min", "max"])
    if rng.random() < 0.2:
        found["weight_share"] = rng.choice([0.0, 0.25, 0.4, 1.0])
    if rng.random() < 0.2:
        found["scaling"] = "linear"
    return found


# --- options, and what goes wrong ------------------------------------------------------------------------------------


def _options(rng) -> Options:
    pairs = rng.choice([{}, {}, {"pair_overlap": 0.5}, {"pair_overlap": 1.0}, {"pair_factor": 0.75}])
    return Options(
        sharing=rng.choice([*SHARINGS, "fair"]),
        transfers=rng.choice([*TRANSFERS, "eager"]),
        optimizer_s_per_byte=rng.choice([0.0, 0.0, 1e-9, 1.7e-9, 1e-12]),
        recompute=rng.choice(["none", "none", "full", "selective"]),
        sharding=rng.choice(["none", "none", *SHARDINGS]),
        sharding_size=rng.choice([None, None, 1, 2]),
        gradient_bytes=rng.choice([None, None, 0.5, 2.0]),
        gradient_overlap=rng.random() < 0.3,
        rings=rng.choice(RINGS),
        tied_all_reduce=rng.random() < 0.3,
        gradient_norm=rng.random() < 0.3,
        **pairs,
    )


def _window(rng) -> tuple[float, float | None]:
    start = rng.choice([0.0, 8192e-9, 1e-4, rng.uniform(0, 2e-3)])
    return start, rng.choice([None, start + 1e-4, start + 16384e-9, start + rng.uniform(1e-9, 1e-3)])


def _scenario(rng, cluster, options) -> Scenario:
    many = rng.choice([1, 2, 2, 12])
    slow = [
        Slow(rng.choice(cluster.devices).name, rng.choice([1.5, 2.0, 3.0, 0.5]), *_window(rng))
        for _ in range(rng.randint(0, many))
    ]
    if not cluster.links or (options.sharing == "channel" and rng.random() < 0.9):
        return Scenario(tuple(slow))
    degraded = []
    for _ in range(rng.randint(0, many)):
        link = rng.choice(cluster.links)
        ends = (link.source, link.target)
        if link.duplex != "one_way" and rng.random() < 0.5:
            ends = ends[::-1]
        fraction, one_way = rng.choice([0.25, 0.5, 0.3, 1.0]), rng.random() < 0.3
        degraded.append(Degraded(*ends, fraction, *_window(rng), one_way))
    return Scenario(tuple(slow), tuple(degraded))


def _background(rng, cluster) -> str:
    """What others use of some links, each called in one of the ways in which it may be."""
    lines, used = ["link,time,share"], set()
    for link in rng.sample(cluster.links, min(len(cluster.links), rng.randint(1, 3))):
        a, b = link.source, link.target
        names = {"one_way": [f"{a}->{b}"], "shared": [link.medium, f"{a}->{b}", f"{b}<->{a}"]}
        name = rng.choice(names.get(link.duplex, [f"{a}->{b}", f"{b}->{a}", f"{a}<->{b}"]))
        media = link.medium or frozenset((a, b))
        if media in used:
            continue
        used.add(media)
        times = sorted({rng.choice([0.0, rng.uniform(0, 3e-3)]) for _ in range(rng.choice([1, 3, 60]))})
        lines += [f"{name},{time!r},{rng.choice([0, 0.25, 0.5, 0.6, 0.6])}" for time in times]
    return "\n".join(lines) + "\n"
