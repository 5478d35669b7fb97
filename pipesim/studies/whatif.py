"""Gains of faster hardware: the iteration time with each device, link or layer a few per cent faster.

Computation is changed in the program, where the time of each task is known: all such cases are simulated as one batch.
A faster link changes the times of transfers and their sharing, so each is lowered and simulated again.
"""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pipesim.base import lookup, units
from pipesim.base.arrays import Ints
from pipesim.base.errors import InputError
from pipesim.core import limits
from pipesim.core.limits import HostMemory
from pipesim.core.program import WEIGHT, Program
from pipesim.engines import ENGINES
from pipesim.lowering import Setup, lower
from pipesim.lowering.compute import PHASES, WITH_RECOMPUTATION, phases_of
from pipesim.lowering.recompute import recomputation_of
from pipesim.studies.results import lowered

What = Literal["device", "link", "layer"]
WHATS: tuple[What, ...] = ("device", "link", "layer")


@dataclass(frozen=True, slots=True)
class Gain:
    """A device, link or layer made faster: the iteration time then, and the time saved."""

    what: What
    name: str
    iteration_time_s: float
    gain_s: float
    gain: float  # as a part of the iteration time
    group: str = ""  # of a layer that has equals: the name of the gain of all of them together


def gains(
    case: Setup, by: float = 0.1, whats: tuple[What, ...] = WHATS, host_memory: HostMemory = None
) -> tuple[float, list[Gain]]:
    """Seconds of the unchanged iteration, and the gain of each device, link and layer, greatest first.

    `by` = 0.1 means a tenth faster: work of 1.1 s then takes 1 s. Equal gains are in the order of devices, links,
    layers. Links are changed in both directions, one by one and all of the same bandwidth together; links without
    transfers are left out. Layers are changed one by one, and all that are equal together ("80 x mlp").
    """
    if not 0 < by < np.inf:
        raise InputError(f"by = {by} found; more than 0 was expected (0.1: a tenth faster)")
    # A device or a link that is faster makes a difference between what is alike; a layer is faster for all.
    program = lowered(case)[0] if tuple(whats) == ("layer",) else lower(case)
    groups = _equal_layers(case) if "layer" in whats else {}
    single = len(case.costs.model) if "layer" in whats else 0
    things = len(program.devices) * ("device" in whats) + single + len(groups)
    limits.check_columns(host_memory, len(program), things + 1)
    tried: list[tuple[What, str]] = []
    columns: list[Ints] = [program.duration]
    if "device" in whats:
        tried += [("device", name) for name in program.devices]
        columns += [_faster(program, program.lane == lane, by) for lane in range(len(program.devices))]
    if "layer" in whats:
        tried += [("layer", str(layer.name)) for layer in case.costs.model.layers]
        tried += [("layer", name) for name in groups]
        saved = _saved_by_layer(case, program, by)
        together = [
            sum((saved[layer] for layer in layers), np.zeros_like(program.duration)) for layers in groups.values()
        ]
        columns += [np.maximum(program.duration - ns, 0) for ns in (*saved, *together)]
    ends = _ends(program, columns)
    now, rest = int(ends[0]), ends[1:].tolist()
    if "link" in whats:
        ways = _links(case, program)
        tried += [("link", name) for name in ways]
        rest += [_with_faster_links(case, links, by) for links in ways.values()]
    group_of = {str(case.costs.model.layers[n].name): name for name, layers in groups.items() for n in layers}
    found = [
        Gain(what, name, units.to_s(end), units.to_s(now - end), (now - end) / now if now else 0.0,
             group_of.get(name, "") if what == "layer" else "")
        for (what, name), end in zip(tried, rest, strict=True)
    ]  # fmt: skip
    order = {what: n for n, what in enumerate(WHATS)}
    return units.to_s(now), sorted(found, key=lambda gain: (-gain.gain_s, order[gain.what]))


def _ends(program: Program, columns: list[Ints]) -> Ints:
    """The makespan of each column of durations."""
    batch = lookup.function_named("pipesim.engines.compiled:makespans", ENGINES, "engine")
    ends: Ints = batch(program, np.arange(len(program)), np.stack(columns, axis=1))
    return ends


def _faster(program: Program, chosen: NDArray[np.bool_], by: float) -> Ints:
    return np.where(chosen, np.rint(program.duration / (1 + by)).astype(np.int64), program.duration)


def _saved_by_layer(case: Setup, program: Program, by: float) -> list[Ints]:
    """For each layer the ns that each task takes less with it faster: those of its stage take its part less."""
    found = []
    recomputed = [recomputation_of(case, n) for n in range(len(case.plan.stages))]
    kinds = [case.kind(rank) for rank in range(len(case.plan.devices))]
    for layer in range(len(case.costs.model)):
        less = np.zeros_like(program.duration)
        stage = next(n for n, part in enumerate(case.plan.stages) if part.start <= layer < part.stop)
        for of_kind in dict.fromkeys(kinds):
            mine = (program.stage == stage) & (program.lane >= 0) & (np.array(kinds) == of_kind)[program.lane]
            for kind, phase in phases_of(case, stage).items():
                costs, how = case.costs_at(stage), (of_kind, case.plan.share(stage))
                seconds = costs.seconds(phase, *how)[layer]
                if phase in WITH_RECOMPUTATION and recomputed[stage].whole[layer]:
                    seconds += costs.seconds("recompute", *how)[layer]
                if phase in WITH_RECOMPUTATION and recomputed[stage].core[layer]:
                    seconds += costs.seconds("core", *how)[layer]
                rows = mine & (program.kind == kind) & (program.kind <= WEIGHT)
                less[rows] = int(units.to_ns(np.array([seconds * (1 - 1 / (1 + by))]))[0])
        found.append(less)
    return found


def _equal_layers(case: Setup) -> dict[str, list[int]]:
    """Layers of one kind that take equal times on every kind of device, by a name such as 80 x mlp."""
    found: dict[tuple[object, ...], list[int]] = {}
    times = [case.costs.seconds(phase, kind) for kind in case.costs.kinds for phase in dict.fromkeys(PHASES.values())]
    for number, layer in enumerate(case.costs.model.layers):
        found.setdefault((str(layer.kind), *(float(one[number]) for one in times)), []).append(number)
    many = [(str(key[0]), layers) for key, layers in found.items() if len(layers) > 1 and any(key[1:])]
    plain = [f"{len(layers)} x {kind}" for kind, layers in many]
    return {
        name if plain.count(name) == 1 else f"{name} like {case.costs.model.layers[layers[0]].name}": layers
        for name, (_, layers) in zip(plain, many, strict=True)
    }


def _links(case: Setup, program: Program) -> dict[str, list[int]]:
    """The links with transfers, by the names of their ends, both directions together; and all of equal bandwidth.

    If two equal links are in series, making only one of them faster may gain nothing.
    """
    used = {program.media[medium] for medium in np.unique(program.route.values).tolist()}
    found: dict[str, list[int]] = {}
    alike: dict[float, list[int]] = {}
    for n, link in enumerate(case.cluster.links):
        ends = ((link.source, link.target), (link.target, link.source))
        media = {data["medium"] for u, v, data in case.cluster.graph.edges(data=True) if (u, v) in ends}
        if media & used:
            found.setdefault(" - ".join(sorted((link.source, link.target))), []).append(n)
            alike.setdefault(link.bandwidth, []).append(n)
    every = {f"all of {8 * bandwidth / 1e9:g} Gb/s": links for bandwidth, links in alike.items() if len(links) > 1}
    return found | every


def _with_faster_links(case: Setup, links: list[int], by: float) -> int:
    """The makespan with the bandwidth of these links raised."""
    changed = list(case.cluster.links)
    for n in links:
        table = tuple((size, seconds / (1 + by)) for size, seconds in changed[n].table)
        rates = {name: getattr(changed[n], name) * (1 + by) for name in ("bandwidth", "peak")}
        changed[n] = replace(changed[n], table=table, **rates)
    cluster = replace(case.cluster, links=tuple(changed))
    engine = lookup.function_named("compiled", ENGINES, "engine")
    end: int = engine(lower(replace(case, cluster=cluster))).makespan
    return end
