"""A lower bound over all plans on a cluster with teams of one width: whatever their stages, chunks and replicas.

Of plans whose stages have teams of several widths, `bound_of_widths`: the work alone.

    work     what all devices have to do, the optimizer's steps included                                      B1, B40
    blocks   a unit for all microbatches, on as many replicas as make it quickest, and what follows it        B2, B41
    latency  one microbatch there and back                                                                    B44
    memory   infinite where no plan fits                                                                      B46

docs/certificate.md, section 15, has the proofs.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pipesim.analysis.bounds.layout_tables import LayoutTables, Same, layout_tables, rates_of_kinds
from pipesim.analysis.bounds.over_layouts import LayoutBound
from pipesim.analysis.bounds.rounding import NS
from pipesim.base.arrays import Floats
from pipesim.core.cluster import Cluster
from pipesim.core.costs import Costs
from pipesim.core.teams import Widths
from pipesim.lowering import DEFAULTS, Options


def space_bound(
    costs: Costs, cluster: Cluster, microbatches: int, options: Options = DEFAULTS, *, memory: bool = True
) -> LayoutBound:
    """Seconds of an iteration that no plan on this cluster has less of, with teams of the widths of these costs.

    Any stages, any number of them on a device, any number of replicas of each, that split microbatches or take whole
    ones, any schedule. `memory`: of plans that fit, infinite where none does; otherwise of all.
    """
    tables = layout_tables(costs, Same(cluster), options, aligned=False)
    teams = int(tables.teams.sum())
    if not teams:
        return LayoutBound(np.inf, "devices")
    if memory and not _fits(tables):
        return LayoutBound(np.inf, "memory")
    layers = tables.units
    least, alone = np.full((len(tables.kinds), layers), np.inf), np.full(layers, np.inf)
    ahead, back = np.full(layers, np.inf), np.full(layers, np.inf)
    whole = tables.seconds(1.0, splits=True)
    for r in range(1, teams + 1):
        at = tables.seconds(1 / r, splits=True)
        least = np.minimum(least, r * at.by_kind)
        each = microbatches * np.minimum(at.work, whole.work / r) + tables.reduction(r)
        alone = np.minimum(alone, each)
        ahead, back = np.minimum(ahead, at.forward), np.minimum(back, at.back)
    work = _work(tables, least, microbatches)
    there = float(ahead.sum() + (back[-1] if tables.model.is_partly_frozen else back.sum()))
    found = max(LayoutBound(work, "work"), LayoutBound(float(alone.max()), "blocks"), LayoutBound(there, "latency"))
    rounding = (2 * microbatches * layers + 4 * layers + 10) * NS
    return LayoutBound(max(0.0, float(found.seconds) * tables.least_part - rounding), found.reason)


def bound_of_widths(
    costs: Costs, cluster: Cluster, microbatches: int, options: Options = DEFAULTS, widths: Sequence[Widths] = ()
) -> float:
    """Seconds that no plan on this cluster has less of whose teams have these widths, each stage one of them (B40)."""
    count = Counter(device.kind for device in cluster.devices)
    kinds, layers, part = tuple(count), len(costs.model), 1.0
    least = np.full((len(kinds), layers), np.inf)
    for each in widths or (costs.widths,):
        at = costs.at(each)
        timed = tuple(device for device in cluster.devices if at.has_kind(device.kind))
        if not timed:
            continue
        seen = cluster if len(timed) == len(cluster.devices) else replace(cluster, devices=timed)  # tables are kept
        tables = layout_tables(at, Same(seen), options, aligned=False)
        rows, part = [kinds.index(kind) for kind in tables.kinds], tables.least_part
        for r in range(1, int(tables.teams.sum()) + 1 if at.is_curved else 2):
            of_gpus = each.gpus * r * tables.seconds(1 / r, splits=True).by_kind
            least[rows] = np.minimum(least[rows], of_gpus)
    works = np.isfinite(least).all(axis=1)  # no other kind has any stage
    if not works.any():
        return np.inf
    least, gpus = least[works], np.array(list(count.values()), np.float64)[works]
    work = max(
        microbatches * float((rate[:, None] * least).min(axis=0).sum()) / float((rate * gpus).sum())
        for rate in rates_of_kinds(least)
    )
    rounding = (2 * microbatches * layers + 4 * layers + 10) * NS
    return max(0.0, work * part - rounding)


def _work(tables: LayoutTables, least: Floats, microbatches: int) -> float:
    """What all microbatches take on all devices, with any weights of kinds."""
    options = tables.options
    steps = tables.trained.sum() * options.optimizer_s_per_byte
    steps /= 1 if options.sharding == "none" else tables.costs.widths.context
    work = 0.0
    for rate in rates_of_kinds(least):
        passing = microbatches * float((rate[:, None] * least).min(axis=0).sum()) + steps * float(rate.min())
        work = max(work, passing / float((rate * tables.teams).sum()))
    return work


def _fits(tables: LayoutTables) -> bool:
    """Whether there may be room for one copy of the model and what one microbatch keeps, on all devices together."""
    if tables.model.is_partly_frozen:
        return True
    stash = np.maximum(0.0, tables.stash - tables.teams.sum() / 2)  # each replica's is rounded
    return float(stash.sum()) <= tables.room_of_all
