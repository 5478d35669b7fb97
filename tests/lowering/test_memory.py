"""Bytes on each device: closed forms by schedule, sharding and recomputation; those of timelines."""

import numpy as np
import pytest

import pipesim as ps
from pipesim.analysis import metrics
from pipesim.lowering.memory import excess, held_at_peak, peak_memory
from pipesim.schedulers import COMPARED

STASH, WEIGHTS = 1000, 16
CLUSTER = 'flat({}, bandwidth="1GB/s", device="any", memory="{}")'


def trace_of(layers, stash=STASH, precision="fp16", names=None):
    """Equal layers that keep so many bytes of a microbatch."""
    columns = {
        "layer": np.arange(layers),
        "name": np.array(names or [f"layer{n}" for n in range(layers)], object),
        "forward_s": np.full(layers, 1e-3),
        "backward_s": np.full(layers, 2e-3),
        "output_bytes": np.full(layers, 10),
        "parameter_bytes": np.full(layers, WEIGHTS),
        "stash_bytes": np.full(layers, stash),
    }
    return ps.Trace("m", "test", 1, columns, precision=precision)


def setup_of(devices, scheduler, microbatches=16, layers=None, memory="1GB", **options):
    trace = trace_of(layers or devices)
    return ps.make_setup(trace, CLUSTER.format(devices, memory), "uniform", scheduler, microbatches, **options)


def activations(setup):
    """Of each rank, how often it keeps what one layer keeps."""
    held = peak_memory(setup) - 8 * WEIGHTS * len(setup.costs.model) // len(setup.plan.devices)
    return (held / STASH).tolist()


@pytest.mark.parametrize("scheduler", COMPARED)
@pytest.mark.parametrize("recompute", ["none", "full"])
def test_the_peak_of_an_order_is_that_of_its_timeline(scheduler, recompute):
    setup = setup_of(4, scheduler, 8, layers=16, recompute=recompute)
    assert peak_memory(setup).tolist() == metrics.peak_memory(ps.run(ps.lower(setup))).tolist()


@pytest.mark.parametrize("stash", [0, 10**6])
@pytest.mark.parametrize(("framework", "sharding", "made"), [
    ("megatron", "none", 4), ("megatron", "zero1", 4 / 2), ("deepspeed", "none", 8), ("deepspeed", "zero1", 6 / 2),
    ("torch", "none", 0),
])  # fmt: skip
def test_the_peak_is_that_of_activations_or_of_the_steps_copies_of_16_bit_gradients(framework, sharding, made, stash):
    given = {"pipeline": 2, "data": 2, "interleave": 2, "framework": framework, "transfers": "eager", "reserve": 0}
    cluster = CLUSTER.format(4, "1GB")
    setup = ps.make_setup(trace_of(8, stash), cluster, microbatches=8, sharding=sharding, **given)
    timeline = ps.run(ps.lower(setup))
    parameters = 4 * WEIGHTS // 2  # of fp16, in the two chunks of a device
    held = parameters * (16 if sharding == "none" else 4 + 12 / 2)
    kept = np.array([5, 3]) * 2 * stash if stash else np.zeros(2)
    assert setup.notes == ()
    assert peak_memory(setup).tolist() == metrics.peak_memory(timeline).tolist()
    assert peak_memory(setup).tolist() == np.repeat(held + np.maximum(kept, parameters * made), 2).tolist()


def test_bf16_with_gradients_in_fp32_has_nothing_to_copy():
    options = ps.make_setup(trace_of(2, precision="bf16"), CLUSTER.format(2, "1GB"), framework="megatron").options
    assert (options.gradient_bytes, options.step_bytes) == (2, 0)


@pytest.mark.parametrize("devices", [1, 2, 4, 7])
def test_1f1b_keeps_as_many_microbatches_as_there_are_stages_from_a_stage_on(devices):
    setup = setup_of(devices, "one_f_one_b")
    assert activations(setup) == [devices - i for i in range(devices)]
    assert held_at_peak(setup) == [devices - i for i in range(devices)]


@pytest.mark.parametrize("devices", [2, 4])
def test_gpipe_keeps_all_microbatches(devices):
    assert activations(setup_of(devices, "gpipe", 12)) == [12] * devices


@pytest.mark.parametrize(("devices", "chunks"), [(2, 2), (4, 2), (4, 3)])
def test_interleaving_keeps_what_megatron_warms_up_with_and_one_more(devices, chunks):
    """Megatron-LM: 2 (p - i - 1) + (v - 1) p forwards of a chunk before the first forward with a backward after it."""
    setup = setup_of(devices, f"interleaved(chunks={chunks})", 4 * devices, layers=devices * chunks)
    assert activations(setup) == [2 * (devices - i - 1) + (chunks - 1) * devices + 1 for i in range(devices)]


@pytest.mark.parametrize(("scheduler", "most"), [("zb_h1", 1), ("zb_2p", 2)])
def test_zero_bubble_keeps_as_much_as_1f1b_or_twice_as_much(scheduler, most):
    """ZB-H1 is made to keep no more than the first device of 1F1B, p microbatches; ZB-2p twice that."""
    held = max(activations(setup_of(4, scheduler, 16)))
    assert most * 4 - 1 <= held <= most * 4


@pytest.mark.parametrize("replicas", [1, 2, 4])
def test_a_distributed_optimizer_leaves_6_bytes_of_18_and_12_divided_by_the_replicas(replicas):
    """Megatron-LM's documentation, for parameters of 16 bits and gradients of 32."""
    trace = trace_of(4, stash=0)
    held = {}
    for sharding in ("none", "zero1"):
        setup = ps.make_setup(
            trace, CLUSTER.format(replicas, "1GB"), "data_parallel", microbatches=4, sharding=sharding,
            gradient_precision="fp32",
        )  # fmt: skip
        held[sharding] = peak_memory(setup)[0] / (4 * WEIGHTS / 2)
    assert held == {"none": 18, "zero1": 6 + 12 / replicas}


@pytest.mark.parametrize(
    ("sharding", "bytes_each"),
    [("zero2", 2 + (2 + 12) / 4), ("zero3", (2 + 2 + 12) / 4)],
)
def test_zero_divides_gradients_and_then_parameters_too(sharding, bytes_each):
    setup = ps.make_setup(
        trace_of(4, stash=0), CLUSTER.format(4, "1GB"), "data_parallel", microbatches=4, sharding=sharding
    )
    assert peak_memory(setup)[0] / (4 * WEIGHTS / 2) == bytes_each


def test_full_recomputation_keeps_the_input_of_each_block_and_one_block_at_a_time():
    """Uniform with groups of one block: every block but the first keeps its input; during a backward all of one."""
    names = [f"block{n // 2}.{part}" for n in range(8) for part in [("attention", "mlp")[n % 2]]]
    made = ps.make_setup(
        trace_of(8, names=names), CLUSTER.format(1, "1GB"), "uniform", microbatches=3, recompute="full"
    )
    assert peak_memory(made)[0] - 8 * 8 * WEIGHTS == 3 * 10 + 2 * STASH


@pytest.mark.parametrize("blocks", [0, 1, 3])
def test_recomputation_of_the_first_blocks_leaves_the_others_their_activations(blocks):
    """Megatron-LM's method `block`."""
    names = [f"block{n}.all" for n in range(4)]
    made = ps.make_setup(
        trace_of(4, names=names), CLUSTER.format(1, "1GB"), "uniform", microbatches=1, recompute="full",
        recompute_blocks=blocks,
    )  # fmt: skip
    inputs, again = 10 * max(blocks - 1, 0), STASH if blocks else 0
    assert peak_memory(made)[0] - 8 * 4 * WEIGHTS == (4 - blocks) * STASH + inputs + again


def test_what_a_framework_holds_counts_once_on_each_device():
    plain, more = (setup_of(4, "one_f_one_b", reserve=reserve) for reserve in (0, 500))
    assert (peak_memory(more) - peak_memory(plain)).tolist() == [500] * 4


def test_a_device_whose_memory_is_not_known_exceeds_nothing():
    assert excess(setup_of(2, "gpipe", memory="0B")).tolist() == [0, 0]
