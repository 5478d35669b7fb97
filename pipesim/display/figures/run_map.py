"""A recorded run as a map: how long each rank computed in each step, beside what is usual at its place."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pipesim.analysis import run_summary
from pipesim.core.recorded_run import RecordedRun
from pipesim.display.figures import paper

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_ROW, _LEAST, _TALLEST = 0.11, 1.2, 8.5  # inches of a rank, and of all
_FEW_LABELS = 40


def run_map(run: RecordedRun, path: Path | str | None = None) -> "Figure":
    """A cell for each rank (row) and step (column); above, the time of each step.

    Colour is what the rank computed in the step over the median of all ranks at its place in the pipeline, so that
    stages with more layers are no darker. Ranks are in order of their place, then of their replica.
    """
    return paper.drawn(path, lambda: _run_map(run))


def _run_map(run: RecordedRun) -> "Figure":
    order = np.lexsort((run.replica, run.position))
    height = min(max(_ROW * len(order), _LEAST), _TALLEST)
    figure = paper.sheet(paper.WIDTH, height + 1.9)
    top, axes = figure.subplots(2, 1, sharex=True, height_ratios=[1.0, height])
    at = np.arange(len(run.steps))
    top.bar(at, run.step_ns / 1e9, width=0.9, color=paper.PALE)
    top.set_ylabel("step (s)")
    top.spines[["top", "right"]].set_visible(False)
    factor = run_summary.slowdowns(run)[:, order].T
    reach = max(float(np.percentile(np.abs(factor - 1), 99)), 0.01)
    image = axes.imshow(
        factor, aspect="auto", interpolation="nearest", cmap="RdBu_r", vmin=1 - reach, vmax=1 + reach,
        extent=(-0.5, len(at) - 0.5, len(order) - 0.5, -0.5),
    )  # fmt: skip
    every = paper.thinned(len(order), height, 0.12)
    rows = range(0, len(order), every)
    axes.set_yticks(list(rows), [f"{run.ranks[order[row]]}" for row in rows])
    axes.set_ylabel("rank, by place in the pipeline")
    for row in np.flatnonzero(np.diff(run.position[order])).tolist():
        axes.axhline(row + 0.5, color=paper.INK, linewidth=0.8)
    columns = range(0, len(at), -(-len(at) // _FEW_LABELS))
    axes.set_xticks(list(columns), [str(run.steps[column]) for column in columns], rotation=90)
    axes.set_xlabel("step")
    bar = figure.colorbar(image, ax=axes, label="computed, times the median of its place", pad=0.02, aspect=30)
    bar.outline.set_linewidth(0.5)
    paper.settle(figure)
    return figure
