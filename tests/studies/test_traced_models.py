"""The model of a trace, and what Transformer Engine holds for it: by hand, and beside measured runs."""

import pytest

import pipesim as ps
from pipesim.core.teams import Widths
from pipesim.lowering.memory import peak_memory
from pipesim.studies.traced_models import builder, transformer_engine_bytes

ROOM = 2 * 32 * 2**20
# What PyTorch had allocated on the fullest of 8 B200 under Megatron-LM, 12 blocks of Llama 3 70B at 4,096 tokens, bf16:
# SimuMax, docs/b200/b200_release_v1.2_summary.json at 4dcaae5 (experiments/validation/data/simumax.csv).
MEASURED = [
    ({"tensor": 1, "pipeline": 2, "data": 4}, 71.457518e9),
    ({"tensor": 2, "pipeline": 1, "data": 4}, 65.154654e9),
    ({"tensor": 4, "pipeline": 1, "data": 2}, 41.951093e9),
    ({"tensor": 8, "pipeline": 1, "data": 1}, 30.376156e9),
]
LLAMA = "llama(12, 8192, 64, vocabulary=128256, inner=28672, key_heads=8, tied=False)"
CLUSTER = "servers(1, 8, '900 GB/s', '400 Gb/s', nics=8, device='b200-180gb')"


def computed(model, **fields):
    return ps.make_setup(model, "hgx_h100(1)", **{"sequence": 64, "framework": "megatron", "fit": False} | fields)


def test_one_gradient_of_each_size_of_matrix_and_the_gradients_of_one_mlp_are_held():
    h, keys, inner, m = 256, 64, 512, 64
    made = computed(f"llama(3, {h}, 8, vocabulary=1000, inner={inner}, key_heads=2)")
    sizes = [(h + 2 * keys, h), (h, h), (2 * inner, h), (h, inner)]
    backward = m * (2 * inner + inner + h)
    assert made.options.workspace == 2 * (sum(n * k for n, k in sizes) + backward) + ROOM


@pytest.mark.parametrize(("sequence_parallel", "outside"), [(False, 1), (True, 2)])
def test_a_team_divides_them(sequence_parallel, outside):
    h, keys, inner, m = 256, 64, 512, 64
    made = computed(
        f"llama(3, {h}, 8, vocabulary=1000, inner={inner}, key_heads=2)", tensor=2, sequence_parallel=sequence_parallel
    )
    values = ((h + 2 * keys) * h + h * h + 3 * inner * h) // 2 + m * 3 * inner // 2 + m * h // outside
    assert made.options.workspace == 2 * values + ROOM


@pytest.mark.parametrize("framework", [None, "deepspeed", "torch", "megatron-v2"])
def test_other_frameworks_hold_none(framework):
    assert computed("llama3-8b", framework=framework).options.workspace == 0


def test_nothing_is_known_of_a_trace_of_no_known_model():
    layers = {"layer": [0], "name": ["a"], "forward_s": [1.0], "backward_s": [1.0], "output_bytes": [0]}
    trace = ps.Trace("mine", "by hand", 1, layers)
    assert builder(trace, Widths()) is None
    assert ps.make_setup(trace, 'flat(1, bandwidth="1GB/s")', framework="megatron").options.workspace == 0
    assert transformer_engine_bytes(builder(ps.load_trace("vgg-19"), Widths())(1), Widths()) == 0


@pytest.mark.parametrize("name", ["gpt", "bert-large", "vgg-19"])
def test_a_trace_that_only_has_the_name_of_a_model_is_none_of_it(name):
    """A family needs sizes, and other layers are those of another model."""
    layers = {"layer": [0], "name": ["a"], "forward_s": [1.0], "backward_s": [1.0], "output_bytes": [0]}
    trace = ps.Trace(name, "by hand", 1, layers)
    assert builder(trace, Widths()) is None
    assert ps.simulate(trace, 'flat(1, bandwidth="1GB/s")', framework="megatron").iteration_time > 0


@pytest.mark.parametrize(("layout", "allocated"), MEASURED)
def test_memory_of_llama_is_what_was_measured_within_a_percent(layout, allocated):
    setup = ps.make_setup(
        LLAMA, CLUSTER, **layout, global_batch=4 * layout["data"], sequence=4096, precision="bf16", reserve=0,
        framework="megatron", sharding="zero1", sequence_parallel=True, gradient_overlap=False,
    )  # fmt: skip
    assert peak_memory(setup).max() == pytest.approx(allocated, rel=0.01)
    assert not setup.notes


def test_a_block_of_llama_keeps_what_fused_kernels_do():
    """Of each token the inputs of norms and of products, queries, keys, values and what attention returns: 2h + 2h + 2k
    values; of the mlp 2h, and of its inner width n the gate, what is gated and their product: 3n.
    """
    m, h, k, inner = 64, 256, 64, 512
    model = computed(f"llama(1, {h}, 8, vocabulary=1000, inner={inner}, key_heads=2)", framework=None).costs.model
    rows = 4 * 8 * m  # of each row of scores a sum in fp32
    assert model.layers[1].stash_bytes == 2 * m * (2 * h + 2 * h + 2 * k) + rows
    assert model.layers[2].stash_bytes == 2 * m * (2 * h + 3 * inner)
