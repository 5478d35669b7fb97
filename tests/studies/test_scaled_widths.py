"""Times at widths that a trace was not timed at: by its model, or in proportion; refused where neither is right."""

import numpy as np
import pytest

import pipesim as ps
from pipesim.architectures.described import trace_called
from pipesim.architectures.team_links import TeamLink
from pipesim.base.errors import InputError, RefusedError
from pipesim.core.teams import Widths
from pipesim.studies.scaled_widths import is_scaled, scaled

LINK = TeamLink(100e9, 1e-6)
CLUSTER = 'flat({}, bandwidth="25GB/s", device="any", memory="1GB")'
TIMES = ("forward_s", "backward_input_s", "backward_weight_s", "recompute_s", "core_recompute_s")


def link_of(*_):
    return LINK


def by_hand(**columns):
    """Two layers of no model that is known."""
    layers = {
        "layer": [0, 1], "name": ["a", "b"], "forward_s": [4e-3, 8e-3], "backward_s": [8e-3, 16e-3],
        "output_bytes": [1000, 10], "parameter_bytes": [400, 800], "stash_bytes": [4000, 8000],
    }  # fmt: skip
    return ps.Trace("mine", "by hand", 1, layers | columns)


@pytest.mark.parametrize("sizes", [{}, {"sequence": 64, "microbatch": 2}])
def test_a_computed_trace_scaled_to_a_width_is_the_trace_computed_at_that_width(sizes):
    given = {"precision": "fp16", **sizes}
    narrow = trace_called("bert-large", ["v100-16gb"], given)
    wide = trace_called("bert-large", ["v100-16gb"], {**given, "tensor_parallel": 4}, team_link=LINK)
    found = scaled(ps.Trace(**{**vars(narrow), "sequence": sizes.get("sequence", 0)}), [Widths(4)], link_of)
    rows = found.rows_at(Widths(4))
    assert found.widths == (Widths(1), Widths(4))
    for name in TIMES:
        assert found.layers[name][rows] == pytest.approx(np.asarray(wide.layers[name]), rel=1e-12, nan_ok=True)
    for name in ("parameter_bytes", "stash_bytes", "core_stash_bytes", "output_bytes"):
        assert found.layers[name][rows].tolist() == wide.layers[name].tolist()
    assert "by computed times of bert-large" in found.notes[-1]


def test_recorded_seconds_keep_their_samples_and_take_the_ratio_of_computed_ones():
    narrow = trace_called("gpt2-xl", ["a100-40gb"], {"precision": "fp16", "microbatch": 1})
    twice = {name: np.tile(column, 2) for name, column in narrow.layers.items()}
    twice["sample"] = np.repeat([0, 1], len(narrow.layers["layer"]))
    twice["forward_s"] = np.concatenate([narrow.layers["forward_s"] * 3, narrow.layers["forward_s"] * 5])
    found = scaled(ps.Trace("gpt2-xl", "recorded", 1, twice, precision="fp16"), [Widths(5)], link_of)
    wide = trace_called("gpt2-xl", ["a100-40gb"], {"precision": "fp16", "tensor_parallel": 5}, team_link=LINK)
    forward = np.asarray(wide.layers["forward_s"])
    rows = found.rows_at(Widths(5))
    assert found.layers["forward_s"][rows] == pytest.approx(np.concatenate([forward * 3, forward * 5]), rel=1e-12)


def test_a_trace_of_no_known_model_is_divided_and_its_context_leaves_parameters_whole():
    found = scaled(by_hand(), [Widths(2), Widths(2, 2)], link_of)
    for widths, times, parameters in ((Widths(2), 2, 2), (Widths(2, 2), 4, 2)):
        rows = found.rows_at(widths)
        assert found.layers["forward_s"][rows].tolist() == [4e-3 / times, 8e-3 / times]
        assert found.layers["backward_s"][rows].tolist() == [8e-3 / times, 16e-3 / times]
        assert found.layers["stash_bytes"][rows].tolist() == [4000 / times, 8000 / times]
        assert found.layers["parameter_bytes"][rows].tolist() == [400 / parameters, 800 / parameters]
        assert found.layers["output_bytes"][rows].tolist() == [1000, 10]
    assert all("in proportion and without exchanges of the team" in note for note in found.notes)


def test_a_model_of_other_sizes_than_its_name_is_scaled_in_proportion():
    other = trace_called("bert-large", ["v100-16gb"], {"precision": "fp16", "sequence": 64})
    assert "in proportion" in scaled(ps.Trace(**{**vars(other), "sequence": 0}), [Widths(2)], link_of).notes[-1]


def test_widths_that_were_timed_stay_as_they_are():
    assert scaled(by_hand(), [Widths()], link_of) is not None
    assert not is_scaled(scaled(by_hand(tensor=[4, 4]), [Widths(4)], link_of))


def test_experts_are_not_scaled():
    with pytest.raises(RefusedError, match="expert = 2 found; the trace of 'mine' was timed at 1"):
        scaled(by_hand(), [Widths(expert=2)], link_of)


def test_a_width_that_the_model_cannot_be_divided_by_is_refused():
    trace = trace_called("bert-large", ["v100-16gb"], {"precision": "fp16"})
    with pytest.raises(InputError, match="tensor_parallel = 3 found"):
        scaled(trace, [Widths(3)], link_of)


def test_a_simulation_scales_when_it_is_asked_to_and_the_refusal_names_that():
    with pytest.raises(InputError, match=r"or scale the times that there are: --scale-widths \(scale_widths=True\)"):
        ps.simulate(by_hand(), CLUSTER.format(4), tensor=2, pipeline=2)
    result = ps.simulate(by_hand(), CLUSTER.format(4), tensor=2, pipeline=2, microbatches=2, scale_widths=True)
    halves = ps.simulate(by_hand(), CLUSTER.format(2), pipeline=2, microbatches=2)
    assert result.iteration_time == pytest.approx(halves.iteration_time / 2, rel=1e-3)
    data = result.as_data()
    assert data["origin"].endswith("recorded, scaled to tensor width 2")
    assert any("times at tensor width 2 are scaled" in note for note in data["notes"])


def test_a_bundled_trace_is_scaled_and_not_computed_where_that_is_asked_for():
    cluster = 'servers(1, 4, "50GB/s", "10GB/s", device="v100-16gb")'
    result = ps.simulate("bert-large", cluster, tensor=2, pipeline=2, scale_widths=True)
    assert result.origin.startswith(
        "bundled trace bert-large (v100-16gb), computed from data sheets at 0.5 of the peak, "
    )
    assert result.origin.endswith("scaled to tensor width 2")
    with pytest.raises(InputError, match="scale_widths has no effect: 'bert-large' is computed"):
        ps.simulate("model:bert-large", cluster, tensor=2, pipeline=2, scale_widths=True)
