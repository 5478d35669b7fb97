import pytest

from helpers.rooflines import BYTES, CURVE, FLOPS, model, seconds
from pipesim.architectures.efficiency import MATRIX_UNITS, ORDINARY_UNITS, Curve
from pipesim.architectures.roofline import roofline
from pipesim.base.errors import InputError
from pipesim.core.model import Layer


def test_along_a_curve_starting_computing_and_moving_add_up():
    """A fourth of a second of arithmetic; input 1, output 2, parameters 4, kept 9 - 1 beyond the input."""
    unit = int(BYTES / 64)
    data = Layer("data", unit, forward_flops=0.0)
    layer = Layer("fc", 2 * unit, parameter_bytes=4 * unit, stash_bytes=9 * unit, forward_flops=FLOPS / 4)
    trace = roofline(model(data, layer), ["v100-16gb"], efficiency=CURVE)
    moved = [15 / 64 * 4, 16 / 64 * 4, 7 / 64 * 4, 15 / 64 * 4]
    assert seconds(trace, 1) == [0.125 + 0.25 + move for move in moved]


def test_convolutions_have_a_rate_of_their_own():
    """At 0.8 of the peak 5/8 of the time at half of it."""
    layers = (Layer("conv", 0, kind=kind, inputs=(), forward_flops=FLOPS) for kind in ("conv", "cell", "mlp"))
    trace = roofline(model(*layers), ["v100-16gb"], efficiency=CURVE)
    assert [seconds(trace, index)[0] for index in range(3)] == pytest.approx([0.75, 0.75, 1.125], rel=1e-12)


@pytest.mark.parametrize("kind", ["pool", "add", "concat", "norm", "embedding"])
def test_what_has_no_products_takes_as_long_as_its_moves(kind):
    layer = Layer("small", int(BYTES), kind=kind, inputs=(), forward_flops=FLOPS)
    assert seconds(roofline(model(layer), ["v100-16gb"], efficiency=CURVE), 0)[0] == 0.125 + 4


def test_efficiency_rises_with_the_size_of_an_operation_and_with_its_flops_per_byte():
    """And stays below e, which it reaches in the limit."""
    reached = [
        [x / CURVE.seconds("mlp", x, x / intensity) for x in (0.01, 0.1, 1, 10, 1e9)] for intensity in (1, 10, 1e9)
    ]
    for row in [*reached, *zip(*reached, strict=True)]:
        assert list(row) == sorted(row)
        assert max(row) < CURVE.product
    assert reached[-1][-1] == pytest.approx(CURVE.product, rel=1e-6)


def test_the_curve_is_that_of_the_units_that_work_in_the_precision():
    layer = Layer("conv", 0, kind="conv", inputs=(), forward_flops=15.7e12)
    times = {}
    for precision in ("fp32", "tf32", "bf16"):
        trace = roofline(model(layer, precision=precision), ["a100-80gb"], efficiency="curve")
        times[precision] = seconds(trace, 0, "a100-80gb")[0]
    assert times["fp32"] == pytest.approx(ORDINARY_UNITS.start_s + 15.7 / 19.5 / ORDINARY_UNITS.convolution, rel=1e-12)
    assert times["tf32"] == pytest.approx(MATRIX_UNITS.start_s + 15.7 / 156 / MATRIX_UNITS.product, rel=1e-12)
    assert times["bf16"] == pytest.approx(MATRIX_UNITS.start_s + 15.7 / 312 / MATRIX_UNITS.product, rel=1e-12)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"product": 0.0}, "product = 0.0 found"),
        ({"memory": float("inf")}, "memory = inf found"),
        ({"convolution": float("nan")}, "convolution = nan found"),
        ({"start_s": -1.0}, "start_s = -1.0 found"),
    ],
)
def test_a_curve_that_means_nothing_is_refused(arguments, complaint):
    with pytest.raises(InputError, match=complaint):
        Curve(**{"product": 0.5, "convolution": 0.5, "memory": 0.5, "start_s": 0.0} | arguments)
