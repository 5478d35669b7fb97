import dataclasses
import importlib.util

import pytest

from helpers.places import PROFILES, ROOT, needs_data
from helpers.rooflines import BYTES, CURVE, FLOPS, model, seconds
from pipesim import load_cluster
from pipesim.architectures import ARCHITECTURES
from pipesim.architectures.device_curves import DeviceCurve, Speed
from pipesim.architectures.efficiency import MATRIX_UNITS, ORDINARY_UNITS
from pipesim.architectures.gpt import gpt
from pipesim.architectures.resnet import resnet
from pipesim.architectures.roofline import roofline
from pipesim.architectures.team_links import TeamLink, team_link
from pipesim.base import lookup
from pipesim.base.errors import InputError, UnknownNameError
from pipesim.core.costs import costs_of
from pipesim.core.devices import device_kind
from pipesim.core.model import Layer, model_of
from pipesim.core.trace import Trace

BY_OPERATION = DeviceCurve(product=0.5, attention=0.4, memory=0.8, launch_s=5e-6)
EXPERIMENT = ROOT / "experiments" / "roofline"


def build(text, **arguments):
    return lookup.resolve(text, ARCHITECTURES, "architecture")(**arguments)


DATA = Layer("data", 9_000, forward_flops=0.0)


def test_a_compute_bound_layer_takes_its_flops_at_half_of_the_peak():
    """A quarter of a second of arithmetic, 0.2 microseconds of traffic at most."""
    layer = Layer("fc", 18_000, parameter_bytes=36_000, stash_bytes=9_000, forward_flops=FLOPS / 4)
    trace = roofline(model(DATA, layer), ["v100-16gb"])
    assert seconds(trace, 1) == [0.25, 0.25, 0.25, 0.25]


def test_a_memory_bound_layer_takes_its_bytes_at_the_memory_bandwidth():
    """Input 1, output 2, parameters 4 and kept 9 (of them the input 1) seconds of traffic; next to no arithmetic."""
    unit = int(BYTES)
    data = Layer("data", unit, forward_flops=0.0)
    layer = Layer("fc", 2 * unit, parameter_bytes=4 * unit, stash_bytes=9 * unit, forward_flops=1.0)
    forward = 1 + 4 + 2 + (9 - 1)  # input, parameters, output, what is kept beyond the input
    of_input = 2 + 4 + 9 + 1  # output's gradient, parameters, what is kept, input's gradient
    of_weights = 2 + 1 + 4  # output's gradient, input, parameters' gradient
    assert seconds(roofline(model(data, layer), ["v100-16gb"]), 1) == [forward, of_input, of_weights, forward]


def test_a_layer_that_keeps_less_than_its_input_writes_only_its_output():
    unit = int(BYTES)
    data = Layer("data", unit, forward_flops=0.0)
    layer = Layer("relu", unit, stash_bytes=unit // 2, forward_flops=1.0)
    assert seconds(roofline(model(data, layer), ["v100-16gb"]), 1)[0] == 2


def test_a_sum_reads_and_has_gradients_for_all_its_inputs_and_none_for_weights():
    """Inputs of 1 and 3 seconds of traffic, output 3, nothing kept."""
    unit = int(BYTES)
    layers = (
        Layer("a", unit, forward_flops=0.0),
        Layer("b", 3 * unit, forward_flops=0.0),
        Layer("add", 3 * unit, inputs=(0, 1), forward_flops=1.0),
    )
    assert seconds(roofline(model(*layers), ["v100-16gb"]), 2) == [1 + 3 + 3, 3 + 1 + 3, 0, 1 + 3 + 3]


def test_a_layer_that_reads_data_has_no_gradient_of_the_input():
    first = Layer("conv", 9_000, parameter_bytes=18, forward_flops=FLOPS)
    later = Layer("conv", 9_000, parameter_bytes=18, inputs=(), forward_flops=FLOPS)
    trace = roofline(model(first, later), ["v100-16gb"])
    assert seconds(trace, 0) == seconds(trace, 1) == [1, 0, 1, 1]


def test_an_embedding_reads_the_rows_it_looks_up_and_writes_a_dense_gradient():
    """A table of 50 seconds of traffic, of which rows of 2 seconds are looked up."""
    unit = int(BYTES)
    layer = Layer("words", 2 * unit, parameter_bytes=50 * unit, kind="embedding", forward_flops=1.0)
    assert seconds(roofline(model(layer), ["v100-16gb"]), 0) == [2 + 2, 0, 2 + 50, 2 + 2]


def test_a_tied_head_works_with_the_matrix_of_the_embedding():
    tied, untied = (
        roofline(gpt(1, 1024, 8, sequence=2, tied=tied), ["v100-16gb"], efficiency=1) for tied in (True, False)
    )
    positions = 2 * 1024 * 2 / BYTES  # the tied head reads the embedding's position table along
    assert seconds(tied, 4) == pytest.approx([time + positions for time in seconds(untied, 4)], rel=1e-9)
    assert seconds(tied, 4)[2] > 50257 * 1024 * 2 / BYTES
    assert tied.layers["parameter_bytes"][4] == 0


def test_a_second_embedding_looks_up_in_the_table_of_the_first_and_adds_its_gradient_to_it():
    """A table of 50 seconds of traffic, of which rows of 2 seconds are looked up, as if it were its own."""
    unit = int(BYTES)
    first = Layer("words", 2 * unit, parameter_bytes=50 * unit, kind="embedding", forward_flops=1.0)
    second = Layer("more", 2 * unit, kind="tied_embedding", inputs=(), forward_flops=1.0)
    trace = roofline(model(first, second), ["v100-16gb"])
    assert seconds(trace, 1) == seconds(trace, 0) == [2 + 2, 0, 2 + 50, 2 + 2]


def test_efficiency_speeds_up_arithmetic_and_not_memory():
    unit = int(BYTES)
    work = Layer("work", 18, parameter_bytes=18, forward_flops=FLOPS)
    move = Layer("move", unit, inputs=(0,), stash_bytes=0, forward_flops=1.0)
    half, full = (roofline(model(DATA, work, move), ["v100-16gb"], efficiency=share) for share in (0.5, 1.0))
    assert seconds(half, 1)[0] == 2 * seconds(full, 1)[0] == 1
    assert seconds(half, 2) == seconds(full, 2)


def test_the_peak_is_that_of_the_precision():
    """A V100 does 15.7 TFLOP/s in fp32."""
    layer = Layer("fc", 18, parameter_bytes=18, forward_flops=15.7e12)
    assert seconds(roofline(model(layer, precision="fp32"), ["v100-16gb"]), 0)[0] == pytest.approx(2, rel=1e-12)


def test_one_trace_holds_several_device_kinds():
    resnet_50 = resnet((3, 4, 6, 3), microbatch=8)
    trace = roofline(resnet_50, ["a100-40gb", "v100-16gb"])
    assert trace.device_kinds == ("a100-40gb", "v100-16gb")
    assert len(trace.layers["layer"]) == 2 * len(resnet_50)
    costs = costs_of(trace)
    for phase in ("forward", "backward", "backward_input", "backward_weight"):
        fast, slow = costs.seconds(phase, "a100-40gb"), costs.seconds(phase, "v100-16gb")
        assert (fast <= slow).all()
        assert fast.sum() < slow.sum()
    alone = costs_of(roofline(resnet_50, ["v100-16gb"]))
    assert (alone.forward("v100-16gb") == costs.forward("v100-16gb")).all()


def test_the_gradients_together_are_the_whole_backward():
    costs = costs_of(roofline(gpt(2, 64, 4, sequence=32), ["h100-80gb"]))
    whole, of_input, of_weights = (
        costs.seconds(phase, "h100-80gb") for phase in ("backward", "backward_input", "backward_weight")
    )
    assert (whole == of_input + of_weights).all()
    assert costs.weight_share is None


@pytest.mark.parametrize("original", [gpt(2, 24, 4, sequence=16, microbatch=3), resnet((1, 1, 1, 1), image=32)])
def test_a_trace_gives_back_the_model_it_was_made_of(original, tmp_path):
    trace = roofline(original, ["v100-16gb", "h100-80gb"], command="by hand")
    trace.save(tmp_path / "trace")
    loaded = Trace.load(tmp_path / "trace")
    assert loaded.same_as(trace)
    assert loaded.command == "by hand"
    assert model_of(loaded) == original


def test_a_layer_without_inputs_is_told_from_one_that_reads_the_layer_before():
    layers = (DATA, dataclasses.replace(DATA, name="more", inputs=()), dataclasses.replace(DATA, name="last"))
    trace = roofline(model(*layers), ["v100-16gb"])
    assert trace.layers["inputs"].tolist() == ["", "-", ""]
    assert model_of(trace) == model(*layers)


def test_a_trace_says_that_nothing_was_recorded_and_which_numbers_were_used():
    trace = roofline(model(DATA), ["v100-16gb"], efficiency=0.4)
    assert trace.source == "roofline"
    assert trace.machine == (
        "none: calculated from data sheets at 0.4 of the peak (v100-16gb: 125 TFLOP/s fp16, 900 GB/s)"
    )
    assert trace.precision == "fp16"


@pytest.mark.parametrize("efficiency", [0, -0.5, 1.01, float("nan")])
def test_an_efficiency_outside_0_to_1_is_refused(efficiency):
    with pytest.raises(InputError, match=r"efficiency = .* found; more than 0, at most 1"):
        roofline(model(DATA), ["v100-16gb"], efficiency=efficiency)


def test_an_unknown_device_kind_is_refused_with_the_nearest_name():
    with pytest.raises(UnknownNameError, match=r"unknown device kind 'v100-61gb'; did you mean 'v100-16gb'\?"):
        roofline(model(DATA), ["v100-61gb"])


@pytest.mark.parametrize("kinds", [[], ["v100-16gb", "v100-16gb"]])
def test_device_kinds_must_be_named_once_each(kinds):
    with pytest.raises(InputError, match=r"device_kinds = .* at least one was expected, each named once"):
        roofline(model(DATA), kinds)


def test_a_precision_without_peak_is_refused():
    with pytest.raises(
        InputError, match="precision = 'int8' found; the data sheet of v100-16gb states a peak for fp32"
    ):
        roofline(model(DATA, precision="int8"), ["v100-16gb"])


def test_a_layer_without_flops_is_refused_by_its_name():
    with pytest.raises(InputError, match=r"layer 1 \('mystery'\) does not state its FLOPs"):
        roofline(model(DATA, Layer("mystery", 8)), ["v100-16gb"])


def test_along_a_curve_what_is_not_done_takes_no_time():
    first = Layer("conv", 9_000, parameter_bytes=18, kind="conv", forward_flops=FLOPS)
    pool = Layer("pool", 9_000, kind="pool", forward_flops=FLOPS)
    trace = roofline(model(first, pool), ["v100-16gb"], efficiency="curve")
    assert seconds(trace, 0)[1] == 0
    assert seconds(trace, 1)[2] == 0


def test_a_trace_says_along_which_curve_it_was_made():
    trace = roofline(model(DATA), ["v100-16gb"], efficiency=CURVE)
    assert trace.machine == (
        "none: calculated from data sheets along the efficiency curve e = 0.5 (products) and 0.8 (convolutions), "
        "m = 0.25, start = 125000 us (v100-16gb: 125 TFLOP/s fp16, 900 GB/s)"
    )
    assert trace.source == "roofline"


def test_an_efficiency_of_another_name_is_refused():
    with pytest.raises(InputError, match=r"efficiency = 'line' found; device, curve or a number was expected"):
        roofline(model(DATA), ["v100-16gb"], efficiency="line")


def test_tensor_parallel_devices_add_up_outputs_and_the_gradients_of_inputs():
    """A ring of 4 moves 3/2 of the bytes over the 150 GB/s of a V100; weights' gradients stay where they are."""
    made = gpt(2, 64, 4, sequence=32, microbatch=3, tensor_parallel=4)
    alone = roofline(made, ["v100-16gb"])
    shared = roofline(made, ["v100-16gb"], tensor_parallel=4)
    ring = 1.5 * (3 * 32 * 64 * 2) / 150e9
    more = [[b - a for a, b in zip(seconds(alone, i), seconds(shared, i), strict=True)] for i in range(len(made))]
    embedding, blocks, norm, head = more[0], more[1:-2], more[-2], more[-1]
    assert embedding == pytest.approx([ring, 0, 0, ring], abs=1e-12)
    assert norm == [0, 0, 0, 0]
    assert head == pytest.approx([0, ring, 0, 0], abs=1e-12)
    for block in blocks:
        assert block == pytest.approx([ring, ring, 0, ring], abs=1e-12)


def test_a_trace_says_that_it_is_for_one_of_several_tensor_parallel_devices():
    trace = roofline(gpt(1, 64, 4, sequence=32, tensor_parallel=2), ["a100-80gb"], tensor_parallel=2)
    assert trace.machine == (
        "none: calculated from data sheets at 0.5 of the peak, for one of 2 tensor-parallel devices "
        "(a100-80gb: 312 TFLOP/s fp16, 2039 GB/s, 300 GB/s to others)"
    )


def test_more_devices_for_each_layer_are_faster_but_never_in_proportion():
    """On 2, 4 and 8 A100s, at the curve's efficiency: what is not divided, and the rings, remain."""
    whole = before = None
    for width in (1, 2, 4, 8):
        made = build("gpt3-6.7b", tensor_parallel=width)
        trace = roofline(made, ["a100-80gb"], efficiency="curve", tensor_parallel=width)
        total = sum(sum(seconds(trace, index, "a100-80gb")[:3]) for index in range(len(made)))
        whole = whole or total
        assert whole / width <= total <= whole
        assert width == 1 or total < 0.75 * before
        before = total


@pytest.mark.docs
def test_the_curve_is_the_one_that_the_experiment_fits_and_its_readme_shows(monkeypatch):
    """Told by experiments/roofline, from profiles that others recorded."""
    monkeypatch.syspath_prepend(EXPERIMENT)  # the script imports its neighbour
    spec = importlib.util.spec_from_file_location("run", EXPERIMENT / "run.py")
    run = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(run)
    text = run.tables(needs_data(PROFILES))
    assert run.PROFILES == PROFILES
    assert text.startswith(f"Fitted: {ORDINARY_UNITS}.")
    assert text in (EXPERIMENT / "README.md").read_text(encoding="utf-8")
    assert dataclasses.replace(ORDINARY_UNITS, convolution=ORDINARY_UNITS.product) == MATRIX_UNITS


def test_a_team_link_adds_its_collectives_with_latency():
    """Gradients of weights stay where they are; the last norm exchanges nothing; a layer forward and backward."""
    made = gpt(2, 64, 4, sequence=32, microbatch=3, tensor_parallel=4)
    link = TeamLink(10e9, 7e-6)
    alone, shared = (
        roofline(made, ["a100-80gb"], efficiency=BY_OPERATION, tensor_parallel=4, team_link=one)
        for one in (TeamLink(1e30), link)
    )
    ring = link.seconds("all_reduce", 3 * 32 * 64 * 2, 4)
    more = [
        [b - a for a, b in zip(seconds(alone, i, "a100-80gb"), seconds(shared, i, "a100-80gb"), strict=True)]
        for i in range(len(made))
    ]
    assert more[1] == pytest.approx([ring, ring, 0, ring], rel=1e-6)
    assert more[-2] == [0, 0, 0, 0]
    loss = 3 * link.seconds("all_reduce", 4 * 3 * 32, 4)
    assert more[-1] == pytest.approx([loss, ring, 0, loss], rel=1e-6)


def test_exchanges_that_are_hidden_take_no_time():
    made = gpt(1, 64, 4, sequence=32, tensor_parallel=4)
    free, hidden, half, shown = (
        seconds(
            roofline(
                made, ["a100-80gb"], efficiency=BY_OPERATION, tensor_parallel=4, team_link=link, tp_overlap=overlap
            ),
            1,
            "a100-80gb",
        )
        for link, overlap in (
            (TeamLink(1e30), 0.0),
            (TeamLink(1e9, 1e-6), 1.0),
            (TeamLink(1e9, 1e-6), 0.5),
            (TeamLink(1e9, 1e-6), 0.0),
        )
    )
    assert hidden == pytest.approx(free, rel=1e-9)
    assert half == pytest.approx([(a + b) / 2 for a, b in zip(free, shown, strict=True)], rel=1e-9)
    with pytest.raises(InputError, match="tp_overlap = 2 found"):
        roofline(made, ["a100-80gb"], tp_overlap=2)


def test_sequence_parallelism_moves_the_same_bytes_between_devices_and_fewer_inside():
    plain, split = (
        gpt(1, 64, 4, sequence=32, microbatch=3, tensor_parallel=4, sequence_parallel=flag) for flag in (False, True)
    )
    link = TeamLink(1e6)  # so slow that exchanges are all that counts

    def total(made, phase):
        trace = roofline(made, ["a100-80gb"], efficiency=BY_OPERATION, tensor_parallel=4, team_link=link)
        return trace.layers[phase].sum()

    assert total(split, "forward_s") + total(split, "backward_input_s") + total(
        split, "backward_weight_s"
    ) == pytest.approx(
        total(plain, "forward_s") + total(plain, "backward_input_s") + total(plain, "backward_weight_s"), rel=1e-3
    )
    fast = [
        roofline(made, ["a100-80gb"], efficiency=BY_OPERATION, tensor_parallel=4, team_link=TeamLink(1e30))
        for made in (plain, split)
    ]
    assert fast[1].layers["forward_s"][1] < fast[0].layers["forward_s"][1]


def test_a_width_across_two_nodes_is_slow():
    """8 NICs of 200 Gb/s have two thirds of the bandwidth of NVSwitch and reach more of it; 4 of 100 Gb/s a third."""
    cluster = load_cluster("dgx_a100(2)")
    one, two = (
        team_link(cluster, [device.name for device in cluster.devices[:width]]).seconds("all_reduce", 400e6, width)
        for width in (8, 16)
    )
    assert 1.2 < two / one < 1.6
    slow = load_cluster("dgx1_v100(2)")
    within, across = (
        team_link(slow, [device.name for device in slow.devices[:width]]).seconds("all_reduce", 400e6, width)
        for width in (8, 16)
    )
    assert across > 2.5 * within


def test_along_the_curve_of_a_device_a_layer_takes_the_sum_of_its_operations():
    made = gpt(1, 256, 4, sequence=64)
    trace = roofline(made, ["a100-80gb"], efficiency=BY_OPERATION)
    speed = Speed.of(BY_OPERATION, device_kind("a100-80gb"), "fp16", 2)
    for index in (1, 2, 3, 4):
        operations = made.layers[index].work.operations
        expected = [
            sum(speed.seconds(one, phase) for one in operations)
            for phase in ("forward", "backward_input", "backward_weight")
        ]
        assert seconds(trace, index, "a100-80gb") == pytest.approx([*expected, expected[0]], rel=1e-12)


def test_an_embedding_has_all_its_backward_as_gradient_of_its_table():
    """It reads no other layer; its dropout has a backward all the same."""
    trace = roofline(gpt(1, 256, 4, sequence=64), ["a100-80gb"], efficiency=BY_OPERATION)
    _, of_inputs, of_weights, _ = seconds(trace, 0, "a100-80gb")
    assert of_inputs == 0 < of_weights


def test_the_curve_of_a_device_counts_what_the_loss_keeps_in_fp32():
    made = gpt(1, 64, 4, sequence=32)
    by_operation, before = (roofline(made, ["a100-80gb"], efficiency=one) for one in (BY_OPERATION, "curve"))
    more = by_operation.layers["stash_bytes"] - before.layers["stash_bytes"]
    assert more.tolist() == [0, 0, 0, 0, 2 * 32 * 50257]


def test_a_device_names_the_origin_of_its_constants():
    made = gpt(1, 64, 4, sequence=32)
    assert roofline(made, ["a100-80gb"], efficiency="device").machine.startswith(
        "none: calculated from data sheets by operation with fitted constants e = 0."
    )
    assert "with nearest constants" in roofline(made, ["a10-24gb"], efficiency="device").machine
    both = roofline(made, ["a100-80gb", "a10-24gb"], efficiency="device").machine
    assert "fitted" in both
    assert "nearest" in both


def test_in_fp32_a_device_takes_the_curve_that_was_recorded():
    made = gpt(1, 64, 4, sequence=32, precision="fp32")
    device, curve = (roofline(made, ["v100-16gb"], efficiency=one) for one in ("device", "curve"))
    assert device.same_as(curve)


def test_small_layers_take_at_least_their_launches():
    trace = roofline(gpt(1, 64, 4, sequence=32), ["a100-80gb"], efficiency=BY_OPERATION)
    assert seconds(trace, 1, "a100-80gb")[0] > 9 * BY_OPERATION.launch_s


def test_a_computed_trace_has_the_seconds_of_adam():
    """46 bytes per parameter at the bandwidth that kernels reach, of 2 bytes each; 12 bytes of state."""
    (step,) = roofline(gpt(1, 64, 4, sequence=32), ["a100-80gb"], efficiency=BY_OPERATION).optimizers
    assert (step.name, step.state_per_byte) == ("adam", 6)
    assert step.s_per_byte == pytest.approx(23 / (2039e9 * BY_OPERATION.memory), rel=1e-12)
    assert roofline(gpt(1, 64, 4, sequence=32), ["a100-80gb"], efficiency="curve").optimizers == ()
