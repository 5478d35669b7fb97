import pytest

from helpers.models import FIRST, SMALL, build, parameters
from pipesim.base.errors import InputError

PRESETS = [name for name in FIRST.values() if name not in SMALL]


def test_every_preset_builds_a_model_of_its_own_name_and_of_the_sizes_asked_for():
    for name in PRESETS:
        model = build(name, microbatch=2, precision="fp32")
        assert (model.name, model.microbatch_size, model.precision) == (name, 2, "fp32")
        assert len({layer.name for layer in model.layers}) == len(model)


def test_presets_check_their_arguments_too():
    for name in PRESETS:
        with pytest.raises(InputError, match="microbatch = 0 found"):
            build(name, microbatch=0)
        with pytest.raises(InputError, match="precision = 'int4' found"):
            build(name, precision="int4")


@pytest.mark.parametrize(("name", "most"), [("bert-large", 512), ("gpt2-xl", 1024), ("gpt3-6.7b", 2048)])
def test_sequences_longer_than_a_preset_knows_are_refused(name, most):
    assert parameters(build(name, sequence=1)) == parameters(build(name, sequence=most))
    with pytest.raises(InputError, match=f"sequence = {most + 1} found; at most positions = {most}"):
        build(name, sequence=most + 1)
