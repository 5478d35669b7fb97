"""The layers of a trace as bars: their times, and the bytes of their outputs and parameters."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pipesim.analysis import spread
from pipesim.base import units
from pipesim.base.arrays import Floats
from pipesim.core.costs import Costs, costs_of
from pipesim.core.trace import Trace
from pipesim.display.figures import paper

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


# Light and dark, so that they differ in grey; backward is hatched where bars are wide enough.
_FORWARD, _BACKWARD, _OUTPUT, _PARAMETERS = "#8CCBF2", "#0072B2", "#F0E442", "#C8540A"
_HATCH = "////"
_SECONDS, _BYTES, _MOST_PANELS = 1.9, 1.3, 6  # inches, inches; panels of seconds
_FEW = 40  # layers whose names are shown
_LONGEST, _LONGEST_MODEL = 26, 40  # characters of the name of a layer or device kind; of a model, beside a kind
_WIDTH = 0.8  # width of a bar, relative to the distance between layers


def layers(trace: Trace, path: Path | str | None = None) -> "Figure":
    """A panel of seconds for each device kind and microbatch size, and two of bytes; a bar for each layer.

    Seconds are medians, forward below backward; where there are samples a whisker at the top of each shows their median
    absolute deviation.
    """
    return paper.drawn(path, lambda: _draw(trace))


def _draw(trace: Trace) -> "Figure":
    costs = costs_of(trace)
    count = len(costs.model)
    groups = list(range(min(len(costs.groups), _MOST_PANELS)))
    wide = paper.WIDTH if count <= 120 else 1.4 * paper.WIDTH
    named = count <= _FEW
    figure = paper.sheet(wide, _SECONDS * len(groups) + 2 * _BYTES + (1.3 if named else 0.7))
    heights = [_SECONDS] * len(groups) + [_BYTES] * 2
    panels = figure.subplots(len(heights), 1, sharex=True, squeeze=False, height_ratios=heights).ravel().tolist()
    varies = bool((costs.count > 1).any())
    _legend(figure, hatched=named, varies=varies)
    for axes, group in zip(panels, groups, strict=False):
        _draw_seconds(axes, costs, group, hatched=named)
    outputs = np.array([layer.output_bytes for layer in costs.model.layers], np.float64)
    _draw_bytes(panels[-2], outputs, _OUTPUT, f"outputs, microbatch of {costs.model.microbatch_size}")
    _draw_bytes(panels[-1], costs.model.parameter_bytes, _PARAMETERS, "parameters")
    _label_layers(panels[-1], [layer.name for layer in costs.model.layers])
    panels[0].set_title(paper.shortened(trace.model, _LONGEST_MODEL), loc="left")
    if left := len(costs.groups) - len(groups):
        panels[len(groups) - 1].set_title(f"{left} more device kinds and sizes not drawn", loc="left", fontsize=8)
    figure.align_ylabels()
    return figure


def _legend(figure: "Figure", *, hatched: bool, varies: bool) -> None:
    handles = [
        paper.patch(_FORWARD, "forward"),
        paper.patch(_BACKWARD, "backward", hatch=_HATCH if hatched else None, edgecolor="white"),
    ]
    if varies:
        handles.append(paper.line(paper.INK, "± median absolute deviation", linewidth=0.8))
    paper.legend_above(figure, handles)


def _draw_seconds(axes: "Axes", costs: Costs, group: int, *, hatched: bool) -> None:
    forward, backward = (spread.noise(costs, phase, group) for phase in ("forward", "backward"))
    unit, ns = paper.time_unit(float((forward.median + backward.median).max()) * units.NS_PER_S)
    scale = units.NS_PER_S / ns
    low, high = forward.median * scale, (forward.median + backward.median) * scale
    zero = np.zeros(len(low))
    _bars(axes, (-0.5, 0.5), (zero, low), _FORWARD)
    _bars(axes, (-0.5, 0.5), (low, high), _BACKWARD, hatch=_HATCH if hatched else None)
    if (costs.count[group] > 1).any():
        _whiskers(axes, low, forward.mad * scale)
        _whiskers(axes, high, backward.mad * scale)
    kind, samples = costs.groups[group]
    axes.set_ylabel(f"time ({unit})")
    axes.set_ylim(0, max(float((high + backward.mad * scale).max()) * 1.06, 1e-12))
    axes.set_title(f"on {paper.shortened(kind, _LONGEST)}, microbatch of {samples}", loc="right", fontsize=8)
    _finish(axes)


def _draw_bytes(axes: "Axes", size: Floats, color: str, title: str) -> None:
    most = float(size.max())
    unit, scale = paper.size_unit(most / 10)  # the largest unit of which there is at least one
    _bars(axes, (-0.5, 0.5), (np.zeros(len(size)), size / scale), color)
    axes.set_ylim(0, 1.06 * most / scale or 1.0)
    axes.set_ylabel(f"size ({unit})")
    axes.set_title(title, loc="right", fontsize=8)
    _finish(axes)
    if not most:  # no ticks on an empty scale
        axes.set_yticks([])
        axes.text(0.5, 0.5, "none in this trace", transform=axes.transAxes, ha="center", va="center", fontsize=8)


def _finish(axes: "Axes") -> None:
    axes.grid(axis="y")
    paper.plain(axes)


def _bars(
    axes: "Axes", side: tuple[float, float], ends: tuple[Floats, Floats], color: str, hatch: str | None = None
) -> None:
    """All bars of one kind as one collection; `side` is their extent in the place of a layer, -0.5 to 0.5."""
    from matplotlib.collections import PolyCollection  # noqa: PLC0415 - slow to import

    place = np.arange(len(ends[0]), dtype=np.float64)
    corners = paper.boxes(place + _WIDTH * side[0], place + _WIDTH * side[1], *ends)
    few = len(place) <= 120
    axes.add_collection(
        PolyCollection(
            list(corners), facecolors=color, edgecolors="white" if hatch else paper.INK,
            linewidths=0.3 if few else 0.0, hatch=hatch, zorder=2,
        )
    )  # fmt: skip


def _whiskers(axes: "Axes", middle: Floats, reach: Floats) -> None:
    place = np.arange(len(middle))
    axes.vlines(place, np.maximum(middle - reach, 0), middle + reach, colors=paper.INK, linewidths=0.8, zorder=3)


def _label_layers(axes: "Axes", names: list[str]) -> None:
    count = len(names)
    axes.set_xlim(-0.7, count - 0.3)
    if count <= _FEW:
        shown = distinct(names, _LONGEST)
        longest = max(map(len, shown))
        axes.set_xticks(range(count), shown, fontsize=6.5)
        if longest * count > 110:
            axes.set_xticks(range(count), shown, fontsize=6.5, rotation=60, ha="right", rotation_mode="anchor")
    else:
        axes.set_xlabel("layer")


def distinct(names: Sequence[str], most: int) -> list[str]:
    """Names of at most so many characters; those that would be cut to the same have the part in which they differ."""
    cut: dict[str, list[str]] = {}
    for name in dict.fromkeys(names):
        cut.setdefault(paper.shortened(name, most), []).append(name)
    shown = {
        name: short if len(alike) == 1 else _differing(name, alike, most)
        for short, alike in cut.items()
        for name in alike
    }
    return [shown[name] for name in names]


def _differing(name: str, alike: Sequence[str], most: int) -> str:
    """The part of a name that the others do not share, with as much as there is room for on both sides."""
    start = _shared(alike)
    end = max(start, len(name) - _shared([other[:start:-1] for other in alike]))
    room = (most - 2 - (end - start)) // 2  # two ellipses
    if room < 0:
        return paper.shortened(name[start:end], most)
    first, last = max(0, start - room), min(len(name), end + room)
    return f"{'…' if first else ''}{name[first:last]}{'…' if last < len(name) else ''}"


def _shared(names: Sequence[str]) -> int:
    """With how many characters all names begin."""
    columns = enumerate(zip(*names, strict=False))
    return next((n for n, column in columns if len(set(column)) > 1), min(map(len, names)))
