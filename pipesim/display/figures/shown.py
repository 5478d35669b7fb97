"""A figure that notebooks display as the value of a cell.

Notebooks display matplotlib's own figures only with its inline backend. This module imports matplotlib, so it is
imported when the first figure is made.
"""

import io

from matplotlib.figure import Figure

from pipesim.display.figures import paper

_PIXELS = 100  # of the page per inch; the image has more, for high-resolution screens


class Shown(Figure):
    """A figure with a PNG for notebooks and its width on the page."""

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        written = io.BytesIO()
        with paper.style():  # with the dpi that text was measured at
            self.savefig(written, format="png", metadata={"Software": None})
        return written.getvalue(), {"width": round(self.get_size_inches()[0] * _PIXELS)}
