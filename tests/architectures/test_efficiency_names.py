import pytest

from pipesim.architectures.device_curves import CURVES, curve_of
from pipesim.architectures.efficiency import MATRIX_UNITS, ORDINARY_UNITS
from pipesim.architectures.efficiency_names import CONSTANTS, named
from pipesim.architectures.gpt import gpt
from pipesim.architectures.roofline import roofline
from pipesim.base.errors import InputError


def test_a_name_alone_is_the_curve_of_the_kind_or_of_all():
    assert named("device").on("a100-80gb", "fp16") == CURVES["a100"]["fp16"]
    assert named("curve").on("a100-80gb", "fp16") == MATRIX_UNITS
    assert named("curve").on("a100-80gb", "fp32") == named("device").on("a100-80gb", "fp32") == ORDINARY_UNITS


def test_constants_replace_those_of_the_curve_and_leave_the_others():
    changed = named("device(product=0.5, launch_s=0)").on("a100-80gb", "bf16")
    own = curve_of("a100-80gb", "bf16")
    assert (changed.product, changed.launch_s) == (0.5, 0)
    assert (changed.memory, changed.attention) == (own.memory, own.attention)
    assert named("curve(memory=0.5)").on("t4-16gb", "fp32").convolution == ORDINARY_UNITS.convolution


def test_every_constant_has_an_effect_on_some_time():
    """Heads of 20 values are not aligned; fused attention, a convolution."""
    from pipesim.architectures.resnet import resnet_50

    models = [gpt(1, 160, 8, sequence=64), gpt(1, 512, 8, sequence=512, fused_attention=True), resnet_50()]

    def times(efficiency):
        return [roofline(model, ["a100-80gb"], efficiency=efficiency).layers["forward_s"].sum() for model in models]

    for name, constants in CONSTANTS.items():
        for constant in constants:
            assert times(f"{name}({constant}=0.001)") != times(name), constant


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("line", "efficiency = 'line' found; device, curve or a number was expected"),
        ("device(produkt=0.7)", "no constant 'produkt'; did you mean 'product'"),
        ("curve(attention=0.7)", "no constant 'attention'"),
        ("device(product='much')", "product = 'much' found; a number was expected"),
        ("device(0.7)", r"constants are named, such as device\(product=0.72\)"),
    ],
)
def test_what_names_nothing_is_refused_with_what_to_type(text, complaint):
    with pytest.raises(InputError, match=complaint):
        named(text)


def test_a_constant_that_means_nothing_is_refused_where_it_is_used():
    with pytest.raises(InputError, match=r"product = 0.0 found"):
        roofline(gpt(1, 64, 4), ["a100-80gb"], efficiency="device(product=0)")
