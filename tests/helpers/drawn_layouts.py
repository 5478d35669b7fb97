"""Small layouts for bounds over layouts: a model, a cluster, lanes and replicas, and plans and orders of that layout.

drawn_case(rng)      costs, cluster, options and a layout
plan_of(case, rng)   a plan of it: any cuts, any lane for each stage
order_of(plan, rng)  an order in which everything can run: greedy in time, or any
judge(case, rng, n)  n plans, simulated; the least seconds over the bound
"""

import itertools
import random
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from helpers.instances import drawn_cluster
from pipesim.analysis import metrics
from pipesim.analysis.bounds.over_layouts import OpenLayout, layout_bound
from pipesim.analysis.bounds.over_plans import space_bound
from pipesim.base.errors import DeadlockError
from pipesim.core.cluster import Cluster, Device, Link
from pipesim.core.costs import Costs, costs_of
from pipesim.core.plan import Plan, Stage
from pipesim.core.program import SHARINGS
from pipesim.core.schedule import BACKWARD, FORWARD, INPUT, WEIGHT, Schedule
from pipesim.core.teams import Widths, teams_of
from pipesim.core.timeline import Timeline
from pipesim.core.trace import Trace
from pipesim.engines.event import run
from pipesim.lowering import Options, Setup, lower
from pipesim.lowering.setup import RINGS, SHARDINGS
from pipesim.schedulers.chimera import chimera

RECOMPUTED = ("none", "none", "full", "selective")


class LayoutCase(NamedTuple):
    """What a bound is asked for."""

    costs: Costs
    cluster: Cluster
    options: Options
    layout: OpenLayout


def drawn_case(rng: random.Random) -> LayoutCase:
    """Compute, messages and exchanges of one size, more or less: any of them may be what a layout waits for."""
    gpus = rng.choice([1, 1, 1, 2])
    pipeline, data = rng.choice([(1, 1), (2, 1), (2, 1), (3, 1), (4, 1), (1, 2), (2, 2), (1, 3), (3, 2)])
    kinds = rng.choice([("any",), ("any",), ("a", "b")])
    count = pipeline * data * gpus + rng.choice([0, 0, 1])
    cluster = _servers(rng, count, kinds) if gpus > 1 or rng.random() < 0.4 else drawn_cluster(rng, count, kinds)
    teams = teams_of(cluster, gpus) if gpus > 1 else cluster.devices
    if len(teams) < pipeline * data:
        pipeline, data = len(teams), 1
    blocks = rng.random() < 0.4
    layers = max(pipeline, rng.choice([1, 2, 3, 4, 5, 6])) * (2 if blocks else 1)
    options = Options(
        sharing=rng.choice(["fair", "fair", *SHARINGS]),
        recompute=rng.choice(RECOMPUTED),
        granularity="block" if blocks else "layer",
        recompute_blocks=rng.choice([None, None, 1]),
        optimizer_s_per_byte=rng.choice([0.0, 0.0, 1e-10, 1e-9]),
        sharding=rng.choice(["none", "none", *SHARDINGS]),
        gradient_bytes=rng.choice([None, 0.5, 2.0]),
        gradient_overlap=rng.random() < 0.3,
        rings=rng.choice(RINGS),
        gradient_norm=rng.random() < 0.3,
        scatter_sends=rng.random() < 0.3,
        pair_overlap=0.0,
    )
    chunks = rng.choice([1, 1, 2, None])
    layout = OpenLayout(
        pipeline, data, rng.choice([1, 2, 3, 4, 6, 8]), chunks, rng.random() < 0.5, rng.random() < 0.3,
        rng.choice(["whole", "whole", "split"]),
    )  # fmt: skip
    costs = _costs(rng, layers, kinds, blocks, gpus)
    if rng.random() < 0.4:
        model = costs.model
        held = 8 * model.parameter_bytes.sum() + rng.uniform(0.5, 4) * model.stash_bytes.sum()
        memory = 1 + int(held / pipeline)
        cluster = replace(cluster, devices=tuple(replace(device, memory=memory) for device in cluster.devices))
    return LayoutCase(costs, cluster, options, layout)


def _servers(rng: random.Random, count: int, kinds: tuple[str, ...]) -> Cluster:
    per_node = rng.choice([1, 2, 4]) if count > 2 else count
    devices = tuple(Device(f"gpu{i}", kinds[i // per_node % len(kinds)], f"node{i // per_node}") for i in range(count))
    inside, outside, latency = rng.choice([1e9, 1e10]), rng.choice([5e8, 1e9]), rng.choice([0.0, 1e-5])
    links = [Link(one.name, f"switch-{one.node}", inside, latency) for one in devices]
    nodes = dict.fromkeys(device.node for device in devices)
    links += [Link(f"switch-{node}", "core", outside, latency) for node in nodes]
    return Cluster("servers", devices, tuple(links))


def _costs(rng: random.Random, layers: int, kinds: tuple[str, ...], blocks: int, gpus: int) -> Costs:
    sizes, even = rng.choice([(8,), (8,), (2, 8)]), rng.random() < 0.4
    base = [1e-3 if even else 1e-3 * rng.uniform(0.1, 2) for _ in range(layers)]
    keys = list(itertools.product(kinds, sizes, range(layers)))
    slower = {kind: rng.choice([1.0, 1.0, 2.5]) for kind in kinds}
    ahead = np.array([base[n] * slower[kind] * (size / 8) ** rng.choice([0.4, 1.0]) for kind, size, n in keys])
    back = ahead * np.array([rng.choice([1.0, 2.0, rng.uniform(0.5, 3)]) for _ in keys])
    at, size = np.array([n for *_, n in keys]), np.array([size for _, size, _ in keys])
    parameters = rng.choice([0, 1e5, 1e6, 4e6]) * np.array([rng.uniform(0, 2) for _ in range(layers)])
    outputs = rng.choice([0, 1e5, 1e6]) * np.array([rng.uniform(0, 2) for _ in range(layers)])
    part = rng.uniform(0.2, 0.8)
    name = [f"block{n // 2}.{n % 2}" if blocks else f"layer{n}" for n in at.tolist()]
    columns = {
        "layer": at,
        "name": np.array(name, object),
        "device_kind": np.array([kind for kind, *_ in keys], object),
        "microbatch_size": size,
        "forward_s": ahead,
        "backward_s": back,
        "backward_first_s": back * rng.choice([0.9, 1.0]),
        "backward_input_s": back * part,
        "backward_weight_s": back * (1 - part) * rng.choice([0.9, 1.0, 1.1]),
        "output_bytes": outputs[at].astype(np.int64) * size // 8,
        "stash_bytes": 4 * outputs[at].astype(np.int64) * size // 8,
        "parameter_bytes": parameters[at].astype(np.int64),
    }
    columns |= {"tensor": np.full(len(at), gpus), "context": np.ones(len(at), int), "expert": np.ones(len(at), int)}
    return costs_of(Trace("small", "drawn", 8, columns), 8, widths=Widths(gpus))


def plan_of(case: LayoutCase, rng: random.Random) -> Plan:
    """Any cuts between units, any lane for each stage as long as every lane has one; replicas in any order."""
    layout, gpus = case.layout, case.costs.widths.gpus
    step = 2 if case.options.granularity == "block" else 1
    units = len(case.costs.model) // step
    most = min(units, layout.pipeline * (layout.chunks or units))
    stages = rng.randint(layout.pipeline, most)
    cuts = [0, *(step * n for n in sorted(rng.sample(range(1, units), stages - 1))), step * units]
    lanes = _lanes(layout, stages, rng)
    teams = list(teams_of(case.cluster, gpus)) if gpus > 1 else [(device.name,) for device in case.cluster.devices]
    chosen = rng.sample(teams, layout.pipeline * layout.data)
    chosen = sorted(chosen) if rng.random() < 0.5 else chosen
    held = [[team[0] for team in chosen[n :: layout.pipeline]] for n in range(layout.pipeline)]
    shuffled = rng.random() < 0.3
    parts = []
    for (a, b), lane in zip(itertools.pairwise(cuts), lanes, strict=True):
        devices = rng.sample(held[lane], layout.data) if shuffled else held[lane]
        parts.append(Stage(a, b, tuple(devices)))
    named = tuple(team for team in chosen if len(team) > 1)
    return Plan("small", len(case.costs.model), layout.microbatches, tuple(parts), layout.replicas, teams=named)


def _lanes(layout: OpenLayout, stages: int, rng: random.Random) -> list[int]:
    """The lane of each stage: in a loop, in a wave, or any, with at most `chunks` to a lane."""
    count = layout.pipeline
    way = rng.random()
    if way < 0.4:
        found = [n % count for n in range(stages)]
    elif way < 0.7:
        found = [n % count if n // count % 2 == 0 else count - 1 - n % count for n in range(stages)]
    else:
        found = list(range(count)) + [rng.randrange(count) for _ in range(stages - count)]
        rng.shuffle(found)
    most = max(found.count(lane) for lane in range(count))
    return found if most <= (layout.chunks or stages) else [n % count for n in range(stages)]


def order_of(case: LayoutCase, plan: Plan, rng: random.Random) -> Schedule:
    """Greedy in time with messages that take none, by one of a few priorities, or in any order."""
    split = {n for n in range(len(plan.stages)) if case.layout.splits and rng.random() < 0.6}
    rank = {name: i for i, name in enumerate(plan.devices)}
    cells = []  # (rank, stage, kind, microbatch)
    for n, stage in enumerate(plan.stages):
        for replica, device in enumerate(stage.devices):
            kinds = (FORWARD, INPUT, WEIGHT) if n in split else (FORWARD, BACKWARD)
            cells += [(rank[device], n, kind, m) for m in plan.microbatches_of(n, replica) for kind in kinds]
    first = rng.choice(["back", "ahead", "microbatch", "deep", "any"])
    value = {cell: _priority(cell, first, rng) for cell in cells}
    seconds = {n: _stage_seconds(case, plan, n) for n in range(len(plan.stages))}
    left, rows, free = set(cells), [[] for _ in plan.devices], [0.0] * len(plan.devices)
    ended: dict[tuple[int, int, int], float] = {}  # (stage, kind, microbatch), on the last replica
    missing: dict[tuple[int, int, int], int] = {}
    for _, n, kind, m in cells:
        missing[n, min(kind, INPUT), m] = missing.get((n, min(kind, INPUT), m), 0) + (kind != WEIGHT)
    own: dict[tuple[int, int, int, int], float] = {}
    while left:
        best = None
        for cell in left:
            at = _ready(cell, missing, ended, own, len(plan.stages))
            if at is not None:
                key = (max(at, free[cell[0]]), value[cell], cell)
                best = min(best, key) if best else key
        start, _, cell = best
        where, n, kind, m = cell
        left.remove(cell)
        rows[where].append(cell[1:])
        end = start + seconds[n][kind]
        free[where] = own[cell] = end
        if kind != WEIGHT:
            side = (n, FORWARD if kind == FORWARD else INPUT, m)
            missing[n, min(kind, INPUT), m] -= 1
            ended[side] = max(ended.get(side, 0.0), end)
    return Schedule.of(rows)


def _priority(cell, first, rng):
    _, n, kind, m = cell
    late = kind == WEIGHT
    return {
        "back": (late, kind == FORWARD, m, -n),
        "ahead": (late, kind != FORWARD, m, n),
        "microbatch": (late, m, n),
        "deep": (late, -n, m),
        "any": (rng.random(),),
    }[first]


def _ready(cell, missing, ended, own, stages):
    """When all that an action needs has ended; None if something has not."""
    where, n, kind, m = cell
    if kind == FORWARD:
        return 0.0 if n == 0 else None if missing[n - 1, FORWARD, m] else ended[n - 1, FORWARD, m]
    if kind == WEIGHT:
        return own.get((where, n, INPUT, m))
    mine = own.get((where, n, FORWARD, m))
    if mine is None or n == stages - 1:
        return mine
    later = [side for side in (BACKWARD, INPUT) if missing.get((n + 1, side, m), 0)]
    return None if later else max(mine, ended[n + 1, INPUT, m])


def _stage_seconds(case, plan, n):
    stage, share = plan.stages[n], plan.share(n)
    kind = case.cluster.device(stage.devices[0]).kind
    part = slice(stage.start, stage.stop)
    phases = {FORWARD: "forward", BACKWARD: "backward", INPUT: "backward_input", WEIGHT: "backward_weight"}
    return {code: float(case.costs.seconds(name, kind, share)[part].sum()) for code, name in phases.items()}


def judge(case: LayoutCase, rng: random.Random, count: int) -> float:
    """The least seconds of so many plans over the bound of their layout, which none is below; nor that of the space."""
    bound = layout_bound(case.costs, case.cluster, case.layout, case.options)
    asked = (case.costs, case.cluster, case.layout.microbatches, case.options)
    space, fitting = space_bound(*asked, memory=False), space_bound(*asked)
    least = float("inf")
    for _ in range(count):
        setup = setup_of(case, rng)
        timeline = simulated(setup)
        if timeline is None:
            continue
        seconds = metrics.iteration_time(timeline)
        what = f"{seconds:.9f} s: {case.layout}, {setup.plan}, {case.options}, {setup.schedule}"
        fits = metrics.fits_memory(timeline)
        assert seconds >= bound.seconds or not fits, f"the bound of the layout, {bound}, is above {what}"
        assert seconds >= space.seconds, f"the bound of the space, {space}, is above {what}"
        assert seconds >= fitting.seconds or not fits, f"the bound of what fits, {fitting}, is above {what}"
        least = min(least, seconds) if fits else least
    return least / max(bound.seconds, 1e-12) if np.isfinite(least) else float("inf")


def setup_of(case: LayoutCase, rng: random.Random) -> Setup:
    """A plan of the layout with an order; sometimes two copies of the model in opposite directions."""
    layout = case.layout
    if layout.mirrored and layout.pipeline % 2 == 0 and layout.replicas == "whole" and layout.data == 1:
        plan = plan_of(case._replace(layout=layout._replace(chunks=1)), rng)
        devices = [stage.devices[0] for stage in plan.stages]
        both = zip(plan.stages, devices, reversed(devices), strict=True)
        plan = replace(plan, stages=tuple(replace(stage, devices=tuple(pair)) for stage, *pair in both))
        if layout.microbatches % 2 == 0 and rng.random() < 0.5:
            return Setup(plan, chimera(plan, case.costs, case.cluster), case.costs, case.cluster, case.options)
    else:
        plan = plan_of(case, rng)
    return Setup(plan, order_of(case, plan, rng), case.costs, case.cluster, _by_stage(case.options, plan, rng))


def _by_stage(options: Options, plan: Plan, rng: random.Random) -> Options:
    """Where the cuts decide what is done again: sometimes another number of blocks of each stage."""
    if options.recompute_blocks is None or rng.random() < 0.4:
        return options
    return replace(options, recompute_blocks=tuple(rng.choice([0, 0, 1, 2, 9]) for _ in plan.stages))


def simulated(setup: Setup) -> Timeline | None:
    """The timeline, unless this order comes to a standstill."""
    try:
        return run(lower(setup))
    except DeadlockError:
        return None
