"""All formats of layouts: text is recognised, and damaged text is a layout or an error."""

import random

import pytest

from helpers.layouts import random_layout, random_stages, spoilt
from pipesim.base.errors import InputError, PipesimError
from pipesim.frameworks.layout_formats import FORMATS, format_named, format_of
from pipesim.frameworks.training_layout import TrainingLayout

SIMPLE = TrainingLayout(
    ("Ettt", "ttt", "tttL"), pipeline=3, data=2, microbatch_size=1, microbatches=4, gradient_overlap=True
)
PARTED = TrainingLayout(("Etttt", "ttttL"), pipeline=2, data=2, microbatch_size=1, microbatches=4)


@pytest.mark.parametrize("name", FORMATS)
def test_what_a_format_writes_is_recognised_as_it(name):
    layout = PARTED if name == "deepspeed" else SIMPLE
    assert format_of(FORMATS[name].write(layout, None)) == name


@pytest.mark.parametrize("name", FORMATS)
def test_damaged_text_is_a_layout_or_an_error(name):
    rng = random.Random(name)
    outcomes = set()
    for _ in range(150):
        layout = PARTED if name == "deepspeed" else SIMPLE if name == "torchtitan" else random_layout(rng)
        if "(" in layout.scheduler and name == "torch":
            layout = SIMPLE
        text = spoilt(rng, FORMATS[name].write(layout, None))
        outcome = "read"
        try:
            assert FORMATS[name].read(text, None, rng.choice([None, 8])).stages
        except PipesimError:
            outcome = "refused"
        outcomes.add(outcome)
    assert outcomes == {"read", "refused"}


def test_layouts_go_from_format_to_format():
    rng = random.Random(5)
    for _ in range(30):
        layout = TrainingLayout(
            random_stages(rng, 4, 2), pipeline=4, data=2, scheduler="interleaved", microbatch_size=1, microbatches=8,
            gradient_overlap=True,
        )  # fmt: skip
        for name in ("megatron", "torchtitan", "torch", "megatron-bridge"):
            layout = FORMATS[name].read(FORMATS[name].write(layout, None), None, None)
        assert layout.microbatches == 8
        assert layout.differences(FORMATS["megatron"].read(FORMATS["megatron"].write(layout, None), None, None)) == []


def test_frameworks_have_other_names():
    assert [format_named(name) for name in ("Megatron-LM", "NeMo", "pytorch")] == [
        "megatron",
        "megatron-bridge",
        "torch",
    ]
    with pytest.raises(InputError, match="did you mean 'megatron'"):
        format_named("megatrom")
    with pytest.raises(InputError, match="no layout found"):
        format_of("nothing of that")
