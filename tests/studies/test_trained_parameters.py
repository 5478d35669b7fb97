"""Frozen layers and LoRA: seconds, parameters, memory, messages and exchanges, computed by hand."""

import numpy as np
import pytest

import pipesim as ps
from pipesim.analysis import metrics
from pipesim.architectures.described import model_called
from pipesim.architectures.device_curves import Speed, curve_of
from pipesim.base.errors import InputError, UnknownNameError
from pipesim.core.devices import device_kind
from pipesim.core.program import ACTIVATION, ALL_GATHER, ALL_REDUCE, GRADIENT
from pipesim.core.work import Kernels, Product
from pipesim.lowering.memory import peak_memory
from pipesim.studies.trained_parameters import DEFAULT_TARGETS

MB = 10**6
CLUSTER = 'flat({}, bandwidth="1GB/s", device="any", memory="1GB")'
V100 = 'flat({}, bandwidth="25GB/s", device="v100-32gb")'


def chain(**columns):
    """Four layers of 1 ms forward, 1 ms for inputs and 2 ms for weights, that read the one before."""
    layers = {
        "layer": np.arange(4), "name": np.array(["a", "b", "c", "d"], object), "forward_s": np.full(4, 1e-3),
        "backward_input_s": np.full(4, 1e-3), "backward_weight_s": np.full(4, 2e-3), "recompute_s": np.full(4, 1e-3),
        "output_bytes": np.full(4, MB), "parameter_bytes": np.full(4, 2 * MB), "stash_bytes": np.full(4, 3 * MB),
        "forward_flops": np.full(4, 100.0),
    }  # fmt: skip
    return ps.Trace("chain", "by hand", 1, layers | columns, precision="fp32")


def setup(devices=2, microbatches=2, **options):
    return ps.make_setup(chain(), CLUSTER.format(devices), "uniform", microbatches=microbatches, fit=False, **options)


def seconds(costs, phase):
    return [round(one * 1e3, 9) for one in costs.seconds(phase, "any").tolist()]


def test_nothing_is_done_backward_before_the_first_trained_layer_and_no_weights_of_frozen_ones():
    costs = setup(frozen="a;b;d").costs
    assert seconds(costs, "forward") == [1, 1, 1, 1]
    assert seconds(costs, "backward_input") == [0, 0, 0, 1]  # c is the first: what it reads needs no gradient
    assert seconds(costs, "backward_weight") == [0, 0, 2, 0]
    assert seconds(costs, "backward") == [0, 0, 2, 1]
    assert seconds(costs, "recompute") == [0, 0, 1, 1]
    assert costs.model.stash_bytes.tolist() == [0, 0, 3 * MB, 3 * MB]
    assert costs.model.trained_bytes.tolist() == [0, 0, 2 * MB, 0]
    assert costs.model.flops_of(0, 4) == 4 * 100 + 100 + 100
    assert costs.notes[-1] == "3 of 4 layers are frozen; the first that is trained is c"


def test_whole_backwards_keep_the_part_that_is_left():
    layers = {name: column for name, column in chain().layers.items() if not name.startswith("backward")}
    trace = ps.Trace("chain", "by hand", 1, layers | {"backward_s": np.full(4, 4e-3)})
    costs = ps.make_setup(trace, CLUSTER.format(2), frozen="d", weight_share=0.75).costs
    assert seconds(costs, "backward") == [4, 4, 4, 1]


def test_a_branch_that_reads_no_trained_layer_has_no_gradient():
    """Layer c reads a only, so that what b trains does not concern it."""
    trace = chain(inputs=np.array(["-", "", "0", "1;2"], object))
    costs = ps.make_setup(trace, CLUSTER.format(1), frozen="a;c;d").costs
    assert [layer.has_gradient for layer in costs.model.layers] == [False, True, False, True]
    assert seconds(costs, "backward") == [0, 2, 0, 1]


def test_frozen_parameters_have_no_gradients_no_state_and_no_step():
    """In fp32: parameters of 8 MB, and for the trained 2 MB a gradient and Adam's two moments of the same size each."""
    made = setup(1, frozen="a;b;d", optimizer_s_per_byte=1e-9)
    assert peak_memory(made).tolist() == [8 * MB + 2 * MB * 3 + 6 * MB]
    timeline = ps.run(ps.lower(made))
    timeline.verify()
    assert metrics.peak_memory(timeline).tolist() == peak_memory(made).tolist()
    # Two microbatches of four forwards, of which one trains weights and one passes a gradient on; a step on 2 MB.
    assert timeline.makespan == 2 * (4 + 2 + 1) * 10**6 + 2 * 10**6


@pytest.mark.parametrize(("frozen", "gradients"), [("a", 2), ("a;b", 0), ("a;b;c", 0), ("b;c;d", 2)])
def test_gradients_pass_a_cut_only_where_a_layer_before_it_is_trained(frozen, gradients):
    made = setup(frozen=frozen)
    timeline = ps.run(ps.lower(made))
    timeline.verify()
    kinds = timeline.program.kind.tolist()
    assert (kinds.count(ACTIVATION), kinds.count(GRADIENT)) == (2, gradients)
    assert ps.bound(made) <= metrics.iteration_time(timeline)
    event, compiled = (ps.run(ps.lower(made), engine) for engine in ("event", "compiled"))
    assert event.end.tolist() == compiled.end.tolist()


@pytest.mark.parametrize(("sharding", "gathered"), [("zero1", 2 * MB), ("zero3", 8 * MB)])
def test_replicas_sum_gradients_of_what_is_trained_and_gather_what_is_divided(sharding, gathered):
    whole = {"planner": "data_parallel", "frozen": "a;b;d", "fit": False, "microbatches": 1}
    summed = ps.lower(ps.make_setup(chain(), CLUSTER.format(2), **whole))
    assert summed.size[summed.kind == ALL_REDUCE].tolist() == [2 * MB, 2 * MB]  # 2(k-1)/k of 2 MB over each edge
    shared = ps.lower(ps.make_setup(chain(), CLUSTER.format(2), sharding=sharding, **whole))
    gathers = shared.size[shared.kind == ALL_GATHER]
    assert set(gathers.tolist()) == {gathered / 2}
    assert shared.size[shared.kind == ALL_REDUCE].tolist() == [MB, MB]


@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        ({"frozen": "aa"}, UnknownNameError, "frozen: 'aa' is no layer of 'chain'"),
        ({"frozen": "*"}, InputError, "but not all of them"),
        ({"frozen": ";"}, InputError, "layers by name or glob were expected"),
        ({"frozen": "a", "lora_rank": 4}, InputError, "frozen and lora_rank found; one of them was expected"),
        ({"lora_rank": 0}, InputError, "lora_rank = 0 found; 1 or more was expected"),
        ({"lora_targets": "q_proj"}, InputError, "lora_targets has no effect without lora_rank"),
        ({"lora_rank": 4}, InputError, "the matrices of 'chain' are not known"),
    ],
)
def test_what_cannot_be_meant_is_refused(fields, error, message):
    with pytest.raises(error, match=message.replace("*", r"\*")):
        ps.simulate(chain(), CLUSTER.format(1), **fields)


ONE = V100.format(1)


def lora(cluster=ONE, **fields):
    given = {"lora_rank": 16, "sequence": 64, "precision": "fp16", "fit": False}
    return ps.make_setup("llama3-8b", cluster, **given | fields).costs.model


@pytest.mark.parametrize(
    ("targets", "trained"), [("all-linear", 41_943_040), (None, 6_815_744), ("linear_qkv", 16 * (4096 + 6144) * 32)]
)
def test_adapters_of_llama_3_8b_have_as_many_parameters_as_peft_prints(targets, trained):
    """PEFT: "trainable params: 41,943,040" for rank 16 on all linear layers; 6,815,744 on q_proj and v_proj."""
    model = lora(lora_targets=targets)
    assert model.trained_bytes.sum() / 2 == trained
    assert model.parameter_bytes.sum() / 2 == 8_030_261_248 + trained


def test_a_team_divides_the_wide_side_that_its_matrix_divides():
    model = lora(cluster="dgx_a100(1)", tensor=2, lora_targets="linear_qkv;linear_proj")
    columns, rows = 4096 + 6144 / 2, 4096 / 2 + 4096
    assert model.trained_bytes.sum() / 2 == 16 * (columns + rows) * 32


def test_a_layer_with_adapters_takes_their_operations_in_addition_and_no_gradient_of_its_own_weights():
    r, given = 8, {"sequence": 64, "precision": "fp16", "fit": False}
    plain, adapted = (
        ps.make_setup("bert-large", V100.format(1), device="v100-32gb", **given, **more).costs
        for more in ({}, {"lora_rank": r, "lora_targets": "linear_fc1"})
    )
    speed = Speed.of(curve_of("v100-32gb", "fp16"), device_kind("v100-32gb"), "fp16", 2)
    m, k, n = 64, 1024, 4096
    made = [Product(m, r, k), Product(m, n, r), Kernels(3 * 2 * m * n, 3 * 2 * m * k)]
    layer = [one.name for one in plain.model.layers].index("block3.mlp")
    for phase, own in (("forward", 1), ("backward_input", 1), ("backward_weight", 0)):
        base = plain.seconds(phase, "v100-32gb")[layer] * own
        expected = base + sum(speed.seconds(one, phase) for one in made)
        assert adapted.seconds(phase, "v100-32gb")[layer] == pytest.approx(expected, rel=1e-12)
    before, after = plain.model.layers[layer], adapted.model.layers[layer]
    assert after.stash_bytes - before.stash_bytes == 2 * m * r
    assert after.parameter_bytes - before.parameter_bytes == 2 * r * (k + n)
    assert after.forward_flops - before.forward_flops == 2 * m * r * (k + n)
    assert after.backward_flops == before.forward_flops + 2 * 2 * m * r * (k + n)


def test_nothing_passes_back_before_the_first_adapter():
    model = lora(lora_targets=DEFAULT_TARGETS)
    names = [layer.name for layer in model.layers if not layer.has_gradient]
    assert names == ["embedding"]
    assert model.layers[0].stash_bytes == 0


def test_on_devices_that_are_not_known_adapters_take_the_layers_seconds_per_flop():
    made = model_called("bert-large", {"precision": "fp16"})
    count, layers = len(made.layers), made.layers
    columns = {
        "layer": np.arange(count), "name": np.array([one.name for one in layers], object),
        "kind": np.array([one.kind for one in layers], object), "forward_s": np.full(count, 1e-3),
        "backward_s": np.full(count, 2e-3), "output_bytes": np.array([int(one.output_bytes) for one in layers]),
        "parameter_bytes": np.array([one.parameter_bytes for one in layers]),
        "stash_bytes": np.array([int(one.stash_bytes) for one in layers]),
        "forward_flops": np.array([one.forward_flops for one in layers]),
    }  # fmt: skip
    trace = ps.Trace("bert-large", "recorded", made.microbatch_size, columns, precision="fp16")
    costs = ps.make_setup(trace, CLUSTER.format(1), fit=False, lora_rank=8, lora_targets="o_proj").costs
    layer = [one.name for one in layers].index("block3.attention")
    tokens = made.layers[0].output_bytes / 2 / 1024
    part = 2 * tokens * 8 * (1024 + 1024) / layers[layer].forward_flops
    assert costs.seconds("forward", "any")[layer] == pytest.approx(1e-3 * (1 + part), rel=1e-12)
    assert costs.seconds("backward", "any")[layer] == pytest.approx(1e-3 * (1 + 2 * part), rel=1e-12)


def test_targets_that_a_model_has_not_are_refused_with_those_that_it_has():
    with pytest.raises(UnknownNameError, match="'llama3-8b' has no 'w_proj'; it has q_proj, k_proj, v_proj, o_proj"):
        lora(lora_targets="w_proj")


def test_a_simulation_with_adapters_is_faster_fits_in_less_memory_and_is_as_verified():
    given = {"tensor": 2, "pipeline": 2, "data": 2, "global_batch": 8, "sequence": 512, "framework": "megatron"}
    whole, adapted = (ps.simulate("llama3-8b", "dgx_a100(1)", **given, lora_rank=rank) for rank in (None, 16))
    adapted.timeline.verify()
    assert adapted.iteration_time < whole.iteration_time
    assert metrics.peak_memory(adapted.timeline).max() < metrics.peak_memory(whole.timeline).max() / 4
    assert adapted.bound <= adapted.iteration_time
    assert any("adapters of rank 16 on q_proj, v_proj" in note for note in adapted.as_data()["notes"])
