r"""One quantity over time for a few devices or media: a panel each, stacked on shared axes.

gpu0 |    ___/‾‾\___        peak 3.1 GiB
gpu1 |   _/‾‾‾‾‾‾\__        peak 2.4 GiB
         time (ms)
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pipesim.base.arrays import Floats, Ints
from pipesim.display.figures import paper

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator


_PANEL = 0.62  # inches
FILL, FLOOR, _EDGE = "#8CCBF2", "#BFBFBF", "#0072B2"


class StepPanel(NamedTuple):
    """A step curve from time 0 (ns), the texts to its left and right, and its constant part."""

    name: str
    note: str
    time: Ints
    value: Floats
    floor: float = 0.0


def stack(
    panels: Sequence[StepPanel], horizon: int, top: float, label: str, *, filled: bool = True
) -> tuple["Figure", list["Axes"]]:
    """The panels with values from 0 to `top`, under one label; curves that are not filled are for fills of others."""
    figure = paper.sheet(paper.WIDTH, len(panels) * _PANEL + 0.75)
    grid = figure.subplots(len(panels), 1, sharex=True, sharey=True, squeeze=False).ravel().tolist()
    for axes, panel in zip(grid, panels, strict=True):
        scale = paper.time_axis(axes, horizon)
        axes.set_ylim(0, top)
        _draw(axes, panel, horizon / scale, scale, filled=filled)
    for axes in grid[:-1]:
        axes.set_xlabel("")
    figure.supylabel(label, fontsize=8)
    return figure, grid


def _draw(axes: "Axes", panel: StepPanel, end: float, scale: float, *, filled: bool) -> None:
    time, value = np.append(panel.time / scale, end), np.append(panel.value, panel.value[-1:])
    if filled:
        axes.fill_between(time, 0, value, step="post", color=FILL, linewidth=0)
    if panel.floor:
        axes.axhspan(0, panel.floor, color=FLOOR, linewidth=0)
    axes.step(time, value, where="post", color=_EDGE if filled else paper.INK, linewidth=0.7 if filled else 0.3)
    axes.set_ylabel(paper.shortened(panel.name, 26), rotation=0, ha="right", va="center")
    axes.yaxis.set_major_locator(_few_ticks())
    axes.grid(axis="y")
    axes.annotate(
        panel.note,
        (1, 0.5),
        xycoords="axes fraction",
        xytext=(6, 0),
        textcoords="offset points",
        va="center",
        fontsize=7,
    )
    paper.plain(axes)


def _few_ticks() -> "MaxNLocator":
    from matplotlib.ticker import MaxNLocator  # noqa: PLC0415 - slow to import

    return MaxNLocator(nbins=3, steps=[1, 2, 5, 10])
