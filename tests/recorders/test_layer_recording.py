from types import SimpleNamespace

import numpy as np
import pytest

from helpers.recorded_links import columns
from pipesim.base.errors import RefusedError
from pipesim.recorders import layer_recording
from pipesim.recorders.measuring import Measurements


def test_a_column_that_scatters_is_emptied_for_its_layer_with_its_partner():
    steady, wild = [1.0, 1.0, 1.0, 1.0], [1.0, 2.0, 3.0, 4.0]
    both = np.array([steady, wild]).T
    even = np.array([steady, steady]).T
    measured = Measurements(
        columns(forward_s=both, backward_s=both, backward_input_s=both, backward_weight_s=even, recompute_s=even),
        np.ones(4),
        {},
        [],
    )
    found = layer_recording._blank_scattered(SimpleNamespace(names=("a", "b")), measured, 4)
    assert [(one.what, one.layers) for one in found] == [("backward_input_s", ("b",)), ("backward_weight_s", ("b",))]
    for name in ("backward_input_s", "backward_weight_s"):
        assert not np.isnan(measured.columns[name][:, 0]).any()
        assert np.isnan(measured.columns[name][:, 1]).all()
    assert not np.isnan(measured.columns["forward_s"]).any(), "a forward is never left out"


@pytest.mark.parametrize(("reference", "passes"), [(3.1, True), (3.2, False), (2.9, True), (2.8, False)])
def test_layers_that_are_off_by_more_than_five_percent_are_refused(reference, passes):
    """Two layers of 0.5 + 1 s: three seconds in all, against what the model takes as it is."""
    measured = Measurements(columns(forward_s=[[0.5, 0.5]], backward_s=[[1, 1]]), np.array([reference]), {}, [])
    if passes:
        assert layer_recording._checked(measured, 4, 0.05).difference == pytest.approx(3 / reference - 1)
    else:
        with pytest.raises(RefusedError, match=r"do not add up: .*within 5% was expected"):
            layer_recording._checked(measured, 4, 0.05)


def test_both_parts_of_backwards_are_stated_over_whole_ones_where_they_were_measured():
    both = columns(
        forward_s=[[0.5, 0.5]], backward_s=[[1, 1]], backward_input_s=[[0, 0.6]], backward_weight_s=[[1.1, 0.5]]
    )
    found = layer_recording._checked(Measurements(both, np.array([3.0]), {}, []), 4, 0.05)
    assert found.split == pytest.approx(1.1)
    whole = columns(forward_s=[[0.5, 0.5]], backward_s=[[1, 1]])
    assert layer_recording._checked(Measurements(whole, np.array([3.0]), {}, []), 4, 0.05).split is None
