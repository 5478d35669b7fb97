"""Memory in use on each device over time, and its part of the capacity."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pipesim.analysis import curves
from pipesim.base.arrays import Floats, Ints
from pipesim.core.timeline import Simulated, Timeline, timeline_of
from pipesim.display.figures import panels, paper
from pipesim.display.figures.painting import thin_steps
from pipesim.display.figures.panels import StepPanel

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_MOST_PANELS = 8
_COLUMNS = 1600  # pixels that steps are thinned to
_MOST_POINTS = 600_000
_FAR = 2.5  # capacities above this many times the peak are only in the text
_BAR, _PEAK = "#9FB8C8", "#C8540A"


def memory(timeline: Timeline | Simulated, path: Path | str | None = None) -> "Figure":
    """Memory over time: a panel per device, or with more than eight the device with the highest peak among all others.

    The grey part is constant; a dashed line is the capacity, if it is known and near.
    """
    return paper.drawn(path, lambda: _memory(timeline_of(timeline)))


@dataclass(frozen=True, slots=True, eq=False)
class _Usage:
    """Peaks and capacities of devices, in a fitting unit; `near`: devices whose capacity is drawn."""

    names: tuple[str, ...]
    unit: str
    peaks: Floats
    capacity: Floats
    always: Floats

    @property
    def near(self) -> NDArray[np.bool_]:
        return (self.capacity > 0) & (self.capacity <= _FAR * float(self.peaks.max()))

    @property
    def top(self) -> float:
        """The end of the axes, above all peaks and all capacities that are drawn."""
        return 1.1 * max(float(self.peaks.max()), float(self.capacity[self.near].max(initial=0))) or 1.0

    def note(self, device: int, separator: str) -> str:
        """The peak of a device, and its part of the capacity."""
        peak, has = float(self.peaks[device]), float(self.capacity[device])
        return f"peak {peak:.3g} {self.unit}" + (f"{separator}{peak / has:.0%} of {has:.4g} {self.unit}" if has else "")


def _memory(timeline: Timeline) -> "Figure":
    program, steps = timeline.program, list(curves.memory_curves(timeline))
    peaks = np.array([value.max() for _, value in steps], np.float64)
    unit, scale = paper.size_unit(float(peaks.max()))
    usage = _Usage(program.devices, unit, peaks / scale, program.memory / scale, program.static_memory / scale)
    columns = min(_COLUMNS, _MOST_POINTS // len(steps))
    thin = [thin_steps(time, value / scale, columns, timeline.makespan) for time, value in steps]
    draw = _panels if len(steps) <= _MOST_PANELS else _crowd
    return draw(timeline.makespan, thin, usage)


def _panels(horizon: int, steps: list[tuple[Ints, Floats]], usage: _Usage) -> "Figure":
    rows = [
        StepPanel(name, usage.note(number, "\n"), *steps[number], floor=float(usage.always[number]))
        for number, name in enumerate(usage.names)
    ]
    figure, grid = panels.stack(rows, horizon, usage.top, f"memory ({usage.unit})")
    for axes, has, near in zip(grid, usage.capacity.tolist(), usage.near.tolist(), strict=True):
        if near:
            axes.axhline(has, color=paper.INK, linestyle="--", linewidth=0.9)
    states = [(panels.FILL, "activations"), (panels.FLOOR, "parameters, gradients, optimizer state")]
    paper.legend_above(figure, [*(paper.patch(color, label) for color, label in states), *_capacity_line(usage)])
    paper.settle(figure)
    return figure


def _capacity_line(usage: _Usage) -> list["Artist"]:
    return [paper.line(paper.INK, "capacity", linestyle="--", linewidth=0.9)] if usage.near.any() else []


def _crowd(horizon: int, steps: list[tuple[Ints, Floats]], usage: _Usage) -> "Figure":
    """Above: the curve of the device with the highest peak among all others. Below: the peak of every device."""
    figure = paper.sheet(paper.WIDTH, 4.6)
    over_time, by_device = figure.subplots(2, 1, height_ratios=[3, 2])
    fullest = int(np.argmax(usage.peaks))
    _draw_curves(over_time, horizon, steps, fullest)
    _draw_peaks(by_device, usage.names, usage.peaks, fullest)
    capacity = usage.capacity[usage.near]
    by_device.plot(np.flatnonzero(usage.near), capacity, "_", color=paper.INK, markersize=5)
    if len(np.unique(capacity)) == 1:
        over_time.axhline(capacity[0], color=paper.INK, linestyle="--", linewidth=0.9)
    for axes, label in ((over_time, "memory"), (by_device, "peak")):
        axes.set_ylim(0, usage.top)
        axes.set_ylabel(f"{label} ({usage.unit})")
        axes.grid(axis="y")
        paper.plain(axes)
    name = f"{paper.shortened(usage.names[fullest], 26)}, the fullest: {usage.note(fullest, ', ')}"
    handles = [paper.line(_PEAK, name, linewidth=1.3), paper.line(paper.PALE, "the other devices", linewidth=0.6)]
    paper.legend_above(figure, [*handles, *_capacity_line(usage)])
    paper.settle(figure)
    return figure


def _draw_curves(axes: "Axes", horizon: int, steps: list[tuple[Ints, Floats]], fullest: int) -> None:
    from matplotlib.collections import LineCollection  # noqa: PLC0415 - slow to import

    scale = paper.time_axis(axes, horizon)
    lines = []
    for time, value in steps:
        x = np.repeat(np.append(time, horizon) / scale, 2)[1:-1]
        lines.append(np.stack([x, np.repeat(value, 2)], axis=1))
    others = [line for number, line in enumerate(lines) if number != fullest]
    axes.add_collection(LineCollection(others, colors=paper.PALE, linewidths=0.35, alpha=0.7), autolim=False)
    axes.plot(*lines[fullest].T, color=_PEAK, linewidth=1.1)


def _draw_peaks(axes: "Axes", names: tuple[str, ...], peaks: Floats, fullest: int) -> None:
    colors = [_PEAK if number == fullest else _BAR for number in range(len(names))]
    axes.bar(np.arange(len(names)), peaks, width=0.8 if len(names) <= 200 else 1.0, color=colors)
    axes.set_xlim(-0.7, len(names) - 0.3)
    every = paper.thinned(len(names), 0.85 * paper.WIDTH * paper.POINTS, 9)
    shown = range(0, len(names), every)
    longest = max(len(names[n]) for n in shown)
    upright = longest * 4.2 < 0.8 * every * 0.85 * paper.WIDTH * paper.POINTS / len(names)
    axes.set_xticks(shown, [paper.shortened(names[n], 16) for n in shown], rotation=0 if upright else 90)
