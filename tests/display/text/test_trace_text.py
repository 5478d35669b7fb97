"""Traces as text."""

import numpy as np
import pytest

from helpers.small_traces import sampled_trace
from helpers.strategies import even_trace
from pipesim.display import text


def test_a_trace_is_shown_with_its_totals_and_layers():
    head, layers, *_ = text.trace(even_trace(4)).split("\n\n")
    assert "(4 layers)" in head
    assert "forward 4.000 ms, backward 8.000 ms" in head
    assert len(layers.splitlines()) == 1 + 2 + 4


def test_layers_left_out_are_counted():
    shown = text.trace(even_trace(4), 3)
    assert "... and 1 more layers (--all)" in shown


def test_the_noise_is_shown_where_there_are_samples():
    rng = np.random.default_rng(1)
    varied = text.trace(sampled_trace(rng.normal(1, 0.02, 8), rng.normal(1, 0.02, 8)))
    assert "forward noise" in varied
    assert "forward noise" not in text.trace(even_trace(4))


@pytest.mark.parametrize(
    ("missing", "note"), [({"output_bytes": 0}, "transfers between stages"), ({"parameter_bytes": 0}, "all-reduces")]
)
def test_missing_sizes_have_a_note(missing, note):
    found = "; ".join(text.trace_notes(even_trace(4, **missing)))
    assert note in found
    assert not any(note in one for one in text.trace_notes(even_trace(4)))
