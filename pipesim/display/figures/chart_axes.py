"""Labels and ticks of the axes of a chart: readable names, fitting units, ticks that do not overlap."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from pipesim.base import units
from pipesim.display.figures import paper
from pipesim.display.figures.chart_data import text_of
from pipesim.display.figures.figure_style import current

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Labels of columns whose name is not a label.
_NAMES = {
    "iteration_time_s": "iteration time",
    "throughput_samples_per_s": "throughput (samples/s)",
    "throughput_per_device": "throughput per device (samples/s)",
    "bubble_idle_share": "idle share",
    "tokens_per_s": "tokens/s",
    "tokens_per_s_per_gpu": "tokens/s/GPU",
    "flops_per_s_per_gpu": "FLOP/s/GPU",
    "mfu": "MFU",
    "hfu": "HFU",
    "training_days": "days of training",
    "training_gpu_hours": "GPU-hours",
    "flops_utilisation": "FLOP/s utilisation",
    "replay_mean_s": "iteration time",
    "gap_to_bound": "gap to the bound",
    "gpus": "GPUs",
}
_TICK = 7.0  # points
_MOST_TICKS, _APART = 8, 1.3  # values are ticks if there are at most so many, each so many times the one before
_DECADE, _DECADES = 10.0, 300.0  # up to these ratios of ends, 3 and 7, and 2 and 5, have ticks as well as 1 and 10
_ROOM = 1.35  # for the label of a tick, in its own width or height


@dataclass(frozen=True, slots=True)
class Scale:
    """How the values of a column are shown: divided by `factor`, under this label."""

    label: str
    factor: float = 1.0


def scale_of(column: str, label: str, values: Sequence[float]) -> Scale:
    """The scale of a column: seconds and bytes in a unit that fits the largest value, others unscaled."""
    largest = max((abs(v) for v in values if np.isfinite(v)), default=0.0)
    name = label or _NAMES.get(column, column.removesuffix("_bytes").replace("_", " "))
    if not column.isidentifier():  # a formula: a ratio of seconds is not in seconds
        return Scale(name)
    if column.endswith("_s") and not column.endswith("_per_s"):
        unit, ns = paper.time_unit(largest * units.NS_PER_S)
        name = label or _NAMES.get(column, column.removesuffix("_s").replace("_", " "))
        return Scale(f"{name} ({unit})", ns / units.NS_PER_S)
    if column.endswith("_bytes"):
        unit, size = paper.size_unit(largest)
        return Scale(f"{name} ({unit})", size)
    return Scale(name)


def name_of(column: str, label: str) -> str:
    """The label of an axis of categories."""
    return label or _NAMES.get(column, column.replace("_", " "))


def series_name(column: str, label: str, value: Any) -> str:  # noqa: ANN401 - a number or text
    """The name of a series in a legend, or of a panel in its title; numbers have the name of their column."""
    if isinstance(value, str):
        return current().name(value)
    if isinstance(value, bool):
        return f"{'' if value else 'not '}{name_of(column, label)}"
    return f"{name_of(column, label)} = {text_of(value)}"


def categories(axes: "Axes", values: Sequence[Any], *, vertical: bool = False) -> None:
    """A tick for each value; names that do not fit side by side are slanted, numbers are thinned out."""
    texts = [current().name(text_of(value)) for value in values]
    figure, axis = paper.figure_of(axes), axes.yaxis if vertical else axes.xaxis
    box = axes.get_position()
    room = (box.height * figure.bbox.height if vertical else box.width * figure.bbox.width) / max(1, len(values))
    line = _TICK * figure.dpi / paper.POINTS
    needed = line if vertical else max(paper.text_width(figure, text, _TICK) for text in texts)
    every = 1
    if needed * _ROOM > room and (vertical or not any(isinstance(value, str) for value in values)):
        every = paper.thinned(len(values), room * len(values), needed * _ROOM)
    axis.set_ticks(range(0, len(values), every), texts[::every])
    if every == 1 and needed * _ROOM > room:
        axes.set_xticks(range(len(values)), texts, rotation=30, ha="right", rotation_mode="anchor")
    axes.tick_params(axis="y" if vertical else "x", length=0)


def logarithmic(axes: "Axes", which: str, values: Sequence[float]) -> None:
    """A logarithmic axis with plain numbers, at the values themselves if these are few and far apart."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator  # noqa: PLC0415 - slow to import

    axis = axes.xaxis if which == "x" else axes.yaxis
    (axes.set_xscale if which == "x" else axes.set_yscale)("log")
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_locator(NullLocator())
    found = sorted(set(values))
    apart = min((b / a for a, b in pairwise(found)), default=0.0) > _APART
    if which == "x" and len(found) <= _MOST_TICKS and apart:
        axis.set_major_locator(FixedLocator(found))
    elif found and found[-1] / found[0] < _DECADE:
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 3.0, 5.0, 7.0)))
    elif found and found[-1] / found[0] < _DECADES:
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    else:
        axis.set_major_locator(LogLocator())
