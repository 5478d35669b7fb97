"""Figures in notebooks."""

from helpers.pictures import straight
from pipesim.display import figures


def test_a_figure_is_shown_by_notebooks_without_being_asked_to():
    """IPython shows what has `_repr_png_`; it has no formatter for figures until an inline backend is chosen."""
    figure = figures.gantt(straight(2, 2))
    shown, how = figure._repr_png_()
    assert shown.startswith(b"\x89PNG")
    assert int.from_bytes(shown[16:20], "big") == 2 * how["width"] == 1600
    assert (shown, how) == figure._repr_png_()
