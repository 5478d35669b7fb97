"""Gains of faster hardware as bars."""

import pytest

from pipesim.base.errors import InputError
from pipesim.display import figures


def test_the_first_row_is_on_top_with_its_percentage():
    figure = figures.gains([("g0", 0.05), ("g1", 0.01)], 0.1)
    (axes,) = figure.axes
    assert [bar.get_width() for bar in axes.patches] == pytest.approx([5.0, 1.0])
    assert axes.yaxis_inverted()
    assert [text.get_text() for text in axes.texts] == ["5.00", "1.00"]
    assert "10 % faster" in axes.get_xlabel()


def test_no_gains_are_refused():
    with pytest.raises(InputError, match="no gains found"):
        figures.gains([], 0.1)
