"""The data of a chart, from rows: panels of series of cells.

rows     size  gpus  planner  iteration_time_s          panels = size, series = planner, x = gpus
         0.3B     8  spp      0.51
         0.3B     8  spp      0.53   ──┐
         0.3B    16  spp      0.31     │   panel 0.3B
         0.3B     8  uniform  0.90     └──>  spp       8: [0.51, 0.53]   16: [0.31]
         1.3B     8  spp      2.10           uniform   8: [0.90]
"""

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pipesim.analysis import metrics
from pipesim.base import formulas
from pipesim.base.errors import InputError, shown
from pipesim.display.figures.chart import Chart
from pipesim.display.figures.figure_style import current

Value = Any  # a number or text, or None
Columns = Mapping[str, Sequence[Value]]
Band = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Cell:
    """The data at one place of one series: the values of its rows, their statistic, and a label."""

    values: tuple[Value, ...]
    level: Value
    band: Band | None = None
    label: str = ""


@dataclass(frozen=True, slots=True)
class Panel:
    """One of several small charts: cells by series and place. A place is x; in a heat map (x, y)."""

    key: tuple[Value, ...]
    cells: dict[Value, dict[Value, Cell]]
    limits: dict[Value, float] = field(default_factory=dict)  # by place: the limit of y there


@dataclass(frozen=True, slots=True)
class Data:
    """The data of a chart, in drawing order."""

    panels: tuple[Panel, ...]
    series: tuple[Value, ...]
    x: tuple[Value, ...]
    y: tuple[Value, ...]  # of a heat map
    words: tuple[str, ...] = ()  # of a heat map of text, in the order of all rows

    @property
    def numeric(self) -> bool:
        """Whether x is a number everywhere."""
        return all(_is_number(value) for value in self.x)

    def cells(self) -> list[Cell]:
        """All cells."""
        return [cell for panel in self.panels for line in panel.cells.values() for cell in line.values()]


def data_of(rows: Columns, chart: Chart) -> Data:
    """The cells of a chart. Rows without a value (failures) are left out."""
    chart.check_columns(list(rows))
    count = len(next(iter(rows.values()), ()))
    kept = [i for i in range(count) if all(_at(rows, text, i) for text in chart.where)]
    found = _places(rows, chart, kept)
    if not found:
        left = f"; 'where' leaves {len(kept)} of {count}" if chart.where else ""
        raise InputError(f"no row has a value to draw, of {count} rows{left}")
    _check_log(chart, [place[0] if chart.kind == "heat_map" else place for _, _, place in found.values()])
    panels: dict[Any, dict[Any, dict[Any, list[int]]]] = {}
    for row, (panel, series, place) in found.items():
        panels.setdefault(panel, {}).setdefault(series, {}).setdefault(place, []).append(row)
    made = [
        Panel(
            panel,
            {s: {p: _cell(rows, chart, members) for p, members in line.items()} for s, line in lines.items()},
            _limits(rows, chart, lines) if chart.limit else {},
        )
        for panel, lines in panels.items()
    ]
    if chart.baseline:
        made = [_relative(panel, chart.baseline) for panel in made]
    two = chart.kind == "heat_map"
    places = [place for _, _, place in found.values()]
    return Data(
        tuple(made[panels_order] for panels_order in _panel_order(made)),
        tuple(current().ordered(_ordered(series for _, series, _ in found.values()))),
        _ordered((place[0] if two else place) for place in places),
        _ordered(place[1] for place in places) if two else (),
        _words(rows, chart, kept) if two else (),
    )


def _check_log(chart: Chart, places: Sequence[Value]) -> None:
    """Refuse x values that a logarithmic axis cannot show; bars, boxes and names have no such axis."""
    if chart.kind in {"bars", "box", "heat_map"} or not chart.is_log_x:
        return
    if chart.kind not in {"scaling", "slopes"} and not all(map(_is_number, places)):
        return
    for value in places:
        if not _is_number(value) or value <= 0:
            why = f"a chart of {chart.kind}" if chart.kind in {"scaling", "slopes"} else "a logarithmic axis"
            raise InputError(f"x: {shown(value)} found; {why} needs numbers above 0; select them with 'where'")


def _words(rows: Columns, chart: Chart, kept: Iterable[int]) -> tuple[str, ...]:
    values = list(dict.fromkeys(_at(rows, chart.value, i) for i in kept))
    if not any(isinstance(value, str) for value in values):
        return ()
    return tuple(dict.fromkeys(text_of(value) for value in values if value is not None))


def _panel_order(panels: Sequence[Panel]) -> list[int]:
    """Panels by their keys: numbers sorted, text in order of appearance."""
    ranks = [_ordered(panel.key[i] for panel in panels) for i in range(len(panels[0].key))]
    return sorted(
        range(len(panels)), key=lambda n: [rank.index(k) for rank, k in zip(ranks, panels[n].key, strict=True)]
    )


def _places(rows: Columns, chart: Chart, kept: Iterable[int]) -> dict[int, tuple[Any, Any, Any]]:
    """Row -> (panel, series, place), of rows with a value to draw."""
    found: dict[int, tuple[Any, Any, Any]] = {}
    best: dict[Any, int] = {}
    most, by = chart.picked
    for i in kept:
        x = _at(rows, chart.x, i)
        place = (x, _at(rows, chart.y, i)) if chart.kind == "heat_map" else x
        series = _at(rows, chart.series, i) if chart.series else ""
        panel = tuple(_at(rows, text, i) for text in chart.panels)
        if x is None or series is None or None in panel or _drawn(rows, chart, i) is None:
            continue
        where = (panel, series, place)
        if by:
            other = best.get(where)
            if other is not None and not _better(_at(rows, by, i), _at(rows, by, other), most=most):
                continue
            found.pop(other, None) if other is not None else None
            best[where] = i
        found[i] = where
    return found


def _better(value: Value, other: Value, *, most: bool) -> bool:
    """Whether a row is picked in place of another; the first of equals is kept."""
    if value is None or other is None:
        return value is not None
    return bool(value > other if most else value < other)


def _drawn(rows: Columns, chart: Chart, row: int) -> Value:
    """The value of a row that is drawn."""
    text = {"heat_map": chart.value, "cdf": chart.x}.get(chart.kind, chart.y)
    value = _at(rows, text, row)
    if value is not None and not _is_number(value) and chart.kind != "heat_map":
        raise InputError(f"{text!r}: {shown(value)} found; a number was expected")
    return value


def _at(rows: Columns, text: str, row: int) -> Value:
    """The value of a column or formula in a row; None if a value that it needs is missing."""
    if text in rows:
        return rows[text][row]
    formula = _parsed(text)
    values = {name: rows[name][row] for name in formula.names}
    return None if None in values.values() else formula.value(values)


_STATISTICS: dict[str, Callable[..., Any]] = {"mean": np.mean, "median": np.median, "min": np.min, "max": np.max}
# A formula is parsed for every row.
_parsed = functools.lru_cache(256)(formulas.parse)


def _cell(rows: Columns, chart: Chart, members: Sequence[int]) -> Cell:
    values = tuple(_drawn(rows, chart, i) for i in members)
    labels = dict.fromkeys(text_of(_at(rows, chart.label, i)) for i in members) if chart.label else {}
    if not all(map(_is_number, values)):
        return Cell(values, values[0], None, ", ".join(labels))
    numbers = np.array(values, np.float64)
    level = float(_STATISTICS[chart.statistic](numbers))
    if len(chart.band) == 2:
        band: Band | None = (
            float(np.mean([_at(rows, chart.band[0], i) for i in members])),
            float(np.mean([_at(rows, chart.band[1], i) for i in members])),
        )
    else:
        band = _band(numbers, chart.band[0]) if len(values) > 1 else None
    return Cell(values, level, band, ", ".join(labels))


def _band(values: Any, kind: str) -> Band | None:  # noqa: ANN401 - an array
    """The band around several values."""
    if kind == "none":
        return None
    if kind == "ci95":
        found = metrics.statistics(values, np.random.default_rng(0))
        return found["ci95_low_s"], found["ci95_high_s"]
    if kind == "std":
        return float(values.mean() - values.std(ddof=1)), float(values.mean() + values.std(ddof=1))
    low, high = (0, 100) if kind == "minmax" else (5, 95)
    return float(np.percentile(values, low)), float(np.percentile(values, high))


def _limits(rows: Columns, chart: Chart, lines: Mapping[Any, Mapping[Any, Sequence[int]]]) -> dict[Value, float]:
    """The mean limit at each place, over the rows of all series."""
    found: dict[Value, list[float]] = {}
    for line in lines.values():
        for place, members in line.items():
            values = (_at(rows, chart.limit, i) for i in members)
            found.setdefault(place, []).extend(float(value) for value in values if value is not None)
    return {place: float(np.mean(values)) for place, values in found.items() if values}


def _relative(panel: Panel, baseline: str) -> Panel:
    """Every cell divided by that of the baseline at its place; places without a baseline are left out."""
    base = next((line for series, line in panel.cells.items() if text_of(series) == baseline), None)
    if base is None:
        names = ", ".join(map(text_of, panel.cells))
        raise InputError(f"baseline: unknown series {baseline!r}; known are {names}")
    lines = {
        series: {place: _over(cell, base[place].level) for place, cell in line.items() if base.get(place)}
        for series, line in panel.cells.items()
    }
    limits = {place: limit / base[place].level for place, limit in panel.limits.items() if base.get(place)}
    return Panel(panel.key, lines, limits)


def _over(cell: Cell, base: float) -> Cell:
    band = None if cell.band is None else (cell.band[0] / base, cell.band[1] / base)
    return Cell(tuple(v / base for v in cell.values), cell.level / base, band, cell.label)


def _ordered(values: Iterable[Value]) -> tuple[Value, ...]:
    """The distinct values: numbers sorted, text in order of appearance."""
    found = list(dict.fromkeys(values))
    return tuple(sorted(found)) if all(map(_is_number, found)) else tuple(found)


def _is_number(value: Value) -> bool:
    return isinstance(value, int | float | np.number)


def text_of(value: Value) -> str:
    """A value as text."""
    if isinstance(value, float | np.floating):
        return f"{value:.4g}"
    return "-" if value is None else str(value)
