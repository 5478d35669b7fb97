"""Which trace and cluster a simulation describes: recorded, bundled or computed; of which kind of device."""

import json
from dataclasses import replace

import numpy as np
import pytest

import pipesim as ps
from pipesim.base.errors import InputError
from pipesim.core.program import ACTIVATION
from pipesim.studies.simulation import Simulation
from pipesim.studies.sources import cluster_of, model_named, trace_of

LINK = 'bandwidth="25GB/s"'


def traced(trace, cluster, **more):
    described = Simulation(trace=trace, cluster=cluster, **more)
    return trace_of(described, cluster_of(described))


def test_a_model_is_computed_for_the_kinds_and_widths_of_the_cluster():
    trace = traced("llama3-8b", "hgx_h100(1)", tensor=4)
    assert trace.source == "roofline"
    assert (trace.device_kinds, [widths.tensor for widths in trace.widths]) == (("h100-80gb",), [4])
    assert "computed from data sheets" in trace.notes[0]


def test_a_bundled_trace_is_used_where_it_has_times_for_the_cluster():
    recorded = ps.load_trace("bert-large")
    assert traced("bert-large", f'flat(2, {LINK}, device="v100-16gb")').same_as(recorded)
    assert not traced("bert-large", "hgx_h100(1)").same_as(recorded)
    assert not traced("model:bert-large", f'flat(2, {LINK}, device="v100-16gb")').same_as(recorded)


def test_widths_that_a_bundled_trace_was_not_timed_at_are_computed():
    assert traced("bert-large", "dgx_a100(1)", tensor=2).widths[0].tensor == 2


def test_a_model_on_a_cluster_that_names_no_kind_asks_for_one():
    with pytest.raises(InputError, match="say which with device="):
        traced("llama3-8b", f"flat(2, {LINK})")
    assert traced("llama3-8b", f"flat(2, {LINK})", device="h100-80gb").device_kinds == ("h100-80gb",)


def test_a_cluster_takes_the_only_kind_of_its_trace():
    """Topologies that are no machine have V100s by default: traces of a single other kind were refused."""
    described = Simulation(trace="gpt-small-cpu", cluster=f"flat(2, {LINK})")
    assert {device.kind for device in cluster_of(described).devices} == {"cpu"}
    assert ps.simulate(described).iteration_time > 0


def test_a_cluster_that_names_its_kind_keeps_it():
    described = Simulation(trace="gpt-small-cpu", cluster=f'flat(2, {LINK}, device="v100-16gb")')
    assert {device.kind for device in cluster_of(described).devices} == {"v100-16gb"}


def test_a_config_of_hugging_face_is_a_model(tmp_path):
    config = {
        "model_type": "llama", "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 4,
        "num_attention_heads": 4, "num_key_value_heads": 4, "vocab_size": 1000, "max_position_embeddings": 512,
    }  # fmt: skip
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    assert model_named(str(path)) == str(path)
    assert model_named(str(tmp_path)) == str(tmp_path)
    assert traced(str(path), "hgx_h100(1)").source == "roofline"


@pytest.mark.parametrize("name", ["context", "expert"])
def test_widths_that_cannot_be_computed_are_refused_by_name(name):
    with pytest.raises(ps.PipesimError, match=f"{name} = 2 found"):
        traced("llama3-8b", "hgx_h100(1)", **{name: 2})


@pytest.mark.parametrize(("name", "value"), [("sequence", 512), ("precision", "bf16"), ("efficiency", 0.5)])
def test_what_only_models_take_is_refused_with_a_bundled_trace(name, value):
    with pytest.raises(InputError, match=f"{name} has no effect"):
        traced("bert-large", f'flat(2, {LINK}, device="v100-16gb")', **{name: value})


def test_stages_of_a_plan_may_have_teams_of_different_widths():
    """The model is computed at each width; where a cut lies between two widths, tensors are divided anew."""
    cluster = ps.load_cluster("hgx_h100(2)")
    plan = ps.make_plan("llama3-8b", "hgx_h100(2)", tensor=8, pipeline=2, data=1, microbatches=4)
    first, second = plan.stages
    half = tuple(f"node1.gpu{n}" for n in range(4))
    mixed = replace(plan, stages=(first, replace(second, devices=half[:1])), teams=(plan.teams[0], half))
    result = ps.simulate("llama3-8b", cluster, plan=mixed)
    result.timeline.verify()
    assert [result.setup.plan.widths(n).tensor for n in range(2)] == [8, 4]
    program = result.timeline.program
    sent = program.size[(program.kind == ACTIVATION) & (program.microbatch == 0)]
    assert sent.tolist() == [result.setup.costs.model.layers[second.start - 1].output_bytes] * 4  # each receiver all
    assert len(program.devices) == 2


def test_a_trace_recorded_at_an_expert_width_is_simulated_at_it():
    """No model is computed at one; rows that were recorded at it state it."""
    trace = ps.load_trace("bert-large")
    wide = replace(trace, layers=trace.layers | {"expert": np.full(len(trace.layers["layer"]), 4)})
    cluster = f'flat(2, {LINK}, device="v100-16gb")'
    assert ps.simulate(wide, cluster).iteration_time == ps.simulate(trace, cluster).iteration_time
    assert ps.simulate(wide, cluster, expert=4).setup.costs.widths.expert == 4
    with pytest.raises(InputError, match="was timed at: expert width 4; expert width 2 found"):
        ps.simulate(wide, cluster, expert=2)


def test_a_name_of_a_trace_and_a_model_at_other_widths_asks_for_the_kind_of_device():
    with pytest.raises(InputError, match=r"say which with device=\.\.\."):
        traced("bert-large", f"flat(4, {LINK})", tensor=2)
    assert traced("bert-large", f"flat(4, {LINK})", tensor=2, device="h100-80gb").widths[0].tensor == 2
