import importlib.util
import sys

import pytest

from helpers.places import DATA, ROOT, needs_data
from pipesim.architectures.device_curves import CURVES, DeviceCurve, Speed, curve_of
from pipesim.architectures.team_links import NCCL_EFFICIENCY, NCCL_STEP_S
from pipesim.base.errors import InputError
from pipesim.core.devices import DEVICE_KINDS, device_kind
from pipesim.core.work import Attention, Kernels, Product

CURVE = DeviceCurve(product=0.5, attention=0.25, memory=0.5, launch_s=1e-6)
A100 = device_kind("a100-80gb")  # 312 TFLOP/s, 2039 GB/s
SPEED = Speed.of(CURVE, A100, "fp16", 2)
PHASES = ("forward", "backward_input", "backward_weight")


def times(operation):
    return [SPEED.seconds(operation, phase) for phase in PHASES]


def test_a_large_product_takes_its_flops_and_each_gradient_as_many():
    large = Product(8192, 8192, 8192)
    assert times(large) == pytest.approx([1e-6 + 2 * 8192**3 / 156e12] * 3, rel=1e-9)


def test_a_flat_product_takes_its_bytes_and_its_gradient_is_added_in_fp32():
    """4096 x 1 by 1 x 4096: next to no FLOPs."""
    flat = Product(1, 4096, 4096)
    moved = 2 * (4096 + 4096**2 + 4096)
    assert times(flat)[:2] == pytest.approx([1e-6 + moved / 1019.5e9] * 2, rel=1e-9)
    assert times(flat)[2] == pytest.approx(1e-6 + (moved + 6 * 4096**2) / 1019.5e9, rel=1e-9)


def test_a_product_of_activations_has_two_gradients_of_inputs_and_none_of_weights():
    scores = Product(4096, 4096, 4096, count=3, weights=False)
    forward, of_inputs, of_weights = times(scores)
    assert of_inputs == 2 * forward
    assert of_weights == 0


def test_causal_attention_takes_half_and_its_gradient_five_halves():
    whole, half = (Attention(64, 4096, 4096, 128, 128, causal=causal) for causal in (False, True))
    flops = 2 * 64 * 4096 * 4096 * 256
    assert times(whole) == pytest.approx([1e-6 + flops / 78e12, 1e-6 + 2.5 * flops / 78e12, 0], rel=1e-9)
    assert times(half)[0] == pytest.approx(1e-6 + flops / 2 / 78e12, rel=1e-9)


def test_kernels_take_their_bytes_and_a_launch_each():
    kernels = Kernels(1e9, 2e9, 3e9, forward_count=1, backward_count=2, weight_count=3)
    assert times(kernels) == pytest.approx([(n * 1e9) / 1019.5e9 + n * 1e-6 for n in (1, 2, 3)], rel=1e-9)
    assert times(Kernels(forward_count=0, backward_count=0)) == [0, 0, 0]


def test_in_fp8_only_products_with_weights_are_in_fp8():
    h100 = device_kind("h100-80gb")
    speed = Speed.of(CURVE, h100, "fp8", 2)
    weights, scores = (Product(8192, 8192, 8192, weights=weights) for weights in (True, False))
    assert speed.seconds(weights, "forward") == pytest.approx(1e-6 + 2 * 8192**3 / (h100.peak["fp8"] / 2), rel=1e-9)
    assert speed.seconds(scores, "forward") == pytest.approx(1e-6 + 2 * 8192**3 / (h100.peak["bf16"] / 2), rel=1e-9)


def test_every_kind_has_a_curve_and_says_whether_it_was_fitted_on_it():
    for name, kind in DEVICE_KINDS.items():
        for precision in kind.peak:
            curve = curve_of(name, precision)
            if precision in {"fp32", "tf32"}:
                assert curve is None
            else:
                generation = name.partition("-")[0]
                own = CURVES.get(generation, {}).get(precision)
                assert (curve.origin == "fitted") == (own is not None and own.origin == "fitted")
                assert curve.source


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"product": 0.0}, "product = 0.0 found"),
        ({"memory": float("inf")}, "memory = inf found"),
        ({"attention": float("nan")}, "attention = nan found"),
        ({"launch_s": -1.0}, "launch_s = -1.0 found"),
    ],
)
def test_constants_that_mean_nothing_are_refused(arguments, complaint):
    with pytest.raises(InputError, match=complaint):
        DeviceCurve(**{"product": 0.5, "attention": 0.5, "memory": 0.5, "launch_s": 0.0} | arguments)


def test_heads_whose_rows_are_no_multiples_of_16_bytes_are_slow():
    """Scores of 150 values in fp16: rows of 300 bytes; a product with weights is padded by libraries."""
    aligned, odd = (Product(4096, 4096, width, count=64, weights=False) for width in (152, 150))
    assert SPEED.seconds(odd, "forward") > 20 * SPEED.seconds(aligned, "forward")
    context = Product(4096, 150, 4096, count=64, weights=False)
    assert SPEED.seconds(context, "forward") == pytest.approx(SPEED.seconds(odd, "forward"), rel=1e-3)
    vocabulary = [SPEED.seconds(Product(4096, words, 4096), "forward") for words in (50257, 50264)]
    assert vocabulary[0] == pytest.approx(vocabulary[1], rel=1e-3)


@pytest.fixture(scope="module")
def experiment():
    """The script that fits the constants, which imports its neighbour."""
    needs_data(DATA / "measured")
    folder = ROOT / "experiments" / "efficiency"
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        spec = importlib.util.spec_from_file_location("fit_devices", folder / "run.py")
        module = importlib.util.module_from_spec(spec)
        patch.setitem(sys.modules, "fit_devices", module)
        spec.loader.exec_module(module)
        yield module


@pytest.mark.docs
@pytest.mark.parametrize(
    ("device", "precision"),
    [("a100", "bf16"), ("v100", "fp16"), ("v100-sxm3", "fp16"), ("b200", "bf16"), ("h100 fp8", "fp8")],
)
def test_the_constants_are_those_that_the_experiment_fits_and_its_readme_shows(experiment, device, precision):
    curve = experiment.rounded(experiment.DEVICES[device]().fitted().curve)
    assert str(curve) == str(CURVES[device.partition(" ")[0]][precision])
    assert f"constants: {curve}, unaligned = {curve.unaligned:g}." in (
        ROOT / "experiments" / "efficiency" / "README.md"
    ).read_text(encoding="utf-8")


def test_collectives_reach_the_part_that_the_experiment_fits(experiment):
    part, step, error = experiment.nccl()
    assert (round(part, 2), round(step, 7)) == (NCCL_EFFICIENCY, NCCL_STEP_S)
    assert error < 0.06


def test_a_kind_takes_the_constants_with_the_longest_name_that_begins_its_own():
    assert curve_of("v100-sxm3-32gb", "fp16") == CURVES["v100-sxm3"]["fp16"]
    assert curve_of("v100-32gb", "fp16") == CURVES["v100"]["fp16"]


def test_h100s_in_16_bits_have_the_products_of_a100s_in_the_ratio_of_the_largest_published_and_are_not_called_fitted():
    curve = curve_of("h100-80gb", "bf16")
    assert curve.product == pytest.approx(CURVES["a100"]["bf16"].product * 0.803 / 0.869, abs=0.005)
    assert (curve.origin, curve_of("h200-141gb", "bf16").product) == ("nearest", curve.product)
