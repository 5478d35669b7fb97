"""Figures of clusters: devices, switches and links, and the bandwidth between every two devices."""

import itertools
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pipesim.base.arrays import Floats
from pipesim.core.cluster import Cluster
from pipesim.display.figures import paper
from pipesim.display.figures.graph_layout import GraphLayout, graph_layout

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap, LogNorm
    from matplotlib.figure import Figure


_FEW = 16  # devices; with more, the figure is wider
_MOST_CLASSES = 6  # classes of bandwidths in the legend
_MOST_NUMBERS = 8  # devices whose bandwidths are written into the matrix
_GB = 1e9
_DEVICE, _SWITCH, _PASSING = "#8CCBF2", "#444444", "#FFFFFF"


@dataclass(frozen=True, slots=True, eq=False)
class _Scale:
    """The colours of bandwidths (of all links, in GB/s): light to dark on a logarithmic scale."""

    bandwidths: Floats
    colors: "Colormap"
    norm: "LogNorm"

    def color(self, bandwidth: float) -> tuple[float, float, float, float]:
        """The colour of one bandwidth."""
        red, green, blue, alpha = self.colors(float(self.norm(bandwidth)))
        return red, green, blue, alpha

    def width(self, bandwidth: float, count: int) -> float:
        """Points, 0.9 to 2.8, of a line; thinner where there are very many."""
        return (0.9 + 1.9 * float(self.norm(bandwidth))) * min(1.0, math.sqrt(120 / max(1, count)))


def cluster(cluster: Cluster, path: Path | str | None = None) -> "Figure":
    """The topology, links wider and darker with their bandwidth, beside the matrix of bandwidths between devices."""
    return paper.drawn(path, lambda: _draw(cluster))


def _draw(cluster: Cluster) -> "Figure":
    places = graph_layout(cluster)
    wide = len(cluster.devices) > _FEW
    figure = paper.sheet(11.0 if wide else paper.WIDTH, 4.4 if wide or places.circle or places.grid else 3.4)
    topology, matrix = figure.subplots(1, 2, width_ratios=[3, 2] if wide else [1.4, 1])
    scale = _scale(cluster)
    topology.set_axis_off()
    topology.set_title(cluster.name, loc="left")
    _limits(topology, places)
    _draw_matrix(matrix, cluster, scale)
    paper.legend_above(figure, [*_marks(cluster, places), *_classes(cluster, scale)])
    paper.settle(figure)
    _draw_links(topology, cluster, places, scale)
    _draw_vertices(topology, cluster, places)
    _name_nodes(topology, cluster, places)
    return figure


def _scale(cluster: Cluster) -> _Scale:
    from matplotlib import colormaps  # noqa: PLC0415 - slow to import
    from matplotlib.colors import ListedColormap, LogNorm  # noqa: PLC0415

    bandwidths = np.array([link.bandwidth for link in cluster.links], np.float64) / _GB
    low, high = (float(bandwidths.min()), float(bandwidths.max())) if len(bandwidths) else (1.0, 1.0)
    if high < 1.05 * low:
        low, high = low / 3, high * 1.5
    colors = ListedColormap(colormaps["YlGnBu"](np.linspace(0.35, 1, 256)), "bandwidth")
    return _Scale(bandwidths, colors.with_extremes(bad="#E4E4E4"), LogNorm(low, high))


# --- topology --------------------------------------------------------------------------------------------------------


def _limits(axes: "Axes", places: GraphLayout) -> None:
    if places.circle:
        axes.set_xlim(-1.2, 1.2)
        axes.set_ylim(-1.2, 1.2)
        axes.set_aspect("equal")
        return
    if places.grid:
        axes.set_xlim(-0.5, places.x.max() + 0.5)
        axes.set_ylim(places.y.min() - 0.5, 0.5)
        return
    margin = 0.04 * max(1.0, float(np.ptp(places.x))) + 0.3
    axes.set_xlim(places.x.min() - margin, places.x.max() + margin)
    axes.set_ylim(min(places.y.min(), 0) - 0.6, places.y.max() + 0.25)


def _draw_links(axes: "Axes", cluster: Cluster, places: GraphLayout, scale: _Scale) -> None:
    """Straight lines; between devices of one row, arcs below it, deeper for greater distances.

    In a grid only those around its edges are arcs.
    """
    from matplotlib.collections import LineCollection  # noqa: PLC0415 - slow to import

    position = {name: number for number, name in enumerate(cluster.vertices)}
    order = np.argsort(scale.bandwidths, kind="stable").tolist()  # the widest on top
    ends = [[position[link.source], position[link.target]] for link in cluster.links]
    reach = max([float(np.ptp(places.x[pair])) for pair in ends if np.ptp(places.y[pair]) == 0] or [1.0])
    if places.grid:
        lines = [_way_in_grid(places.x[ends[number]], places.y[ends[number]]) for number in order]
    else:
        lines = [_way(places.x[ends[number]], places.y[ends[number]], reach, arc=not places.circle) for number in order]
    styles = [_DASHES[cluster.links[number].duplex] for number in order]
    axes.add_collection(
        LineCollection(
            lines,
            colors=[scale.color(scale.bandwidths[number]) for number in order],
            linewidths=[scale.width(scale.bandwidths[number], len(order)) for number in order],
            linestyles=styles or "solid",
            zorder=1,
        ),
        autolim=False,
    )


_DASHES: dict[str, Any] = {"full": "solid", "half": (0, (4, 1.5)), "shared": (0, (4, 1.5)), "one_way": (0, (1.2, 1.2))}


def _way(x: Floats, y: Floats, reach: float, *, arc: bool) -> Floats:
    if not arc or y[0] != y[1]:
        return np.stack([x, y], axis=1)
    turn = np.linspace(0, np.pi, 25)
    depth = 0.36 * np.sqrt(abs(x[1] - x[0]) / reach) + 0.02
    return np.stack([x[0] + (x[1] - x[0]) * (1 - np.cos(turn)) / 2, y[0] - depth * np.sin(turn)], axis=1)


def _way_in_grid(x: Floats, y: Floats) -> Floats:
    if max(abs(x[1] - x[0]), abs(y[1] - y[0])) <= 1:
        return np.stack([x, y], axis=1)
    turn = np.linspace(0, np.pi, 41)
    part, bulge = (1 - np.cos(turn)) / 2, _BULGE * np.sin(turn) ** 0.7  # soon beside what is between both ends
    aside = (0.0, bulge) if y[0] == y[1] else (bulge, 0.0)
    return np.stack([x[0] + part * (x[1] - x[0]) + aside[0], y[0] + part * (y[1] - y[0]) + aside[1]], axis=1)


_BULGE = 0.36  # of the distance between neighbours


def _looks(cluster: Cluster, places: GraphLayout) -> list[tuple[str, str, str]]:
    """(colour, marker, shape of a box with text) of each vertex.

    Clusters do not say what a vertex is: one with two links, from the level below to the level above, just passes on.
    (A CPU with one bus of devices and a link to the other CPU, on its own level, is where ways part.)
    """
    device, switch, passing = (_DEVICE, "s", "square"), (_SWITCH, "D", "round"), (_PASSING, "o", "round")
    levels = [{float(places.y[n]) for n in near} for near in places.neighbours]
    count = len(cluster.devices)
    rest = zip(places.neighbours[count:], levels[count:], places.y[count:].tolist(), strict=True)
    return [device] * count + [
        passing if len(near) == 2 == len(on) and own not in on else switch for near, on, own in rest
    ]


def _draw_vertices(axes: "Axes", cluster: Cluster, places: GraphLayout) -> None:
    """Names in boxes on levels where they fit side by side, else marks."""
    looks = _looks(cluster, places)
    levels = [0] * len(looks) if places.circle or places.grid else places.y.tolist()
    for level in sorted(set(levels)):
        members = [number for number, its in enumerate(levels) if its == level]
        room = _room(axes, places, members)
        names = _fitting(axes, [cluster.vertices[number] for number in members], room)
        for number, name in zip(members, names, strict=True):
            color, marker, shape = looks[number]
            if name:
                _draw_box(axes, (places.x[number], places.y[number]), name, color, shape)
            else:
                size = max(0.8, min(5.0, 0.6 * room * paper.POINTS / paper.figure_of(axes).dpi))
                axes.plot(
                    places.x[number], places.y[number], marker, color=color, markersize=size, zorder=2,
                    markeredgecolor=paper.INK, markeredgewidth=min(0.5, size / 8),
                )  # fmt: skip


_TEXT = 5.5  # points in boxes


def _room(axes: "Axes", places: GraphLayout, members: list[int]) -> float:
    """Pixels between the two nearest members."""
    at = axes.transData.transform(np.stack([places.x[members], places.y[members]], axis=1))
    if len(members) < 2:
        return float(axes.get_window_extent().width)
    if places.circle:
        return float(np.hypot(*(at[1] - at[0])))
    if places.grid:  # boxes are wide and low
        across, down = np.ptp(at, axis=0) / np.maximum(np.ptp([places.x, places.y], axis=1), 1)
        return float(min(across, 2 * down))
    return float(np.diff(np.sort(at[:, 0])).min())


def _fitting(axes: "Axes", names: list[str], room: float) -> list[str]:
    """Whole names if the longest fits, else their last parts, else nothing."""
    figure = paper.figure_of(axes)
    padding = 5 * figure.dpi / paper.POINTS
    for wording in (names, [name.rpartition(".")[2] for name in names]):
        if paper.text_width(figure, max(wording, key=len), _TEXT) + padding <= room:
            return wording
    return [""] * len(names)


def _draw_box(axes: "Axes", at: tuple[float, float], name: str, color: str, shape: str) -> None:
    axes.text(
        *at,
        name,
        ha="center",
        va="center",
        fontsize=_TEXT,
        color="white" if color == _SWITCH else "black",
        bbox={"boxstyle": f"{shape},pad=0.28", "facecolor": color, "edgecolor": paper.INK, "linewidth": 0.5},
        zorder=2,
        in_layout=False,
    )


def _name_nodes(axes: "Axes", cluster: Cluster, places: GraphLayout) -> None:
    """The names of nodes with several devices, below them, where they fit."""
    members: dict[str, list[int]] = {}
    for number, device in enumerate(cluster.devices):
        members.setdefault(device.node, []).append(number)
    if places.circle or places.grid or not 1 < len(members) < len(cluster.devices):
        return
    middle = [float(places.x[numbers].mean()) for numbers in members.values()]
    pixels = np.diff(np.sort(axes.transData.transform([(x, 0.0) for x in middle])[:, 0])).min()
    if paper.text_width(paper.figure_of(axes), max(members, key=len), 7) + 8 <= pixels:
        for x, name in zip(middle, members, strict=True):
            axes.text(x, axes.get_ylim()[0], name, ha="center", va="bottom", fontsize=7, in_layout=False)


def _marks(cluster: Cluster, places: GraphLayout) -> list[Any]:
    """The legend of vertices that occur."""
    words = {_DEVICE: "device", _SWITCH: "switch", _PASSING: "NIC or port"}
    return [
        paper.line("none", words[color], marker=marker, markerfacecolor=color, markeredgecolor=paper.INK, markersize=5)
        for color, marker, _ in dict.fromkeys(_looks(cluster, places))
    ]


def _classes(cluster: Cluster, scale: _Scale) -> list[Any]:
    """The legend of links: each bandwidth with its number of links, or classes if there are many."""
    if not cluster.links:
        return []
    values, count = np.unique(scale.bandwidths, return_counts=True)
    if len(values) > _MOST_CLASSES:
        edges = np.geomspace(values[0], values[-1], 5)
        middle = np.sqrt(edges[1:] * edges[:-1])
        words = [f"{a:.3g} to {b:.3g} GB/s" for a, b in itertools.pairwise(edges)]
    else:
        middle = values
        words = [f"{paper.rate(value * _GB)} ({n} links)" for value, n in zip(values, count.tolist(), strict=True)]
    handles = [
        paper.line(scale.color(value), word, linewidth=scale.width(value, 1))
        for value, word in zip(middle[::-1].tolist(), words[::-1], strict=True)
    ]
    kinds = {link.duplex for link in cluster.links}
    if kinds & {"half", "shared"}:
        handles.append(paper.line(paper.INK, "both directions share it", linestyle=_DASHES["half"], linewidth=1))
    if "one_way" in kinds:
        handles.append(paper.line(paper.INK, "one way", linestyle=_DASHES["one_way"], linewidth=1))
    return handles


# --- matrix ----------------------------------------------------------------------------------------------------------


def _draw_matrix(axes: "Axes", cluster: Cluster, scale: _Scale) -> None:
    matrix = cluster.bandwidth_matrix / _GB
    shown = np.ma.masked_where(~np.isfinite(matrix) | (matrix <= 0), matrix)
    image = axes.imshow(shown, cmap=scale.colors, norm=scale.norm, interpolation="nearest")
    values = np.unique(shown.compressed())
    bar = paper.figure_of(axes).colorbar(image, ax=axes, fraction=0.05, pad=0.03, label="bandwidth (GB/s)")
    ticks = values if len(values) <= _MOST_CLASSES else _round_values(*image.get_clim())
    bar.set_ticks(ticks.tolist(), labels=[f"{value:.4g}" for value in ticks])
    bar.minorticks_off()
    names = [device.name for device in cluster.devices]
    every = paper.thinned(len(names), 1.9 * paper.POINTS, 7.5)
    shown_names = {n: paper.shortened(names[n], 14) for n in range(0, len(names), every)}
    axes.set_xticks(list(shown_names), list(shown_names.values()), rotation=90, fontsize=6)
    axes.set_yticks(list(shown_names), list(shown_names.values()), fontsize=6)
    axes.set_title("from row to column" + ("" if (matrix > 0).all() else "; grey: no route"), fontsize=8)
    if len(names) <= _MOST_NUMBERS:
        for row, column in np.argwhere(~np.ma.getmaskarray(shown)).tolist():
            value = matrix[row, column]
            dark = paper.lightness(scale.color(value)[:3]) < 0.55
            ink = "white" if dark else "black"
            axes.text(column, row, f"{value:.3g}", ha="center", va="center", fontsize=5.5, color=ink)


def _round_values(low: float, high: float) -> Floats:
    """1, 2 and 5 times powers of ten, from low to high."""
    powers = 10.0 ** np.arange(np.floor(np.log10(low)), np.ceil(np.log10(high)) + 1)
    values = np.outer(powers, [1, 2, 5]).ravel()
    inside: Floats = values[(values >= low) & (values <= high)]
    return inside if len(inside) > 1 else np.array([low, high])
