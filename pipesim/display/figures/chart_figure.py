"""A chart from rows: the figure, its panels, and their shared axes and legend."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipesim.display.figures import chart_kinds, looks, paper
from pipesim.display.figures.chart import Chart
from pipesim.display.figures.chart_axes import Scale, categories, name_of, scale_of, series_name
from pipesim.display.figures.chart_data import Columns, Data, data_of, text_of
from pipesim.display.figures.chart_kinds import Sheet
from pipesim.display.figures.figure_style import WIDTHS, current
from pipesim.display.figures.heat_map import HeatMap

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_HEIGHT, _PANEL, _TITLES = 2.3, 1.75, 0.6  # of one panel, of each of several, and of titles and labels
_BESIDE = {"single": 2, "double": 4}  # panels that fit side by side


def chart(rows: Columns, what: Chart, path: Path | str | None = None) -> "Figure":
    """Draw a chart of rows, given as columns."""
    with what.style.over(current()):
        data = data_of(rows, what)
        return paper.drawn(path, lambda: _drawn(data, what))


def _drawn(data: Data, what: Chart) -> "Figure":
    down, across = _shape(data, what)
    height = what.height or (_HEIGHT if down * across == 1 else down * _PANEL + _TITLES)
    figure = paper.sheet(WIDTHS[what.width], height)
    grid = figure.subplots(down, across, sharex=what.kind != "slopes", sharey=not what.own_y, squeeze=False)
    used: list[Axes] = grid.ravel().tolist()[: len(data.panels)]
    for axes in grid.ravel().tolist()[len(data.panels) :]:
        axes.set_visible(False)
    for axes, panel in zip(used, data.panels, strict=True):
        axes.set_title(_title(panel.key, what), fontsize=7.5)
        axes.tick_params(labelsize=7)  # not only in the style: the number of ticks depends on it, also when drawn again
        paper.plain(axes)
    if what.title:
        figure.suptitle(what.title, fontsize=9)
    (_heat_map if what.kind == "heat_map" else _curves)(figure, used, data, what)
    return figure


def _shape(data: Data, what: Chart) -> tuple[int, int]:
    """Rows and columns of panels: those of two `panels` columns, else as many side by side as fit."""
    if len(what.panels) == 2:
        rows = len(dict.fromkeys(panel.key[0] for panel in data.panels))
        columns = len(dict.fromkeys(panel.key[1] for panel in data.panels))
        if rows * columns == len(data.panels):
            return rows, columns
    most = _BESIDE[what.width]
    down = math.ceil(len(data.panels) / most)
    return down, math.ceil(len(data.panels) / down)


def _title(key: tuple[Any, ...], what: Chart) -> str:
    if what.panel_title:
        title = what.panel_title
        for column, value in zip(what.panels, key, strict=True):
            title = title.replace(f"{{{column}}}", current().name(text_of(value)))
        return title
    return ", ".join(series_name(column, "", value) for column, value in zip(what.panels, key, strict=True))


def _curves(figure: "Figure", grid: list["Axes"], data: Data, what: Chart) -> None:
    """All kinds except heat maps."""
    levels = [v for cell in data.cells() for v in (*cell.values, *(cell.band or ()))]
    over_x = scale_of(what.x, what.x_label, data.x) if data.numeric else Scale(name_of(what.x, what.x_label))
    if what.kind in {"bars", "box"}:
        over_x = Scale(name_of(what.x, what.x_label))
    if what.kind == "cdf":
        over_y = Scale(what.y_label or "share of rows")
    elif what.baseline:
        over_y = Scale(what.y_label or f"{name_of(what.y, '')} / {what.baseline}")
    else:
        over_y = scale_of(what.y, what.y_label, levels)
    looked = looks.bars if what.kind in {"bars", "box"} and not what.has_dots else looks.lines
    sheet = Sheet(what, data, over_x, over_y, looked(data.series))
    for axes, panel in zip(grid, data.panels, strict=True):
        axes.grid(axis="y" if what.kind in {"bars", "box"} else "both")
        chart_kinds.DRAW[what.kind](axes, panel, sheet)
        if panel.limits:
            chart_kinds.limits(axes, panel, sheet)
    for axes, panel in zip(grid, data.panels, strict=True):
        chart_kinds.scale(axes, panel, sheet)
    _name_axes(figure, grid, over_x.label, over_y.label)
    handles = [_handle(sheet, number) for number in range(len(data.series) if what.series else 0)]
    ideals = [_ideal()] if what.kind == "scaling" else []
    limits = [_limit(what)] if any(panel.limits for panel in data.panels) else []
    paper.legend_above(figure, [*handles, *ideals, *limits], _legend_title(what, data))
    figure.draw_without_rendering()
    for axes, panel in zip(grid, data.panels, strict=True):
        chart_kinds.named(axes, panel, sheet)
    figure.draw_without_rendering()  # tick labels have moved, so the labels beside them must too
    paper.settle(figure)
    for axes in grid:
        chart_kinds.direct_labels(axes, sheet)


def _has_numbers(data: Data) -> bool:
    """Whether several series are numbers, which have the name of their column once, over the legend."""
    return len(data.series) > 1 and all(
        isinstance(value, int | float) and not isinstance(value, bool) for value in data.series
    )


def _legend_title(what: Chart, data: Data) -> str:
    return name_of(what.series, what.series_label) if what.series and _has_numbers(data) else ""


def _handle(sheet: Sheet, number: int) -> Any:  # noqa: ANN401 - an artist
    what = sheet.chart
    value = sheet.data.series[number]
    label = text_of(value) if _has_numbers(sheet.data) else series_name(what.series, what.series_label, value)
    look = dict(sheet.looks[number])
    if what.has_dots:
        return paper.line(look.pop("color"), label, **chart_kinds.dot_of(look))
    if what.kind in {"bars", "box"}:
        return paper.patch(look["facecolor"], label, hatch=look["hatch"])
    return paper.line(look.pop("color"), label, **(look if what.kind != "cdf" else look | {"marker": ""}))


def _ideal() -> Any:  # noqa: ANN401 - an artist
    look = dict(chart_kinds.IDEAL)
    return paper.line(look.pop("color"), "perfect scaling", **look)


def _limit(what: Chart) -> Any:  # noqa: ANN401 - an artist
    look = dict(chart_kinds.LIMIT)
    return paper.line(look.pop("color"), what.limit_label, **look)


def _name_axes(figure: "Figure", grid: list["Axes"], x: str, y: str) -> None:
    """Labels of the axes, once for all panels."""
    if len(grid) == 1:
        grid[0].set_xlabel(x)
        grid[0].set_ylabel(y)
    else:
        figure.supxlabel(x, fontsize=8)
        figure.supylabel(y, fontsize=8)
        for axes in grid:  # there may be no panel below
            axes.tick_params(labelbottom=axes is grid[-1] or _is_lowest(axes, grid))


def _is_lowest(axes: "Axes", grid: list["Axes"]) -> bool:
    """Whether there is no panel below."""
    mine = axes.get_subplotspec()
    rows = [
        spec.rowspan.start
        for other in grid
        if (spec := other.get_subplotspec()) is not None
        and mine is not None
        and spec.colspan.start == mine.colspan.start
    ]
    return mine is not None and mine.rowspan.start == max(rows)


def _heat_map(figure: "Figure", grid: list["Axes"], data: Data, what: Chart) -> None:
    made = HeatMap(what, data)
    for axes, panel in zip(grid, data.panels, strict=True):
        axes.spines[:].set_visible(False)
        made.draw(axes, panel)
    _name_axes(figure, grid, name_of(what.x, what.x_label), name_of(what.y, what.y_label))
    made.legend(figure, grid)
    figure.draw_without_rendering()
    for axes in grid:
        categories(axes, data.x)
        categories(axes, data.y, vertical=True)
    figure.draw_without_rendering()
    for axes, panel in zip(grid, data.panels, strict=True):
        made.write(axes, panel)
    paper.settle(figure)
