"""Drawing the spans of a Gantt chart: boxes, pixels, numbers, and frames around the critical path."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pipesim.base.arrays import Floats, Ints
from pipesim.core.program import KINDS
from pipesim.core.timeline import Timeline
from pipesim.display.figures import painting, paper
from pipesim.display.figures.layout import Layout
from pipesim.display.figures.painting import Spans
from pipesim.display.figures.task_groups import TaskGroups

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_MOST_BOXES = 40_000  # the rest are painted as pixels
_MOSTLY = 0.95  # if a smaller part of the spans are boxes, a note explains the mixed colours
_MOST_LABELS = 2_500  # with more, no label is drawn
_EDGED, _EDGE = 5.0, 0.45  # pixels of width from which a box has an edge, and the brightness of the edge
_LARGEST, _SMALLEST = 6.5, 4.0  # points of a label
_BESIDE = 0.6  # points of room in a box beside its label


@dataclass(frozen=True, slots=True, eq=False)
class GanttData:
    """A timeline with its layout, its time axis and the colours of its spans."""

    timeline: Timeline
    layout: Layout
    horizon: int  # ns at the end of the time axis
    scale: float  # ns of its unit
    palette: Floats  # kind * shades + shade -> red, green, blue; with groups as they have it
    groups: TaskGroups | None = None

    @property
    def color(self) -> Ints:
        """Per span, a position in the palette."""
        if self.groups is not None:
            task = self.layout.task
            return (self.groups.of_task[task] + 1) * len(KINDS) + self.timeline.program.kind[task]
        return self.timeline.program.kind[self.layout.task] * self.layout.shades + self.layout.shade

    @property
    def is_idle(self) -> bool:
        """Whether any device ever waits."""
        program = self.timeline.program
        busy = (self.timeline.end - self.timeline.start)[program.is_compute].sum()
        return bool(busy < self.horizon * len(program.devices))


def fill(axes: "Axes", chart: GanttData, *, labels: bool) -> None:
    """Boxes for wide spans, pixels for the rest, numbers where they fit."""
    layout, timeline = chart.layout, chart.timeline
    columns, lines = paper.pixels(axes)
    begin, end = (
        ns[layout.task].astype(np.float64) * (columns / chart.horizon) for ns in (timeline.start, timeline.end)
    )
    spans = Spans(layout.strip, begin, end, chart.color)
    wide = painting.is_wide(spans, _MOST_BOXES)
    _draw_boxes(axes, chart, spans, np.flatnonzero(wide))
    if not wide.all():
        idle = np.array(paper.rgb(paper.IDLE))
        painted = painting.paint(spans, wide, (len(layout.strip_top), columns), chart.palette, idle)
        _draw_pixels(axes, chart, painted, lines)
    if np.count_nonzero(wide) < _MOSTLY * len(wide) and axes.get_xlabel():
        axes.set_xlabel(f"{axes.get_xlabel()}; tasks narrower than a pixel are mixed in colour")
    if labels:
        _draw_labels(axes, chart, spans, np.flatnonzero(wide))


def _draw_boxes(axes: "Axes", chart: GanttData, spans: Spans, chosen: Ints) -> None:
    from matplotlib.collections import PolyCollection  # noqa: PLC0415 - slow to import

    layout, timeline, task = chart.layout, chart.timeline, chart.layout.task[chosen]
    corners = paper.boxes(
        timeline.start[task] / chart.scale,
        timeline.end[task] / chart.scale,
        layout.strip_top[spans.strip[chosen]],
        layout.strip_bottom[spans.strip[chosen]],
    )
    edged = spans.end[chosen] - spans.begin[chosen] >= _EDGED
    for these, width in ((~edged, 0.0), (edged, 0.4)):
        if these.any():
            color = chart.palette[spans.color[chosen[these]]]
            collection = PolyCollection(
                list(corners[these]), facecolors=color, edgecolors=color * _EDGE, linewidths=width, zorder=1
            )
            axes.add_collection(collection, autolim=False)


def _draw_pixels(axes: "Axes", chart: GanttData, painted: Floats, lines: int) -> None:
    """The colours of the strips, on all lines of pixels of each strip."""
    layout = chart.layout
    picture = np.zeros((lines, painted.shape[1], 4))
    top, bottom = (np.rint(y * (lines / layout.height)).astype(int) for y in (layout.strip_top, layout.strip_bottom))
    for strip in np.flatnonzero(painted[..., 3].any(axis=1)).tolist():
        picture[top[strip] : max(bottom[strip], top[strip] + 1)] = painted[strip]
    axes.imshow(
        np.rint(picture * 255).astype(np.uint8),
        extent=(0, chart.horizon / chart.scale, layout.height, 0),
        aspect="auto",
        interpolation="nearest",
        zorder=2,
    )


def _draw_labels(axes: "Axes", chart: GanttData, spans: Spans, wide: Ints) -> None:
    """The number of the microbatch in every box that is wide enough, unless there are too many."""
    figure, layout, program = paper.figure_of(axes), chart.layout, chart.timeline.program
    lines = paper.pixels(axes)[1]
    per_point = figure.dpi / paper.POINTS
    height = (layout.strip_bottom - layout.strip_top) * lines / layout.height / per_point
    points = np.minimum(0.8 * height[spans.strip[wide]], _LARGEST)
    microbatch = program.microbatch[layout.task[wide]]
    digits = np.floor(np.log10(np.maximum(microbatch, 1))) + 1
    digit = paper.text_width(figure, "0" * 10, _LARGEST) / 10 / _LARGEST
    room = spans.end[wide] - spans.begin[wide] - _BESIDE * per_point
    points = np.minimum(points, room / (digits * digit))  # smaller in narrow boxes
    fits = (microbatch >= 0) & (points >= _SMALLEST)
    if np.count_nonzero(fits) > _MOST_LABELS:
        return
    for at, size in zip(wide[fits].tolist(), points[fits].tolist(), strict=True):
        _label(axes, chart, at, size)


def _label(axes: "Axes", chart: GanttData, span: int, points: float) -> None:
    layout, timeline = chart.layout, chart.timeline
    task, strip = layout.task[span], layout.strip[span]
    red, green, blue = chart.palette[chart.color[span]]
    axes.text(
        (timeline.start[task] + timeline.end[task]) / 2 / chart.scale,
        (layout.strip_top[strip] + layout.strip_bottom[strip]) / 2,
        str(timeline.program.microbatch[task]),
        ha="center",
        va="center_baseline",
        fontsize=points,
        color="black" if paper.lightness((red, green, blue)) > 0.55 else "white",
        zorder=3,
        in_layout=False,
    )


# --- critical path ---------------------------------------------------------------------------------------------------


def outline(axes: "Axes", chart: GanttData, critical: Ints) -> None:
    """Frames around the critical tasks of each strip; tasks without a gap between them share one."""
    if not len(critical):
        return
    from matplotlib.collections import LineCollection, PolyCollection  # noqa: PLC0415 - slow to import

    layout, timeline = chart.layout, chart.timeline
    chosen = np.flatnonzero(np.isin(layout.task, critical))
    strip, first, last = _runs(
        layout.strip[chosen], timeline.start[layout.task[chosen]], timeline.end[layout.task[chosen]]
    )
    frames = paper.boxes(first / chart.scale, last / chart.scale, layout.strip_top[strip], layout.strip_bottom[strip])
    axes.add_collection(
        PolyCollection(list(frames), facecolors="none", edgecolors="black", linewidths=1.2, zorder=4), autolim=False
    )
    program = timeline.program
    absent = np.setdiff1d(critical, layout.task)
    moving = absent[~program.is_compute[absent]]
    x = np.stack([timeline.start[moving], timeline.end[moving]], axis=1) / chart.scale
    y = np.stack([layout.row_top[program.source[moving]], layout.row_top[program.target[moving]]], axis=1) + 0.5
    axes.add_collection(
        LineCollection(list(np.stack([x, y], axis=2)), colors="black", linewidths=1.0, zorder=4), autolim=False
    )


def _runs(strip: Ints, start: Ints, end: Ints) -> tuple[Ints, Ints, Ints]:
    """Spans of a strip without a gap between them, merged: (strip, start, end)."""
    order = np.lexsort((start, strip))
    strip, start, end = strip[order], start[order], end[order]
    new = np.append(True, (strip[1:] != strip[:-1]) | (start[1:] > end[:-1]))[: len(strip)]
    first = np.flatnonzero(new)
    return strip[first], start[first], np.maximum.reduceat(end, first) if len(first) else end
