"""The kinds of charts; each function draws one panel."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from pipesim.display.figures import paper
from pipesim.display.figures.chart import Chart
from pipesim.display.figures.chart_axes import Scale, categories, logarithmic
from pipesim.display.figures.chart_data import Cell, Data, Panel, Value, text_of
from pipesim.display.figures.figure_style import current
from pipesim.display.figures.looks import Look

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_GROUP = 0.8  # width of a group of bars, relative to the distance between groups
_SMALL = 5.5  # points
_DOT = 1.35  # size of a dot in place of a bar, relative to one on a line
_MARGIN = -0.04  # relative to the width, beside the first points
IDEAL: dict[str, Any] = {"color": paper.INK, "linewidth": 0.8, "linestyle": (0, (1, 2))}
LIMIT: dict[str, Any] = {"color": paper.INK, "linewidth": 0.9, "linestyle": (0, (3, 1.5))}


@dataclass(frozen=True, slots=True)
class Sheet:
    """Data, scales and looks that all panels of a chart share."""

    chart: Chart
    data: Data
    x: Scale
    y: Scale
    looks: Sequence[Look]  # of each series
    ends: dict["Axes", list[tuple[tuple[float, float], str, str]]] = field(default_factory=dict)  # place, label, colour


def _place(sheet: Sheet, x: Value) -> float:
    """The position of a value of x on the axis."""
    return float(x) / sheet.x.factor if sheet.data.numeric else float(sheet.data.x.index(x))


def _sorted(line: Mapping[Value, Cell], sheet: Sheet) -> list[tuple[float, Cell]]:
    return sorted(((_place(sheet, x), cell) for x, cell in line.items()), key=lambda item: item[0])


def line(axes: "Axes", panel: Panel, sheet: Sheet) -> None:
    """A line per series, with its band if it has one."""
    for number, series in enumerate(sheet.data.series):
        points = _sorted(panel.cells.get(series, {}), sheet)
        if not points:
            continue
        x, cells = [at for at, _ in points], [cell for _, cell in points]
        look = sheet.looks[number]
        axes.plot(x, [cell.level / sheet.y.factor for cell in cells], zorder=3 + number / 100, **look)
        bands = [cell.band or (cell.level, cell.level) for cell in cells]
        if any(cell.band for cell in cells):
            low, high = ([band[side] / sheet.y.factor for band in bands] for side in (0, 1))
            axes.fill_between(x, low, high, color=look["color"], alpha=0.2, linewidth=0, zorder=2)


def scaling(axes: "Axes", panel: Panel, sheet: Sheet) -> None:
    """As `line`, with perfect scaling from the best of the first points."""
    line(axes, panel, sheet)
    points = [(at, cell.level / sheet.y.factor) for cells in panel.cells.values() for at, cell in _sorted(cells, sheet)]
    first, last = min(points)[0], max(points)[0]
    best = min if sheet.chart.power < 0 else max
    level = best(level for at, level in points if at == first)
    axes.plot([first, last], [level, level * (last / first) ** sheet.chart.power], zorder=2, **IDEAL)


def slopes(axes: "Axes", panel: Panel, sheet: Sheet) -> None:
    """Points, a fitted line for each series with at least two, and at its end its name and the power of x."""
    ends = []
    for number, series in enumerate(sheet.data.series):
        found = [(at, cell.level / sheet.y.factor) for at, cell in _sorted(panel.cells.get(series, {}), sheet)]
        points, look = [(at, level) for at, level in found if level > 0], sheet.looks[number]
        axes.plot([at for at, _ in points], [level for _, level in points], **look | {"linestyle": "none"})
        if len(points) > 1:
            slope, level = power_law(*zip(*points, strict=True))
            x = np.array([points[0][0], points[-1][0]])
            axes.plot(x, level * x**slope, **look | {"marker": ""}, zorder=2)
            ends.append(((x[1], points[-1][1]), f"{_short(series)} ∝ x^{slope:z.1f}".strip(), look["color"]))
    sheet.ends[axes] = ends


def _short(series: Value) -> str:
    """The name of a series beside its line."""
    return paper.shortened(current().name(text_of(series)), 20)


def power_law(x: Sequence[float], y: Sequence[float]) -> tuple[float, float]:
    """(slope, level) of y = level * x ** slope: a straight line on logarithmic axes, by least squares."""
    slope, height = np.polyfit(np.log(x), np.log(y), 1)
    return float(slope), float(np.exp(height))


def direct_labels(axes: "Axes", sheet: Sheet) -> None:
    """Labels beside the last points of a panel, once its scale is known; shifted where they would overlap."""
    from matplotlib.patheffects import withStroke  # noqa: PLC0415 - slow to import

    place, highest = axes.transData.inverted(), dict[float, float]()
    step = 1.15 * _SMALL * paper.figure_of(axes).dpi / paper.POINTS
    for (x, y), text, color in sorted(sheet.ends.get(axes, ()), key=lambda end: end[0][1]):
        across, up = axes.transData.transform((x, y))
        highest[x] = max(up, highest.get(x, -np.inf) + step)
        axes.annotate(
            text, tuple(place.transform((across, highest[x]))), xytext=(4, 0), textcoords="offset points", va="center",
            fontsize=_SMALL, color=color, annotation_clip=False, zorder=5,
            path_effects=[withStroke(linewidth=1.5, foreground="white")],  # over points of others
        )  # fmt: skip


def bars(axes: "Axes", panel: Panel, sheet: Sheet) -> None:
    """A group of bars for each x, a bar (or dot) for each series, with whiskers if it has a band."""
    width = _GROUP / len(sheet.data.series)
    for number, series in enumerate(sheet.data.series):
        for x, cell in panel.cells.get(series, {}).items():
            at, level = _slot(sheet, x, number), cell.level / sheet.y.factor
            look, ink = sheet.looks[number], paper.INK
            if sheet.chart.has_dots:
                axes.plot([at], [level], **dot_of(look), zorder=3)
                ink = look["color"]
            else:
                axes.bar(at, level, 0.92 * width, edgecolor=paper.INK, linewidth=0.4, zorder=2, **look)
            if cell.band:
                low, high = (end / sheet.y.factor for end in cell.band)
                axes.plot([at, at], [low, high], color=ink, linewidth=0.8, zorder=2.5 if sheet.chart.has_dots else 3)
            if cell.label:
                axes.annotate(
                    cell.label, (at, max(level, (cell.band or (0, 0))[1] / sheet.y.factor)),
                    xytext=(0, 4 if sheet.chart.has_dots else 2),
                    textcoords="offset points", ha="center", va="bottom", rotation=90, fontsize=_SMALL,
                )  # fmt: skip


def dot_of(look: Look) -> Look:
    """A dot without a line, larger than one on a line."""
    return look | {"linestyle": "none", "markersize": _DOT * look["markersize"]}


def limits(axes: "Axes", panel: Panel, sheet: Sheet) -> None:
    """The limits of y: across each group of bars, or as a line over x."""
    if sheet.chart.kind == "bars":
        for x, limit in panel.limits.items():
            at = sheet.data.x.index(x)
            axes.plot([at - 0.46, at + 0.46], [limit / sheet.y.factor] * 2, zorder=4, **LIMIT)
        return
    points = sorted((_place(sheet, x), limit / sheet.y.factor) for x, limit in panel.limits.items())
    axes.plot([x for x, _ in points], [y for _, y in points], zorder=2.5, **LIMIT)


def _slot(sheet: Sheet, x: Value, number: int) -> float:
    """The middle of a bar or box: series side by side around the number of their group."""
    count = len(sheet.data.series)
    return sheet.data.x.index(x) + (number - (count - 1) / 2) * _GROUP / count


def box(axes: "Axes", panel: Panel, sheet: Sheet) -> None:
    """Median, quartiles, whiskers to the last value within 1.5 times their distance, and outliers as dots."""
    width = _GROUP / len(sheet.data.series)
    for number, series in enumerate(sheet.data.series):
        for x, cell in panel.cells.get(series, {}).items():
            look = sheet.looks[number]
            axes.boxplot(
                [[value / sheet.y.factor for value in cell.values]],
                positions=[_slot(sheet, x, number)],
                widths=0.8 * width,
                patch_artist=True,
                manage_ticks=False,
                boxprops={
                    "facecolor": look["facecolor"],
                    "hatch": look["hatch"],
                    "edgecolor": paper.INK,
                    "linewidth": 0.5,
                },
                medianprops={"color": paper.INK, "linewidth": 1.4},
                whiskerprops={"color": paper.INK, "linewidth": 0.6},
                capprops={"color": paper.INK, "linewidth": 0.6},
                flierprops={"marker": ".", "markersize": 2.5, "markerfacecolor": paper.INK, "markeredgewidth": 0},
            )


def cdf(axes: "Axes", panel: Panel, sheet: Sheet) -> None:
    """The share of rows up to each value."""
    for number, series in enumerate(sheet.data.series):
        values = sorted(v / sheet.x.factor for cell in panel.cells.get(series, {}).values() for v in cell.values)
        if values:
            look = sheet.looks[number]
            share = np.arange(1, len(values) + 1) / len(values)
            axes.step(
                [values[0], *values], [0.0, *share], where="post", color=look["color"], linestyle=look["linestyle"],
                linewidth=1.2, zorder=3 + number / 100,
            )  # fmt: skip


def scale(axes: "Axes", panel: Panel, sheet: Sheet) -> None:
    """Scale the axes once all panels are drawn: logarithmic if requested, else with y from 0."""
    what, data = sheet.chart, sheet.data
    shown = (panel,) if what.own_y else data.panels
    cells = [cell for one in shown for line in one.cells.values() for cell in line.values()]
    log = "xy" if what.kind in {"scaling", "slopes"} else what.log
    if _is_categorical(sheet):
        axes.set_xlim(-0.5, len(data.x) - 0.5)
    elif what.kind == "slopes":  # each panel has its own axis
        logarithmic(axes, "x", _places(panel, sheet))
    elif what.is_log_x:
        logarithmic(axes, "x", [_place(sheet, x) for x in data.x])
    elif sheet.x.factor == 1 and all(float(x).is_integer() for x in data.x):
        axes.xaxis.get_major_locator().set_params(integer=True)  # type: ignore[call-arg]  # whole numbers, such as GPUs
    if what.kind == "cdf":
        axes.set_ylim(0, 1.02)
    elif "y" in log:
        levels = [v / sheet.y.factor for cell in cells for v in (cell.level, *cell.values) if v > 0]
        levels += [v / sheet.y.factor for one in shown for v in one.limits.values() if v > 0]
        logarithmic(axes, "y", levels)
    elif axes.get_ylim()[0] >= 0 or all(v >= 0 for cell in cells for v in cell.values):
        _from_zero(axes)


def _room_beside(axes: "Axes", sheet: Sheet) -> float:
    """Room for labels beside the last points, relative to the distance of the first points from there."""
    figure = paper.figure_of(axes)
    needed = max((paper.text_width(figure, text, _SMALL) for _, text, _ in sheet.ends.get(axes, ())), default=0.0)
    share = min(0.5, (needed + 8 * figure.dpi / paper.POINTS) / (axes.get_position().width * figure.bbox.width))
    return share / (1 - share)


def _places(panel: Panel, sheet: Sheet) -> list[float]:
    return sorted({_place(sheet, x) for line in panel.cells.values() for x in line})


def _from_zero(axes: "Axes") -> None:
    """From 0, with room above: the default margin is a part of the range of values, which may be small."""
    highest = float(axes.dataLim.ymax)
    axes.set_ylim(0, max(axes.get_ylim()[1], 1.04 * highest) if np.isfinite(highest) else None)


def _is_categorical(sheet: Sheet) -> bool:
    return sheet.chart.kind in {"bars", "box"} or not sheet.data.numeric


def named(axes: "Axes", panel: Panel, sheet: Sheet) -> None:
    """Ticks for categories, and room for labels of slopes, once the layout is known."""
    if sheet.chart.kind == "slopes":
        places = _places(panel, sheet)
        ratio = max(places[-1] / places[0], 1.5)
        axes.set_xlim(places[0] * ratio**_MARGIN, places[-1] * ratio ** _room_beside(axes, sheet))
    if _is_categorical(sheet):
        categories(axes, sheet.data.x)


DRAW: dict[str, Callable[["Axes", Panel, Sheet], None]] = {
    "line": line,
    "scaling": scaling,
    "slopes": slopes,
    "bars": bars,
    "box": box,
    "cdf": cdf,
}
