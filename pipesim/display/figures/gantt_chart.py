"""Gantt charts: a row per device, a box per task."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pipesim.analysis import metrics
from pipesim.base.arrays import Ints
from pipesim.base.errors import InputError
from pipesim.core.program import KINDS
from pipesim.core.timeline import Simulated, Timeline, timeline_of
from pipesim.display.figures import paper
from pipesim.display.figures.gantt_spans import GanttData, fill, outline
from pipesim.display.figures.layout import lay_out
from pipesim.display.figures.task_groups import TaskGroups

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


# Colours of Okabe and Ito, some lighter or darker, so that neighbours also differ when printed in grey.
_COLORS = {
    "forward": "#A3D6F5",
    "backward": "#C8540A",
    "input": "#DE9400",
    "weight": "#007358",
    "optimizer": "#33336B",
    "activation": "#0072B2",
    "gradient": "#F2A477",
    "all_reduce": "#A64D79",
    "all_gather": "#5C8A3A",
}
_WORDS = {
    "input": "input gradient",
    "weight": "weight gradient",
    "activation": "activations",
    "gradient": "gradients",
    "all_reduce": "all-reduce",
    "all_gather": "all-gather",
}

_MEMORY = "#7F7F7F"
_ROW, _TALLEST = 0.27, 8.5  # inches of a row, and of all rows


def gantt(
    timeline: Timeline | Simulated,
    path: Path | str | None = None,
    *,
    links: bool = False,
    critical: Sequence[int] | Ints | None = None,
    title: str | None = None,
    width: float = paper.WIDTH,
    labels: bool = True,
    groups: TaskGroups | None = None,
) -> "Figure":
    """A Gantt chart of one iteration: the tasks of every device, with the microbatch in each box that has room for it.

    `links` adds a row per medium with transfers. The tasks of `critical` (their numbers in the program) are outlined;
    without rows for media, critical transfers are lines from device to device. On devices with several chunks, later
    chunks are lighter. `width` is in inches; the height follows the number of rows. With `groups`, such as the jobs of
    a cluster, colours are those of groups, backwards darker.

    >>> result = ps.simulate("bert-large", 'flat(2, bandwidth="1GB/s")', microbatches=4)
    >>> figure = ps.gantt(result.timeline, "gantt.pdf", width=3.4)
    """
    made = timeline_of(timeline)
    chosen = _checked_tasks(made, critical)
    if groups is not None:
        groups.check(len(made.program))
    return paper.drawn(path, lambda: _gantt(made, chosen, title, width, groups, links=links, labels=labels))


def gantt_grid(
    timelines: Mapping[str, Timeline | Simulated], path: Path | str | None = None, *, memory: str | None = None
) -> "Figure":
    """Gantt charts below each other on one time axis, with the keys as titles.

    With `memory`, the label of its unit, bars beside each chart show the peak of each device.
    """
    if not timelines:
        raise InputError("no timelines found; at least one was expected")
    return paper.drawn(path, lambda: _grid({name: timeline_of(made) for name, made in timelines.items()}, memory))


def _checked_tasks(timeline: Timeline, critical: Sequence[int] | Ints | None) -> Ints:
    tasks = np.asarray([] if critical is None else critical, np.int64)
    wrong = tasks[(tasks < 0) | (tasks >= len(timeline.program))]
    if len(wrong):
        raise InputError(f"critical: task {wrong[0]} found; 0 to {len(timeline.program) - 1} was expected")
    return tasks


def _gantt(
    timeline: Timeline,
    critical: Ints,
    title: str | None,
    width: float,
    groups: TaskGroups | None,
    *,
    links: bool,
    labels: bool,
) -> "Figure":
    chart = _chart(timeline, timeline.makespan, groups, links=links)
    rows = chart.layout.height
    height = min(_TALLEST, rows * _ROW)
    figure = paper.sheet(width, height + (1.1 if title else 0.9))
    axes = figure.subplots()
    _frame(axes, chart, height / rows)
    if title:
        axes.set_title(title)
    paper.legend_above(figure, _handles([chart], critical=bool(len(critical))))
    paper.settle(figure)
    fill(axes, chart, labels=labels)
    outline(axes, chart, critical)
    return figure


def _grid(timelines: Mapping[str, Timeline], memory: str | None) -> "Figure":
    horizon = max(timeline.makespan for timeline in timelines.values())
    charts = [_chart(timeline, horizon, links=False) for timeline in timelines.values()]
    columns = 1 if len(charts) <= 6 else 2
    lines = -(-len(charts) // columns)
    rows = [max(chart.layout.height for chart in charts[line::lines]) for line in range(lines)]
    row = min(_TALLEST / sum(rows), _ROW * 0.8)
    figure = paper.sheet(paper.WIDTH, sum(rows) * row + 0.4 * lines + 0.6)
    widths = [1.0] * columns if memory is None else [6.0, 1.0] * columns
    every = figure.subplots(lines, len(widths), squeeze=False, height_ratios=rows, width_ratios=widths)
    step = len(widths) // columns
    grid = every[:, ::step].ravel(order="F").tolist()
    for number, (axes, chart, title) in enumerate(zip(grid, charts, timelines, strict=False)):
        _frame(axes, chart, row)
        axes.set_title(f"{title}: {paper.duration(chart.timeline.makespan)}", fontsize=8)
        if number % lines < lines - 1 and number < len(charts) - 1:
            axes.tick_params(labelbottom=False)
            axes.set_xlabel("")
    if memory is not None:
        _peaks(every[:, 1::2].ravel(order="F").tolist(), charts, lines, memory)
    for axes in grid[len(charts) :]:
        axes.set_axis_off()
    paper.legend_above(figure, _handles(charts, critical=False))
    paper.settle(figure)
    for axes, chart in zip(grid, charts, strict=False):
        fill(axes, chart, labels=True)
    return figure


def _peaks(grid: list["Axes"], charts: Sequence[GanttData], lines: int, unit: str) -> None:
    """A bar per device beside its row: its peak, on one scale for all charts."""
    peaks = [metrics.peak_memory(chart.timeline) / _chunks(chart.timeline) for chart in charts]
    most = max(float(peak.max(initial=0)) for peak in peaks) or 1.0
    for number, (axes, chart, peak) in enumerate(zip(grid, charts, peaks, strict=False)):
        layout = chart.layout
        middle = ((layout.strip_top + layout.strip_bottom) / 2)[: layout.devices]
        height = (layout.strip_bottom - layout.strip_top)[: layout.devices]
        axes.barh(middle, peak, height * 0.8, color=_MEMORY)
        axes.set_ylim(layout.height, 0)
        axes.set_xlim(0, 1.05 * most)
        axes.set_yticks([])
        axes.spines[["top", "right", "left"]].set_visible(False)
        if number % lines == lines - 1 or number == len(charts) - 1:
            axes.set_xlabel(unit, loc="right")
        else:
            axes.tick_params(labelbottom=False)
    for axes in grid[len(charts) :]:
        axes.set_axis_off()


def _chunks(timeline: Timeline) -> float:
    """Stages per device, to convert memory from stages to microbatches."""
    return len(np.unique(timeline.program.stage)) / len(timeline.program.devices)


def _chart(timeline: Timeline, horizon: int, groups: TaskGroups | None = None, *, links: bool) -> GanttData:
    layout = lay_out(timeline, links=links)
    scale = paper.time_unit(horizon)[1]
    if groups is not None:
        return GanttData(timeline, layout, max(1, horizon), scale, groups.palette, groups)
    palette = [_shaded(_COLORS[kind], shade, layout.shades) for kind in KINDS for shade in range(layout.shades)]
    return GanttData(timeline, layout, max(1, horizon), scale, np.array(palette))


def _shaded(color: str, shade: int, shades: int) -> paper.Color:
    """The first chunk a little darker, the last one much lighter."""
    if shades == 1:
        return paper.rgb(color)
    step = shade / (shades - 1)
    return paper.mixed(paper.mixed(paper.rgb(color), (0, 0, 0), 0.12 * (1 - step)), (1, 1, 1), 0.38 * step)


def _frame(axes: "Axes", chart: GanttData, row: float) -> None:
    """Limits, names of rows (as many as fit rows of this many inches), and the background of idle time."""
    from matplotlib.collections import PolyCollection  # noqa: PLC0415 - slow to import

    layout = chart.layout
    paper.time_axis(axes, chart.horizon)
    axes.set_ylim(layout.height, 0)
    every = paper.thinned(1, row * paper.POINTS, 7.5)
    shown = [r for r in range(len(layout.names)) if (r if r < layout.devices else r - layout.devices) % every == 0]
    names = [paper.shortened(layout.names[r].replace("->", "→").replace("<→", "↔"), 26) for r in shown]
    middle = np.concatenate([(layout.strip_top + layout.strip_bottom)[: layout.devices] / 2, layout.row_top + 0.5])
    axes.set_yticks([middle[r if r < layout.devices else r + layout.devices] for r in shown], names)
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)
    strips = len(layout.strip_top)
    compute = np.arange(strips) < layout.devices
    end = np.where(compute | (np.arange(strips) >= 2 * layout.devices), chart.timeline.makespan / chart.scale, 0)
    background = paper.boxes(np.zeros(strips), end, layout.strip_top, layout.strip_bottom)
    axes.add_collection(
        PolyCollection(list(background[end > 0]), facecolors=paper.IDLE, linewidths=0, zorder=0.5), autolim=False
    )


def _handles(charts: Sequence[GanttData], *, critical: bool) -> list["Artist"]:
    """A legend of the kinds of tasks in any of the charts."""
    kinds = np.unique(np.concatenate([c.timeline.program.kind[c.layout.task] for c in charts])).tolist()
    groups, shades = charts[0].groups, max(chart.layout.shades for chart in charts)
    if groups is not None:
        handles = [paper.patch(groups.color(number), name) for number, name in enumerate(groups.names)]
    else:
        handles = [paper.patch(_COLORS[KINDS[kind]], _WORDS.get(KINDS[kind], KINDS[kind])) for kind in kinds]
    if shades > 1 and groups is None:
        ends = [(0, "first chunk"), (shades - 1, "last chunk")]
        handles += [paper.patch(_shaded("#808080", shade, shades), label) for shade, label in ends]
    if any(chart.is_idle for chart in charts):
        handles.append(paper.patch(paper.IDLE, "idle"))
    if critical:
        handles.append(paper.patch("#FFFFFF", "critical path", edgecolor="black", linewidth=1.2))
    return handles
