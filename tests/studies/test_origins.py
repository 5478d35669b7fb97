"""A result says where its times are from."""

from dataclasses import replace

import pytest

import pipesim as ps
from pipesim.studies.results import SimulationResult

LINK = 'bandwidth="25GB/s"'


@pytest.mark.parametrize(
    ("trace", "cluster", "more", "said"),
    [
        ("gpt-small-cpu", f"flat(2, {LINK})", {}, "bundled trace gpt-small-cpu (cpu), recorded"),
        (
            "bert-large", "dgx1_v100", {},
            "bundled trace bert-large (v100-16gb), computed from data sheets at 0.5 of the peak",
        ),
        (
            "model:bert-large", "dgx1_v100", {},
            "bert-large computed from data sheets for v100-16gb (fitted constants)",
        ),
        (
            "bert-large", "hgx_h100(1)", {"tensor": 8},
            "bert-large computed from data sheets for h100-80gb at tensor width 8 (constants of a100)",
        ),
        (
            "model:bert-large", "dgx_a100(1)", {"efficiency": 0.4},
            "bert-large computed from data sheets for a100-40gb (at 0.4 of the peak)",
        ),
        (
            "model:bert-large", "dgx_a100(1)", {"efficiency": "device(product=0.6)"},
            "bert-large computed from data sheets for a100-40gb (efficiency device(product=0.6))",
        ),
    ],
)  # fmt: skip
def test_a_headline_says_which_trace_or_model_was_used_and_how_its_times_were_made(trace, cluster, more, said):
    assert ps.find_plan(trace, cluster, **more).origin == said


def test_a_trace_of_a_folder_is_named_by_it(tmp_path):
    ps.load_trace("gpt-small-cpu").save(tmp_path / "mine")
    result = ps.simulate(tmp_path / "mine", f"flat(2, {LINK})", microbatches=1)
    assert result.origin == f"trace {tmp_path / 'mine'} (cpu), recorded"
    assert result.as_data()["origin"] == result.origin


def test_an_architecture_is_computed():
    found = ps.find_plan(architecture="gpt-6.7b", cluster=f'flat(2, {LINK}, device="a100-80gb")')
    assert found.origin.startswith("gpt3-6.7b computed from data sheets for a100-80gb")


def test_notes_are_those_of_the_trace_and_of_the_plan():
    result = ps.simulate("model:bert-large", "dgx_a100(1)", microbatches=2)
    assert result.as_data()["notes"] == list(result.notes)
    assert any("computed from data sheets, not recorded" in note for note in result.notes)
    changed = SimulationResult(replace(result.setup, notes=("the plan was changed",)), result.timeline)
    assert changed.notes[-1] == "the plan was changed"
