"""Changes from one trace to another, layer by layer, with their significance.

a    conv1  relu  conv2  fc         layers are paired by their names, in order; between these, equal numbers of other
b    conv1        conv3  fc  out    layers (conv2 and conv3) are paired as renamed; the rest were removed or added
"""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from pipesim.analysis import spread
from pipesim.analysis.spread import Moments
from pipesim.base.errors import InputError
from pipesim.core.costs import Costs, Phase, costs_of
from pipesim.core.trace import Trace

Verdict = Literal["slower", "faster", "no clear change", "one sample: no confidence", "same"]
PHASES: tuple[Phase, ...] = ("forward", "backward")
SIZES = ("output_bytes", "parameter_bytes", "stash_bytes")

# In longer lists, layers whose names differ are paired by position: aligning them would take too long.
_MOST_ALIGNED = 4000
_UNLIKELY = 1 - spread.CONFIDENCE


@dataclass(frozen=True, slots=True)
class Change:
    """Mean seconds in a and in b, the interval of their difference, and its p-value (Holm)."""

    phase: Phase
    a_s: float
    b_s: float
    low_s: float | None
    high_s: float | None
    p: float | None
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class LayerChange:
    """A layer by its numbers in a and in b, None if absent; sizes that differ, as (in a, in b)."""

    a: int | None
    b: int | None
    name: str
    times: tuple[Change, ...] = ()
    sizes: tuple[tuple[str, int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class GroupChange:
    """The changes for one device kind and microbatch size of a, and those of b that it is compared with."""

    kinds: tuple[str, str]
    microbatch_sizes: tuple[int, int]
    layers: tuple[LayerChange, ...]
    totals: tuple[Change, ...]  # of all layers together, including those in one trace only

    @property
    def changed(self) -> tuple[LayerChange, ...]:
        """The layers with significant changes of time, with other sizes, removed or added."""
        return tuple(
            layer
            for layer in self.layers
            if layer.a is None
            or layer.b is None
            or layer.sizes
            or any(change.verdict in {"slower", "faster"} for change in layer.times)
        )


def diff(a: Trace, b: Trace) -> tuple[GroupChange, ...]:
    """The changes for each device kind and microbatch size in both traces; else for the only one of each.

    Compared is the first width of teams that both were timed at.
    """
    widths = next((widths for widths in a.widths if widths in b.widths), None)
    if widths is None:
        of_a, of_b = ("; ".join(map(str, trace.widths)) for trace in (a, b))
        raise InputError(f"{of_a} in one trace and {of_b} in the other; a width that both were timed at was expected")
    costs = costs_of(a, widths=widths), costs_of(b, widths=widths)
    pairs = _paired(costs[0].model.layers, costs[1].model.layers)
    return tuple(_group(a, b, costs, groups, pairs) for groups in _groups(*costs))


def _groups(a: Costs, b: Costs) -> list[tuple[int, int]]:
    """The groups of a and of b that are compared."""
    shared = [(a.groups.index(group), b.groups.index(group)) for group in a.groups if group in b.groups]
    if shared:
        return shared
    if len(a.groups) == 1 == len(b.groups):
        return [(0, 0)]
    sizes_a, sizes_b = ({size for _, size in costs.groups} for costs in (a, b))
    if len(a.kinds) == 1 == len(b.kinds) and sizes_a & sizes_b:
        return [
            (a.groups.index((a.kinds[0], size)), b.groups.index((b.kinds[0], size)))
            for size in sorted(sizes_a & sizes_b)
        ]
    raise InputError(
        f"{_named(a)} in one trace and {_named(b)} in the other; a device kind and a microbatch size that both have "
        "were expected"
    )


def _named(costs: Costs) -> str:
    return ", ".join(f"{kind} with microbatches of {size}" for kind, size in costs.groups[:6])


# --- layers ----------------------------------------------------------------------------------------------------------


def _paired(a: Sequence[Any], b: Sequence[Any]) -> list[tuple[int | None, int | None]]:
    """The paired layers of a and of b, in order."""
    names = [layer.name for layer in a], [layer.name for layer in b]
    if names[0] == names[1]:
        return [(layer, layer) for layer in range(len(a))]
    if max(map(len, names)) > _MOST_ALIGNED:
        return [(i if i < len(a) else None, i if i < len(b) else None) for i in range(max(len(a), len(b)))]
    pairs: list[tuple[int | None, int | None]] = []
    for _, a0, a1, b0, b1 in difflib.SequenceMatcher(None, *names, autojunk=False).get_opcodes():
        if a1 - a0 == b1 - b0:
            pairs += zip(range(a0, a1), range(b0, b1), strict=True)
        else:
            pairs += [(layer, None) for layer in range(a0, a1)] + [(None, layer) for layer in range(b0, b1)]
    return pairs


def _group(
    a: Trace,
    b: Trace,
    costs: tuple[Costs, Costs],
    groups: tuple[int, int],
    pairs: Sequence[tuple[int | None, int | None]],
) -> GroupChange:
    named = costs[0].groups[groups[0]], costs[1].groups[groups[1]]
    tables = _sizes(a, named[0], costs[0]), _sizes(b, named[1], costs[1])
    times = _times(costs, groups, [(i, j) for i, j in pairs if i is not None and j is not None])
    layers = []
    for i, j in pairs:
        if i is None or j is None:
            name = costs[0].model.layers[i].name if i is not None else costs[1].model.layers[j or 0].name
            layers.append(LayerChange(i, j, name))
            continue
        sizes = tuple(
            (name, int(tables[0][name][i]), int(tables[1][name][j]))
            for name in SIZES
            if tables[0][name][i] != tables[1][name][j]
        )
        layers.append(LayerChange(i, j, _name(costs, i, j), times[i], sizes))
    (kind, size), (other, other_size) = named
    return GroupChange((kind, other), (size, other_size), tuple(layers), _totals(costs, groups))


def _name(costs: tuple[Costs, Costs], i: int, j: int) -> str:
    old, new = costs[0].model.layers[i].name, costs[1].model.layers[j].name
    return old if old == new else f"{old} -> {new}"


def _sizes(trace: Trace, group: tuple[str, int], costs: Costs) -> dict[str, Any]:
    """Bytes of each layer, as recorded for this device kind and microbatch size."""
    table = trace.layers
    at = trace.rows_at(costs.widths)
    rows = np.flatnonzero(at & (table["device_kind"] == group[0]) & (table["microbatch_size"] == group[1]))
    first = rows[np.unique(table["layer"][rows], return_index=True)[1]]
    return {name: table[name][first] for name in SIZES}


# --- times -----------------------------------------------------------------------------------------------------------


def _times(
    costs: tuple[Costs, Costs], groups: tuple[int, int], pairs: Sequence[tuple[int, int]]
) -> dict[int, tuple[Change, ...]]:
    """Layer of a -> changes of its phases; significance is adjusted over all layers and phases together."""
    found: list[tuple[int, Phase, Moments, Moments, int, spread.Difference]] = []
    for phase in PHASES:
        a, b = (spread.moments(one, phase, group) for one, group in zip(costs, groups, strict=True))
        found += [(i, phase, a, b, j, spread.difference(a, b, [i], [j])) for i, j in pairs]
    raised = spread.holm([difference.p for *_, difference in found])
    times: dict[int, tuple[Change, ...]] = {}
    for (i, phase, a, b, j, difference), p in zip(found, raised, strict=True):
        change = _change(phase, float(a.mean[i]), float(b.mean[j]), difference, p)
        times[i] = (*times.get(i, ()), change)
    return times


def _totals(costs: tuple[Costs, Costs], groups: tuple[int, int]) -> tuple[Change, ...]:
    changes = []
    for phase in PHASES:
        a, b = (spread.moments(one, phase, group) for one, group in zip(costs, groups, strict=True))
        difference = spread.difference(a, b, range(len(a.mean)), range(len(b.mean)))
        changes.append(_change(phase, float(a.mean.sum()), float(b.mean.sum()), difference, difference.p))
    return tuple(changes)


def _change(phase: Phase, a: float, b: float, difference: spread.Difference, p: float | None) -> Change:
    verdict: Verdict
    if a == b and p is None:
        verdict = "same"
    elif p is None:
        verdict = "one sample: no confidence"
    elif p < _UNLIKELY:
        verdict = "slower" if difference.change > 0 else "faster"
    else:
        verdict = "same" if a == b else "no clear change"
    return Change(phase, a, b, difference.low, difference.high, p, verdict)
