"""Layouts by time and memory: all that were simulated, and those than which none is both faster and smaller."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipesim.base.errors import InputError
from pipesim.display.figures import paper

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from matplotlib.patheffects import AbstractPathEffect

_FRONT, _OTHERS = "#0072B2", "#BBBBBB"
_APART = 0.06, 0.35  # of the height and the width: names of layouts that are closer would overlap


def front(rows: Sequence[Mapping[str, Any]], path: Path | str | None = None) -> "Figure":
    """Iteration time over memory of the fullest GPU, of rows as a search for the best layout has them."""
    if not rows:
        raise InputError("no layouts found; at least one was expected")
    return paper.drawn(path, lambda: _front(rows))


def _front(rows: Sequence[Mapping[str, Any]]) -> "Figure":
    figure = paper.sheet(paper.WIDTH * 0.75, 3.2)
    axes = figure.subplots()
    best = sorted((row for row in rows if row["on_front"]), key=lambda row: row["peak_memory_bytes"])
    others = [row for row in rows if not row["on_front"]]
    axes.scatter(*_places(others), s=12, color=_OTHERS, label="simulated")
    axes.step(*_places(best), where="post", color=_FRONT, linewidth=0.9)
    axes.scatter(*_places(best), s=18, color=_FRONT, label="none is faster and smaller", zorder=3)
    for row in _apart(best, rows):
        at = row["peak_memory_bytes"] / 2**30, row["iteration_time_s"]
        name = axes.annotate(_named(row), at, xytext=(5, 4), textcoords="offset points", fontsize=6, zorder=4)
        name.set_path_effects([_clear()])
    axes.set_xlabel("memory of the fullest GPU (GiB)")
    axes.set_ylabel("iteration time (s)")
    axes.margins(x=0.22, y=0.12)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=7)
    paper.settle(figure)
    return figure


def _clear() -> "AbstractPathEffect":
    """White around letters, so that they can be read over points and lines."""
    from matplotlib import patheffects  # noqa: PLC0415 - slow to import

    return patheffects.withStroke(linewidth=2.0, foreground="white")


def _apart(best: Sequence[Mapping[str, Any]], rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Layouts of the front whose names do not overlap, the fastest first."""
    sizes, times = _places(rows)
    width, height = (max(max(values) - min(values), 1e-9) for values in (sizes, times))
    chosen: list[Mapping[str, Any]] = []
    for row in reversed(best):
        (x, y), others = [values[0] for values in _places([row])], zip(*_places(chosen), strict=True)
        if all(abs(y - v) > _APART[0] * height or abs(x - u) > _APART[1] * width for u, v in others):
            chosen.append(row)
    return chosen


def _places(rows: Sequence[Mapping[str, Any]]) -> tuple[list[float], list[float]]:
    return [row["peak_memory_bytes"] / 2**30 for row in rows], [row["iteration_time_s"] for row in rows]


def _named(row: Mapping[str, Any]) -> str:
    if not row["pipeline"]:  # stages and replicas of a planner
        return f"TP {row['tensor']}, {row['planner']}"
    sizes = f"TP {row['tensor']}, PP {row['pipeline']}, DP {row['data']}"
    chunks = f", VPP {row['interleave']}" if row["interleave"] > 1 else ""
    again = "" if row["recompute"] == "none" else f", {row['recompute']}"
    again += " of some blocks" if row.get("recompute_blocks") else ""
    return f"{sizes}{chunks}{again}"
