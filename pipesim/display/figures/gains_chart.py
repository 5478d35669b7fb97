"""Gains of faster hardware: a bar for each device, link or layer that is made faster."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pipesim.base.errors import InputError
from pipesim.display.figures import paper

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COLOR = "#0072B2"


def gains(rows: Sequence[tuple[str, float]], by: float, path: Path | str | None = None) -> "Figure":
    """Bars of the part of the iteration time that is saved if this is `by` faster; the first row on top."""
    if not rows:
        raise InputError("no gains found; at least one was expected")
    return paper.drawn(path, lambda: _gains(rows, by))


def _gains(rows: Sequence[tuple[str, float]], by: float) -> "Figure":
    figure = paper.sheet(paper.WIDTH * 0.75, 0.7 + 0.24 * len(rows))
    axes = figure.subplots()
    names = [paper.shortened(name.replace("->", "→"), 40) for name, _ in rows]
    bars = axes.barh(range(len(rows)), [100 * gain for _, gain in rows], color=_COLOR, height=0.7)
    axes.bar_label(bars, [f"{100 * gain:.2f}" for _, gain in rows], padding=3, fontsize=7)
    axes.set_yticks(range(len(rows)), names)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.margins(x=0.12)
    axes.set_xlabel(f"iteration time saved (%) if this is {100 * by:g} % faster")
    axes.spines[["top", "right"]].set_visible(False)
    paper.settle(figure)
    return figure
