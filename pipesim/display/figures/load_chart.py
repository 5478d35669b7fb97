"""The load of each medium over time, as a share of its capacity."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pipesim.analysis import curves
from pipesim.base.arrays import Floats, Ints
from pipesim.base.errors import InputError
from pipesim.core.timeline import Simulated, Timeline, timeline_of
from pipesim.display.figures import panels, paper
from pipesim.display.figures.panels import StepPanel
from pipesim.display.figures.task_groups import TaskGroups

if TYPE_CHECKING:
    from matplotlib.cm import ScalarMappable
    from matplotlib.figure import Figure


_MOST_PANELS = 6
_MOST_ROWS = 32  # of the heat map: as many as have a name each
_MOST_STEPS, _COLUMNS = 1200, 300  # with more steps in a panel, averages over so many columns
_ROW, _TALLEST = 0.2, 7.5  # inches of a row of the heat map, and of all
_FULL = 1 + 1e-6  # a load above this exceeds the capacity


def link_load(
    timeline: Timeline | Simulated, path: Path | str | None = None, *, groups: TaskGroups | None = None
) -> "Figure":
    """Load of every medium with transfers: a panel each, or a heat map of the busiest if there are more than six.

    With `groups`, such as the jobs of a cluster, panels in their colours: of more than six media those that most groups
    use, and of these the busiest. With sharing "none", transfers do not share links, and their sum may be more than the
    capacity.
    """
    made = timeline_of(timeline)
    used = np.flatnonzero(made.moved > 0)
    if not len(used):
        raise InputError("this timeline has no transfers over links, so there is no load to draw")
    if groups is not None:
        groups.check(len(made.program))
        return paper.drawn(path, lambda: _grouped(made, used, groups))
    return paper.drawn(path, lambda: _load(made, used))


def _load(timeline: Timeline, used: Ints) -> "Figure":
    program, loads = timeline.program, curves.load_curves(timeline)
    names = [program.media[m].replace("<->", "↔").replace("->", "→") for m in used.tolist()]
    shares = [(loads[m][0], loads[m][1] / program.capacity[m]) for m in used.tolist()]
    if len(used) <= _MOST_PANELS:
        return _panels(names, shares, timeline.makespan)
    whole = np.array([0, max(1, timeline.makespan)])
    mean = [float(curves.averages(time, share, whole)[0]) for time, share in shares]
    busiest = sorted(range(len(used)), key=lambda row: -round(mean[row], 9))[:_MOST_ROWS]
    return _heat_map(
        [f"{paper.shortened(names[row], 26)} {mean[row]:.0%}" for row in busiest],
        [shares[row] for row in busiest],
        timeline.makespan,
        f"the {_MOST_ROWS} busiest of {len(used)} links" if len(used) > _MOST_ROWS else "links, the busiest first",
    )


def _panels(names: list[str], shares: list[tuple[Ints, Floats]], horizon: int) -> "Figure":
    rows = []
    for name, (time, share) in zip(names, shares, strict=True):
        mean = float(curves.averages(time, share, np.array([0, horizon]))[0])
        rows.append(StepPanel(name, f"mean {mean:.0%}", *_averaged(time, 100 * share, horizon)))
    top = max(105.0, 1.05 * max(float(panel.value.max()) for panel in rows))
    figure, grid = panels.stack(rows, horizon, top, "load (% of capacity)")
    if top > 105 * _FULL:
        for axes in grid:
            axes.axhline(100, color=paper.INK, linestyle="--", linewidth=0.9)
        paper.legend_above(figure, [paper.line(paper.INK, "capacity", linestyle="--", linewidth=0.9)])
    paper.settle(figure)
    return figure


def _grouped(timeline: Timeline, used: Ints, groups: TaskGroups) -> "Figure":
    """A panel for each medium, with the loads of the groups on top of each other."""
    program, names = timeline.program, groups.names
    loads = [curves.load_curves(timeline, groups.of_task == number) for number in range(len(names))]
    edges = np.linspace(0, max(1, timeline.makespan), _COLUMNS + 1)
    part = np.array([[curves.averages(*load[m], edges) / program.capacity[m] for load in loads] for m in used.tolist()])
    mean = part.mean(axis=2)
    chosen = np.lexsort((-mean.sum(axis=1), -(mean > 0).sum(axis=1)))[:_MOST_PANELS]
    rows = []
    for row in chosen.tolist():
        share = 100 * part[row].sum(axis=0)
        name = program.media[used[row]].replace("<->", "↔").replace("->", "→")
        rows.append(StepPanel(name, f"mean {mean[row].sum():.0%}", edges[:-1].astype(np.int64), share))
    top = max(105.0, 1.05 * max(float(panel.value.max()) for panel in rows))
    figure, grid = panels.stack(rows, timeline.makespan, top, "load (% of capacity)", filled=False)
    scale = paper.time_unit(timeline.makespan)[1]
    for axes, row in zip(grid, chosen.tolist(), strict=True):
        below = np.zeros(_COLUMNS + 1)
        for number in range(len(names)):
            above = below + 100 * np.append(part[row, number], 0.0)
            axes.fill_between(
                edges / scale, below, above, step="post", color=groups.color(number), linewidth=0, zorder=3
            )
            below = above
    paper.legend_above(figure, [paper.patch(groups.color(number), name) for number, name in enumerate(names)])
    paper.settle(figure)
    return figure


def _averaged(time: Ints, value: Floats, horizon: int) -> tuple[Ints, Floats]:
    """The steps if they are few enough to see, else their mean in each column."""
    if len(time) <= _MOST_STEPS:
        return time, value
    edges = np.linspace(0, horizon, _COLUMNS + 1)
    return edges[:-1].astype(np.int64), curves.averages(time, value, edges)


def _heat_map(names: list[str], shares: list[tuple[Ints, Floats]], horizon: int, title: str) -> "Figure":
    height = min(_TALLEST, max(1.4, len(names) * _ROW))
    figure = paper.sheet(paper.WIDTH, height + 0.6)
    axes = figure.subplots()
    paper.time_axis(axes, horizon)
    axes.set_ylim(len(names), 0)
    axes.set_title(f"{title} (mean load)", fontsize=8)
    shown = range(0, len(names), paper.thinned(len(names), height * paper.POINTS, 8))
    axes.set_yticks([row + 0.5 for row in shown], [names[row] for row in shown])
    axes.tick_params(axis="y", length=0)
    levels = _levels()
    bar = figure.colorbar(levels, ax=axes, label="load (% of capacity)", fraction=0.05, pad=0.02, aspect=30)
    bar.outline.set_linewidth(0.5)
    if any((share > _FULL).any() for _, share in shares):
        paper.legend_above(figure, [paper.patch(paper.WARNING, "more than the capacity")])
    paper.settle(figure)
    edges = np.linspace(0, max(1, horizon), paper.pixels(axes)[0] + 1)
    percent = np.array([100 * curves.averages(time, share, edges) for time, share in shares])
    percent[np.abs(percent - 100) < 100 * (_FULL - 1)] = 100  # rounding errors are not overload
    extent = (*axes.get_xlim(), *axes.get_ylim())
    axes.imshow(levels.to_rgba(percent), extent=extent, aspect="auto", interpolation="nearest")
    return figure


def _levels() -> "ScalarMappable":
    """White for 0 % to dark for 100 %, and a separate colour for more."""
    from matplotlib import colormaps  # noqa: PLC0415 - slow to import
    from matplotlib.cm import ScalarMappable  # noqa: PLC0415
    from matplotlib.colors import Normalize  # noqa: PLC0415

    return ScalarMappable(Normalize(0, 100), colormaps["Blues"].with_extremes(over=paper.WARNING))
