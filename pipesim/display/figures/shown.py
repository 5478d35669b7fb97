"""A figure that a notebook shows by itself, as the value of a cell's last line.

Notebooks show matplotlib's figures only where its inline backend was asked for; whoever calls `gantt(timeline)` there
wants to see it. This module imports matplotlib, so it is imported when the first figure is made.
"""

import io

from matplotlib.figure import Figure

from pipesim.display.figures import paper

_PIXELS = 100  # of the page for an inch; there are more in the picture, for fine screens


class Shown(Figure):
    """A figure with the PNG that notebooks ask for, and how wide it shall look."""

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        written = io.BytesIO()
        with paper.style():  # at its own dpi: text that was measured keeps its size
            self.savefig(written, format="png", metadata={"Software": None})
        return written.getvalue(), {"width": round(self.get_size_inches()[0] * _PIXELS)}
