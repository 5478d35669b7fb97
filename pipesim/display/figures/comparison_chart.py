"""Iteration times side by side: a group of bars per planner, a bar per scheduler."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pipesim.base import units
from pipesim.base.errors import InputError, within
from pipesim.display.figures import looks, paper
from pipesim.display.figures.figure_style import current
from pipesim.display.figures.looks import Look

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_GROUP, _WIDEST = 0.84, 0.28  # widths of a group and of a bar, relative to the distance between groups
_LABEL = 6.5  # points
_CLOSE = 1.05  # times up to this ratio are dots on an axis that does not begin at 0: their bars would look equal
_DOT = 6.0  # points


@dataclass(frozen=True, slots=True)
class _Bar:
    """One validated row."""

    planner: str
    scheduler: str
    seconds: float | None
    bound: float | None
    label: str | None
    starred: bool


def comparison(rows: Iterable[Mapping[str, Any]], path: Path | str | None = None) -> "Figure":
    """Bars of iteration time from rows with `planner`, `scheduler` and `iteration_time_s`, in the order they come in.

    A row may also have `bound_s` or `schedule_bound_s` (a lower bound, drawn across its bar), `label` (on the bar in
    place of its time), `starred` (marks the bar with a star), and `error` in place of a time: then its label, or
    "failed", is in place of the bar. Times within 5 % of each other are dots, on an axis that does not begin at 0, with
    what they take more than the least.
    """
    bars = [_bar(number, row) for number, row in enumerate(rows)]
    if not any(bar.seconds is not None for bar in bars):
        raise InputError(f"no iteration time found in {len(bars)} rows; at least one was expected")
    return paper.drawn(path, lambda: _comparison(bars))


def _bar(number: int, row: Mapping[str, Any]) -> _Bar:
    with within(f"rows[{number}]"):
        for key in ("planner", "scheduler", "iteration_time_s"):
            if key not in row and not (key == "iteration_time_s" and "error" in row):
                raise InputError(f"has no {key!r}; planner, scheduler and iteration_time_s were expected")
        label = row.get("label")
        return _Bar(
            planner=str(row["planner"]),
            scheduler=str(row["scheduler"]),
            seconds=_seconds(row.get("iteration_time_s"), "iteration_time_s"),
            bound=_seconds(row.get("bound_s", row.get("schedule_bound_s")), "bound_s"),
            label=None if label is None else str(label),
            starred=bool(row.get("starred", False)),
        )


def _seconds(value: Any, key: str) -> float | None:  # noqa: ANN401 - rows may contain anything
    if value is None or value != value:  # noqa: PLR0124 - NaN, a missing value in tables
        return None
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not 0 <= value < np.inf:
        raise InputError(f"{key}: {value!r} found; seconds, not negative, were expected")
    return float(value)


def _comparison(bars: list[_Bar]) -> "Figure":
    planners = current().ordered(dict.fromkeys(bar.planner for bar in bars))
    schedulers = current().ordered(dict.fromkeys(bar.scheduler for bar in bars))
    unit, ns = paper.time_unit(max(bar.seconds or 0.0 for bar in bars) * units.NS_PER_S)
    figure = paper.sheet(max(4.0, min(paper.WIDTH, 1.2 + 0.5 * len(planners) * (len(schedulers) + 0.5))), 3.2)
    axes = figure.subplots()
    axes.set_xlim(-0.5, len(planners) - 0.5)
    axes.tick_params(axis="x", length=0)
    bottom = _bottom(bars) * units.NS_PER_S / ns
    axes.set_ylabel(f"iteration time ({unit})" + (", not from 0" if bottom else ""))
    axes.grid(axis="y")
    paper.plain(axes)
    look = _looks(schedulers, dots=bottom > 0)
    _legend(figure, look, _bound_label([bar.bound * units.NS_PER_S / ns for bar in bars if bar.bound], bottom, unit))
    _name_planners(axes, planners)
    width = min(_WIDEST, _GROUP / len(schedulers))
    x = [_place(bar, planners, schedulers, width) for bar in bars]
    heights = [_draw_bar(axes, bar, (at, width), ns, look[bar.scheduler]) for bar, at in zip(bars, x, strict=True)]
    ends = [(at, max(height, bottom)) for at, height in zip(x, heights, strict=True)]
    _label_bars(axes, bars, ends, width, bottom)
    return figure


def _bottom(bars: list[_Bar]) -> float:
    """Seconds where the axis begins: 0, or below all dots, and below bounds that are as near as they are."""
    times = [bar.seconds for bar in bars if bar.seconds is not None]
    least, most = min(times), max(times)
    if not 0 < least < most <= _CLOSE * least:
        return 0.0
    near = [bar.bound for bar in bars if bar.bound is not None and bar.bound > least - 2 * (most - least)]
    low = min([least, *near])
    return low - 0.15 * (most - low)


def _bound_label(bounds: list[float], bottom: float, unit: str) -> str:
    """The label of bounds in the legend, if there are any; where they are below the axis, with their values."""
    if not bounds or max(bounds) >= bottom:
        return "lower bound" if bounds else ""
    ends = dict.fromkeys(f"{bound:.4g}" for bound in (min(bounds), max(bounds)))
    return f"lower bound, below the axis: {' to '.join(ends)} {unit}"


def _looks(schedulers: list[str], *, dots: bool) -> dict[str, Look]:
    found = (looks.lines if dots else looks.bars)(schedulers, looks.schedules())
    dot = {"linestyle": "none", "markersize": _DOT} if dots else {}
    return dict(zip(schedulers, (look | dot for look in found), strict=True))


def _draw_bar(axes: "Axes", bar: _Bar, place: tuple[float, float], ns: float, look: Look) -> float:
    """A bar or dot at (middle, width) in its scheduler's look, and its bound; returns its height in units of `ns`."""
    x, width = place
    height = (bar.seconds or 0.0) * units.NS_PER_S / ns
    if bar.seconds is not None and "marker" in look:
        axes.plot([x], [height], zorder=4, **look)
    elif bar.seconds is not None:
        axes.bar(x, height, 0.92 * width, edgecolor=paper.INK, linewidth=0.5, zorder=2, **look)
    if bar.bound is not None:
        level = bar.bound * units.NS_PER_S / ns
        axes.plot([x - width / 2, x + width / 2], [level] * 2, "k", linewidth=1.3, solid_capstyle="butt", zorder=3)
    return height


def _place(bar: _Bar, planners: list[str], schedulers: list[str], width: float) -> float:
    """The middle of a bar: schedulers side by side, centred on the number of their planner."""
    return planners.index(bar.planner) + (schedulers.index(bar.scheduler) - (len(schedulers) - 1) / 2) * width


def _legend(figure: "Figure", look: Mapping[str, Look], bound: str) -> None:
    handles = [
        paper.line(label=current().name(name), **own)
        if "marker" in own
        else paper.patch(label=current().name(name), color=own["facecolor"], hatch=own["hatch"])
        for name, own in look.items()
    ]
    if bound:
        handles.append(paper.line("black", bound, linewidth=1.3))
    paper.legend_above(figure, handles)


def _name_planners(axes: "Axes", planners: list[str]) -> None:
    """Names of planners, upright if they fit side by side, else slanted."""
    figure = paper.figure_of(axes)
    room = 0.85 * figure.bbox.width / len(planners)
    names = [current().name(planner) for planner in planners]
    axes.set_xticks(range(len(planners)), names)
    if max(paper.text_width(figure, name, 7) for name in names) > 0.92 * room:
        axes.set_xticks(range(len(planners)), names, rotation=25, ha="right", rotation_mode="anchor")


def _label_bars(axes: "Axes", bars: list[_Bar], ends: list[tuple[float, float]], width: float, bottom: float) -> None:
    """Labels on bars, upright if all fit their width, else rotated; the axis is extended for them."""
    figure, heights = paper.figure_of(axes), [height for _, height in ends]
    least = (
        min(height for bar, height in zip(bars, heights, strict=True) if bar.seconds is not None) if bottom else None
    )
    texts = [_text(bar, height, least) for bar, height in zip(bars, heights, strict=True)]
    figure.draw_without_rendering()  # for the layout, so that pixels can be measured
    columns, lines = paper.pixels(axes)
    longest = max(paper.text_width(figure, text, _LABEL) for text in texts)
    rotated = longest > 0.98 * width * columns / (axes.get_xlim()[1] - axes.get_xlim()[0])
    needed = (longest if rotated else _LABEL * figure.dpi / paper.POINTS) + 14
    top = (axes.dataLim.ymax or 1.0) - bottom
    axes.set_ylim(bottom, bottom + max(1.04 * top, (max(heights) - bottom) / max(0.2, 1 - needed / lines)))
    paper.settle(figure)
    for end, text in zip(ends, texts, strict=True):
        axes.annotate(
            text, end, xytext=(0, 4 if bottom else 2), textcoords="offset points", ha="center", va="bottom",
            fontsize=_LABEL, rotation=90 if rotated else 0, zorder=4,
        )  # fmt: skip


def _text(bar: _Bar, height: float, least: float | None) -> str:
    """The label of a bar; its time, or by how much it is more than the least."""
    time = f"{height:.4g}" if least is None or height == least else f"+{height / least - 1:.2%}"
    text = bar.label if bar.label is not None else ("failed" if bar.seconds is None else time)
    return f"{text} ★" if bar.starred else text
