"""What Hypothesis draws: every noun, small, with ties as likely as distinct times.

traces   clusters   plans(layers, devices)   schedules(plan)   scenarios(cluster)   options
jobs     all of them together, fitting;  even_jobs: a pipeline whose stages are all equal, links shared
team_jobs a job of teams, with sharding and all that data parallelism does
programs what `lower` makes of a job

for_drawn(strategy, count, judge)  examples that are drawn once, however many tests judge them
"""

import functools
import itertools
import random
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from pipesim.core.cluster import Cluster, Device, Link
from pipesim.core.costs import Costs, costs_of
from pipesim.core.plan import Plan, Stage
from pipesim.core.program import SHARINGS, TRANSFERS, Program
from pipesim.core.scenario import CALM, Degraded, Scenario, Slow
from pipesim.core.schedule import BACKWARD, FORWARD, INPUT, WEIGHT, Schedule
from pipesim.core.trace import ANY_KIND, Trace
from pipesim.lowering import Options, Setup, lower
from pipesim.lowering.setup import RINGS, SHARDINGS

# The same examples in every run; a slow machine is no failure.
settings.register_profile("pipesim", deadline=None, derandomize=True, database=None, max_examples=40)
settings.load_profile("pipesim")

KINDS = ("v100", "a100")
SHAPES = ("chain", "ring", "star", "bus", "nodes")
EVEN_SHAPES = ("chain", "star", "bus", "nodes")

names = st.text(st.characters(exclude_categories=("C", "Zl", "Zp")), min_size=1, max_size=8)
seconds = st.one_of(st.integers(0, 4).map(lambda k: k * 1e-3), st.floats(0, 1e-2, allow_subnormal=False))
sizes = st.one_of(st.integers(0, 3).map(lambda k: k * 1_000_000), st.integers(0, 4_000_000))


# --- traces ----------------------------------------------------------------------------------------------------------


@st.composite
def traces(draw, *, layers=None, kinds=None, recorded_sizes=None, most_samples=3, chain=False):
    """Recorded layers: several device kinds, microbatch sizes and samples, layers that read earlier ones."""
    count = draw(st.integers(1, 5)) if layers is None else layers
    kinds = draw(st.sampled_from([(ANY_KIND,), KINDS[:1], KINDS])) if kinds is None else kinds
    recorded_sizes = draw(st.sampled_from([(4,), (2, 8)])) if recorded_sizes is None else recorded_sizes
    backward = draw(st.sampled_from(["whole", "first", "split", "both"]))
    fixed = [_layer(draw, layer, chain) for layer in range(count)]
    rows = []
    for kind, size, layer in itertools.product(kinds, recorded_sizes, range(count)):
        bytes_ = {"output_bytes": draw(sizes), "stash_bytes": draw(sizes)}
        for sample in range(draw(st.integers(1, most_samples))):
            times = {"forward_s": draw(seconds)} | {name: draw(seconds) for name in _BACKWARDS[backward]}
            place = {"device_kind": kind, "microbatch_size": size, "sample": sample}
            rows.append(fixed[layer] | bytes_ | place | times)
    _agree(rows)
    columns = {name: np.array([row[name] for row in rows], _dtype(rows[0][name])) for name in rows[0]}
    return Trace(draw(names), "drawn", recorded_sizes[0], columns, machine=draw(names))


_BACKWARDS = {
    "whole": ["backward_s"],
    "first": ["backward_s", "backward_first_s"],
    "split": ["backward_input_s", "backward_weight_s"],
    "both": ["backward_s", "backward_input_s", "backward_weight_s", "recompute_s"],
}


def _layer(draw, layer, chain):
    earlier = draw(st.lists(st.integers(0, max(layer - 1, 0)), max_size=2 if layer and not chain else 0))
    inputs = ";".join(map(str, earlier)) or (draw(st.sampled_from(["", "", "-"])) if not chain else "")
    return {"layer": layer, "name": draw(names), "kind": "layer", "parameter_bytes": draw(sizes), "inputs": inputs}


def _agree(rows):
    """Sizes belong to a layer and a microbatch size, whatever the device."""
    first = {}
    for row in rows:
        same = first.setdefault((row["layer"], row["microbatch_size"]), row)
        row |= {name: same[name] for name in ("output_bytes", "stash_bytes")}


def _dtype(value):
    return object if isinstance(value, str) else type(value)


def even_trace(layers, forward=1e-3, backward=2e-3, output_bytes=1_000_000, parameter_bytes=1_000_000):
    """Layers that are all equal: where every tie there can be is one."""
    every = np.ones(layers)
    return Trace(
        "even",
        "drawn",
        1,
        {
            "layer": np.arange(layers),
            "name": np.array([f"layer{i}" for i in range(layers)], object),
            "forward_s": forward * every,
            "backward_s": backward * every,
            "output_bytes": np.full(layers, output_bytes),
            "stash_bytes": np.full(layers, output_bytes),
            "parameter_bytes": np.full(layers, parameter_bytes),
        },
    )


# --- clusters --------------------------------------------------------------------------------------------------------


@st.composite
def clusters(draw, devices=None, *, kinds=KINDS, shapes=SHAPES, even=False):
    """Devices that can all reach each other: joined directly, over a switch, by one shared wire, or in two nodes."""
    count = draw(st.integers(1, 5)) if devices is None else devices
    shape = draw(st.sampled_from(shapes))
    gpus = [
        Device(f"gpu{i}", kinds[0] if even else draw(st.sampled_from(kinds)), f"node{i % 2}", draw(sizes))
        for i in range(count)
    ]
    links = [_link(draw, a, b, shape) for a, b in _pairs(shape, [gpu.name for gpu in gpus])]
    if links and (even or shape == "bus"):
        links = [_like(links[0], link.source, link.target) for link in links]
    return Cluster(shape, tuple(gpus), tuple(links))


def _pairs(shape, names):
    """Which vertices a shape joins."""
    if shape == "ring" and len(names) > 2:
        return list(zip(names, [*names[1:], names[0]], strict=True))
    if shape in {"star", "bus"}:
        return [(name, "hub") for name in names]
    if shape == "nodes":
        return [(name, f"nic{i % 2}") for i, name in enumerate(names)] + [("nic0", "core"), ("core", "nic1")]
    return list(itertools.pairwise(names))


def _link(draw, source, target, shape):
    bandwidth, latency = draw(st.sampled_from([1e9, 2e9, 3e9])), draw(st.sampled_from([0.0, 0.0, 5e-6, 1e-3]))
    if shape == "bus":
        return Link(source, target, bandwidth, latency, "shared", "wire")
    table = draw(st.sampled_from([(), (), ((0.0, 1e-5), (1e5, 2e-4), (4e6, 3e-3))]))
    return Link(source, target, bandwidth, latency, draw(st.sampled_from(["full", "half"])), table=table)


def _like(link, source, target):
    return Link(source, target, link.bandwidth, link.latency, link.duplex, link.medium, link.table)


# --- plans and schedules ---------------------------------------------------------------------------------------------


@st.composite
def plans(draw, layers, devices, *, most_microbatches=4, replicas=("split", "whole"), even=False, model="drawn"):
    """Stages on disjoint groups of these devices, a group holding one stage or several in turn.

    `even`: as many layers and as many devices in every stage as in any other.
    """
    order = list(devices) if even else draw(st.permutations(devices))
    fits = [n for n in range(1, min(layers, len(order)) + 1) if not even or layers % n == 0 == len(order) % n]
    groups = draw(st.sampled_from(fits))
    most = -(-layers // groups)
    rounds = draw(st.sampled_from([n for n in range(1, most + 1) if not even or layers % (n * groups) == 0]))
    stages = min(groups * rounds, layers)
    cuts = [n * layers // stages for n in range(1, stages)] if even else sorted(draw(_distinct(layers - 1, stages - 1)))
    bounds = [0, *cuts, layers]
    ends = [i * len(order) // groups for i in range(groups + 1)]
    held = [tuple(order[a:b]) for a, b in itertools.pairwise(ends)]
    return Plan(
        model=model,
        layers=layers,
        microbatches=draw(st.integers(1, most_microbatches)),
        stages=tuple(Stage(a, b, held[n % groups]) for n, (a, b) in enumerate(itertools.pairwise(bounds))),
        replicas=draw(st.sampled_from(replicas)),
    )


def _distinct(most, count):
    return st.sets(st.integers(1, max(most, 1)), min_size=count, max_size=count)


@st.composite
def schedules(draw, plan, *, split_backwards=True):
    """An order in which everything can run: again and again one of the actions that could come next, at random."""
    rng = random.Random(draw(st.integers(0, 2**32)))
    split = {n for n in range(len(plan.stages)) if split_backwards and rng.random() < 0.3}
    left = {
        (rank, n, kind, m)
        for rank, held in enumerate(plan.chunks)
        for n in held
        for m in plan.microbatches_of(n, plan.stages[n].devices.index(plan.devices[rank]))
        for kind in ((FORWARD, INPUT, WEIGHT) if n in split else (FORWARD, BACKWARD))
    }
    rows = [[] for _ in plan.devices]
    while left:
        rank, *action = rng.choice(sorted(cell for cell in left if not _waits(cell, left)))
        left.remove((rank, *action))
        rows[rank].append(tuple(action))
    return Schedule.of(rows)


def _waits(cell, left):
    """Whether something that this action needs is still to be done: on its own rank, or on the neighbouring stage."""
    rank, stage, kind, microbatch = cell
    if kind == WEIGHT:
        return (rank, stage, INPUT, microbatch) in left
    if kind == FORWARD:
        return any((n, k, m) == (stage - 1, FORWARD, microbatch) for _, n, k, m in left)
    return (rank, stage, FORWARD, microbatch) in left or any(
        (n, m) == (stage + 1, microbatch) and k in {BACKWARD, INPUT} for _, n, k, m in left
    )


# --- scenarios, options ----------------------------------------------------------------------------------------------

windows = st.sampled_from([(0.0, None), (0.0, 2e-3), (1e-3, 5e-3), (3e-3, None)])


@st.composite
def scenarios(draw, cluster):
    """Nothing, or some devices slow and some links degraded, throughout or for a while; windows may overlap."""
    gpus = [device.name for device in cluster.devices]
    joined = [(link.source, link.target) for link in cluster.links]
    slow = [
        Slow(device, draw(st.sampled_from([1.5, 2.0, 3.0])), *draw(windows))
        for device in draw(st.lists(st.sampled_from(gpus), max_size=2))
    ]
    degraded = [
        Degraded(*ends, draw(st.sampled_from([0.25, 0.5, 0.3])), *draw(windows))
        for ends in draw(st.lists(st.sampled_from(joined), max_size=2) if joined else st.just([]))
    ]
    if joined and draw(st.integers(0, 5)) == 0:
        degraded += _restless(draw(st.sampled_from(joined)), draw(st.sampled_from([40, 400])), draw(st.integers(0, 99)))
    return Scenario(tuple(slow), tuple(degraded))


def _restless(ends, changes, seed):
    """A link whose speed changes more often than there are tasks, as beside the traffic of others."""
    rng = random.Random(seed)
    steps = list(itertools.accumulate(rng.choice([1e-5, 5e-5, 1.7e-4]) for _ in range(changes)))
    return [Degraded(*ends, rng.choice([0.1, 0.5, 0.7, 1.0]), a, b) for a, b in itertools.pairwise([0.0, *steps])]


@st.composite
def options(draw, sharings=SHARINGS, transfers=TRANSFERS):
    """How transfers behave, with an optimizer step or without."""
    return Options(
        draw(st.sampled_from(sharings)), draw(st.sampled_from(transfers)), draw(st.sampled_from([0.0, 1e-9, 1.7e-9]))
    )


# --- all together ----------------------------------------------------------------------------------------------------


class Job(NamedTuple):
    """All that `lower` asks for."""

    plan: Plan
    schedule: Schedule
    costs: Costs
    cluster: Cluster
    options: Options
    scenario: Scenario

    @property
    def program(self) -> Program:
        return lower(Setup(*self[:-1], scenario=self.scenario))


@st.composite
def jobs(draw, *, sharings=SHARINGS, transfers=("eager",), calm=False, split_backwards=True, large=False):
    """Anything that fits together. Only `eager` transfers are sure not to stop a drawn schedule for ever.

    `large`: for the largest recorded microbatches, whose parts do not take a part of the time.
    """
    trace = draw(traces(kinds=draw(st.sampled_from([(ANY_KIND,), KINDS]))))
    cluster = draw(clusters())
    plan = draw(plans(trace.layer_count, [device.name for device in cluster.devices]))
    schedule = draw(schedules(plan, split_backwards=split_backwards))
    chosen = draw(options(sharings, transfers))
    scenario = CALM if calm else draw(scenarios(cluster))
    if chosen.sharing == "channel":  # has no links that could be degraded
        scenario = Scenario(scenario.slow)
    size = int(trace.layers["microbatch_size"].max()) if large else None
    return Job(plan, schedule, costs_of(trace, size), cluster, chosen, scenario)


@st.composite
def even_jobs(draw, *, sharings=SHARINGS, transfers=("eager",), split_backwards=False):
    """Equal stages on equal devices with equal links, often one wire for all: everything happens at the same time."""
    cluster = draw(clusters(draw(st.sampled_from([2, 4, 6])), kinds=KINDS[:1], shapes=EVEN_SHAPES, even=True))
    trace = even_trace(draw(st.sampled_from([4, 6, 8])))
    plan = draw(plans(trace.layer_count, [device.name for device in cluster.devices], even=True))
    schedule = draw(schedules(plan, split_backwards=split_backwards))
    return Job(plan, schedule, costs_of(trace), cluster, draw(options(sharings, transfers)), CALM)


@st.composite
def team_jobs(draw, *, sharings=SHARINGS, transfers=TRANSFERS, calm=False, chunks=2):
    """Jobs as they are trained: teams of widths that may differ per stage, sharding, tied embeddings, overlap, norm.

    Teams are tensor x context wide. Transfers that hold devices may stop a drawn schedule for ever.
    """
    context = draw(st.sampled_from([1, 1, 1, 2]))
    groups = draw(st.integers(1, 3))
    widths = [draw(st.sampled_from([1, 1, 2, 4] if context == 1 else [1, 2])) * context for _ in range(groups)]
    copies = [draw(st.sampled_from([1, 2, 3])) if width < 4 else 1 for width in widths]
    cluster = draw(clusters(sum(w * k for w, k in zip(widths, copies, strict=True)), kinds=KINDS[:1]))
    names = iter(draw(st.permutations([device.name for device in cluster.devices])))
    held = [
        [tuple(next(names) for _ in range(width)) for _ in range(count)]
        for width, count in zip(widths, copies, strict=True)
    ]
    stages = groups * draw(st.integers(1, chunks))
    layers = stages + draw(st.integers(0, 2))
    cuts = [0, *sorted(draw(_distinct(layers - 1, stages - 1))), layers]
    plan = Plan(
        model="drawn",
        layers=layers,
        microbatches=draw(st.integers(1, 3)),
        stages=tuple(
            Stage(a, b, tuple(team[0] for team in held[n % groups]))
            for n, (a, b) in enumerate(itertools.pairwise(cuts))
        ),
        replicas=draw(st.sampled_from(["split", "whole"])),
        teams=tuple(team for row in held for team in row if len(team) > 1),
        context=context,
    )
    trace = at_widths(draw(_tied(draw(traces(layers=layers, kinds=(ANY_KIND,), chain=True)))), plan)
    options = draw(training_options(plan, draw(st.sampled_from(sharings)), draw(st.sampled_from(transfers))))
    schedule = draw(schedules(plan))
    scenario = CALM if calm or options.sharing == "channel" else draw(scenarios(cluster))
    return Job(plan, schedule, costs_of(trace, widths=plan.widths(0)), cluster, options, scenario)


@st.composite
def _tied(draw, trace):
    """The trace, perhaps with an embedding whose matrix the last layer uses too."""
    if trace.layer_count < 2 or draw(st.booleans()):
        return trace
    layer = trace.layers["layer"]
    kind = np.where(layer == 0, "embedding", np.where(layer == layer.max(), "tied_head", "layer")).astype(object)
    return replace(trace, layers=trace.layers | {"kind": kind})


def at_widths(trace, plan):
    """The trace with rows at the widths of all stages: what takes one GPU takes t of them a t-th of the time."""
    known = list(dict.fromkeys(plan.widths(n) for n in range(len(plan.stages))))
    parts = []
    for width in known:
        rows = dict(trace.layers) | {name: np.full(len(trace.layers["layer"]), n) for name, n in width.by_name.items()}
        rows |= {name: column / width.gpus for name, column in rows.items() if name.endswith("_s")}
        rows["parameter_bytes"] = rows["parameter_bytes"] // width.tensor
        rows["stash_bytes"] = rows["stash_bytes"] // width.gpus
        parts.append(rows)
    return replace(trace, layers={name: np.concatenate([part[name] for part in parts]) for name in parts[0]})


@st.composite
def training_options(draw, plan, sharing, transfers):
    """Options of data parallelism and of sends; a size of groups that divides the copies of every stage."""
    copies = [len(stage.devices) * plan.context for stage in plan.stages]
    fits = [size for size in (1, 2, 3) if all(count % min(size, count) == 0 for count in copies)]
    return Options(
        sharing,
        transfers,
        optimizer_s_per_byte=draw(st.sampled_from([0.0, 1e-9])),
        sharding=draw(st.sampled_from(SHARDINGS)),
        sharding_size=draw(st.sampled_from([None, *fits])),
        gradient_bytes=draw(st.sampled_from([None, 0.5, 2.0])),
        gradient_overlap=draw(st.booleans()),
        rings=draw(st.sampled_from(RINGS)),
        scatter_sends=draw(st.booleans()),
        tied_all_reduce=draw(st.booleans()),
        gradient_norm=draw(st.booleans()),
    )


programs = jobs().map(lambda job: job.program)
even_programs = even_jobs().map(lambda job: job.program)
any_jobs = jobs()
any_team_jobs = team_jobs()
paired_team_jobs = team_jobs(transfers=("paired",), chunks=1)  # with chunks, drawn schedules mostly stand still


# --- examples for many tests -----------------------------------------------------------------------------------------


def for_drawn(strategy, count, judge):
    """Judge so many examples of a strategy, the same for all members of a family: drawing takes longer than judging.

    They are from all parts of a hundred, since the first are small. If one fails, Hypothesis draws for this judge
    alone, to find and show a smaller one.
    """
    examples = _examples(strategy)
    try:
        for example in examples[:: max(1, len(examples) // count)][:count]:
            judge(example)
    except Exception:

        @settings(max_examples=count)
        @given(strategy)
        def alone(example):
            judge(example)

        alone()
        raise


@functools.cache
def _examples(strategy):
    found = []

    @settings(max_examples=100, phases=[Phase.generate])
    @given(strategy)
    def keep(example):
        found.append(example)

    keep()
    return found
