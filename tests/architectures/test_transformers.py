import pytest

from pipesim.architectures import ARCHITECTURES
from pipesim.architectures.gemma import gemma
from pipesim.architectures.gpt import gpt
from pipesim.architectures.llama import llama
from pipesim.architectures.moe import moe
from pipesim.architectures.opt import opt
from pipesim.architectures.qwen import qwen
from pipesim.architectures.t5 import t5
from pipesim.architectures.vit import vit
from pipesim.architectures.xlnet import xlnet
from pipesim.base import lookup
from pipesim.base.errors import InputError


def build(text, **arguments):
    return lookup.resolve(text, ARCHITECTURES, "architecture")(**arguments)


def layer(model, name):
    return next(layer for layer in model.layers if layer.name == name)


def test_a_llama_with_grouped_queries_by_hand():
    """Three samples of 5 tokens of 24 values, 4 heads of 6, 2 heads of keys and values, mlp 40 wide, in fp16."""
    model = llama(1, 24, 4, inner=40, key_heads=2, vocabulary=100, sequence=5, microbatch=3)
    embedding, attention, mlp, norm, head = model.layers
    tokens, values = 15, 15 * 24
    assert embedding.parameter_bytes == head.parameter_bytes == 2 * 100 * 24
    assert (embedding.forward_flops, embedding.stash_bytes) == (0, 8 * tokens)
    assert attention.parameter_bytes == 2 * (24 * (24 + 12 + 12) + 24 * 24 + 24)
    assert attention.forward_flops == 2 * tokens * 24 * (24 + 12 + 12 + 24) + 2 * 2 * tokens * 5 * 24
    # inputs of norm and products, queries and what goes to the projection, keys, values; a 4-byte sum per row and head
    assert attention.stash_bytes == 2 * (2 * values + 2 * values + 2 * tokens * 12) + 4 * tokens * 4
    assert mlp.parameter_bytes == 2 * (3 * 24 * 40 + 24)
    assert mlp.forward_flops == 3 * 2 * tokens * 24 * 40
    assert mlp.stash_bytes == 2 * (2 * values + 3 * tokens * 40)  # the gate, what is gated, their product
    assert norm.parameter_bytes == 2 * 24


def test_scores_are_kept_where_attention_is_not_fused():
    fused, plain = (
        llama(1, 24, 4, inner=40, vocabulary=100, sequence=64, fused_attention=fused).layers[1]
        for fused in (True, False)
    )
    assert plain.stash_bytes - fused.stash_bytes == 4 * 64 * 64 * 2 - 4 * 64 * 4
    assert plain.forward_flops == fused.forward_flops


def test_a_gpt_with_fused_attention_keeps_no_scores():
    """Korthikanti et al. (2022): without the scores 34bsh bytes; the sums of rows are 4abs."""
    model = gpt(1, 96, 8, sequence=32, microbatch=3, fused_attention=True)
    s, b, h, a = 32, 3, 96, 8
    assert model.layers[1].stash_bytes + model.layers[2].stash_bytes == s * b * h * 34 + 4 * a * b * s


def test_a_tied_llama_counts_its_matrix_once():
    tied, untied = (llama(2, 24, 4, inner=40, vocabulary=100, tied=tied) for tied in (True, False))
    assert untied.parameter_bytes.sum() - tied.parameter_bytes.sum() == 2 * 24 * 100
    assert tied.layers[-1].kind == "tied_head"


def test_all_experts_are_parameters_and_only_the_active_ones_are_work():
    """Mixtral 8x7B: Jiang et al. (2024) and its announcement state 46.7 billion parameters, 12.9 of them active."""
    model = build("mixtral-8x7b", sequence=1)
    total = int(model.parameter_bytes.sum()) // 2
    expert = 3 * 4096 * 14336
    active = total - 32 * 6 * expert
    assert total == pytest.approx(46.7e9, rel=0.01)
    assert active == pytest.approx(12.9e9, rel=0.01)
    # Every active parameter but the embedding's is a multiply-add for a token; of norms and scores there is little.
    assert model.forward_flops == pytest.approx(2 * (active - 32000 * 4096), rel=1e-3)


def test_a_mixture_by_hand():
    """Three samples of 5 tokens of 24 values in fp16; 3 experts 40 wide, 2 of them active."""
    mixture = layer(moe(1, 24, 4, inner=40, experts=3, vocabulary=100, sequence=5, microbatch=3), "block0.moe")
    tokens = 15
    assert mixture.parameter_bytes == 2 * (3 * 3 * 24 * 40 + 24 * 3 + 24)
    assert mixture.forward_flops == 2 * tokens * 24 * 3 + 2 * 3 * 2 * tokens * 24 * 40
    assert mixture.stash_bytes == 2 * tokens * (2 * 24 + 3 + 2 * (2 * 24 + 3 * 40))


def test_more_experts_cost_memory_and_hardly_time():
    few, many = (moe(2, 64, 4, inner=96, experts=experts, vocabulary=100) for experts in (4, 64))
    assert many.parameter_bytes.sum() > 8 * few.parameter_bytes.sum()
    assert few.forward_flops < many.forward_flops < 1.1 * few.forward_flops


def test_experts_may_stand_in_every_second_block():
    kinds = [layer.kind for layer in moe(4, 24, 4, inner=40, every=2, vocabulary=100).layers]
    assert kinds[1:9] == ["attention", "mlp", "attention", "moe"] * 2


def test_one_expert_is_an_mlp_with_a_router():
    mixed = layer(moe(1, 24, 4, inner=40, experts=1, active=1, vocabulary=100), "block0.moe")
    plain = layer(llama(1, 24, 4, inner=40, vocabulary=100), "block0.mlp")
    assert mixed.parameter_bytes - plain.parameter_bytes == 2 * 24
    assert mixed.forward_flops - plain.forward_flops == 2 * 4096 * 24


def test_the_attention_of_xlnet_by_hand():
    """Three samples of 5 tokens of 24 values in fp16; 10 distances, 2 segments."""
    attention = xlnet(1, 24, 4, vocabulary=100, sequence=5, microbatch=3).layers[1]
    tokens, places = 15, 30
    projections = 2 * tokens * 24 * 96 + 2 * places * 24 * 24
    scores = 2 * tokens * 24 * (5 + 5 + 10 + 2)
    assert attention.forward_flops == projections + scores
    assert attention.parameter_bytes == 2 * (5 * 24 * 24 + 3 * 24 + 2 * 24 + 2 * 24)
    assert attention.stash_bytes == 2 * (6 * tokens + 2 * places) * 24 + tokens * 24 + 4 * tokens * 5 * 5


def test_a_vit_reads_one_token_more_than_it_has_patches():
    """Two images of 32 pixels in patches of 8: 17 tokens of 24 values in fp16."""
    model = vit(1, 24, 4, patch=8, image=32, classes=7, microbatch=2)
    patches, *_, head = model.layers
    assert patches.output_bytes == 2 * 2 * 17 * 24
    assert patches.parameter_bytes == 2 * (3 * 64 * 24 + 24 + 24 + 17 * 24)
    assert patches.forward_flops == 2 * 2 * 16 * 3 * 64 * 24
    assert patches.stash_bytes == 2 * 2 * 3 * 32 * 32
    assert (head.forward_flops, head.parameter_bytes) == (2 * 2 * 24 * 7, 2 * 25 * 7)


DIVISIBLE = [
    "gpt(2, 96, 8, vocabulary=101, sequence=16)",
    "llama(2, 96, 8, inner=160, key_heads=4, vocabulary=101, sequence=16)",
    "moe(2, 96, 8, inner=160, vocabulary=101, sequence=16)",
    "bert(2, 96, 8, vocabulary=101, sequence=16)",
    "xlnet(2, 96, 8, vocabulary=101, sequence=16)",
    "t5(2, 96, 8, vocabulary=101, sequence=16)",
    "translation(2, 96, 8, vocabulary=101, sequence=16)",
    "vit(2, 96, 8, patch=8, image=32)",
]


def test_a_block_of_a_quarter_keeps_the_activations_of_the_published_formula():
    """Korthikanti et al. (2022), equation 2: sbh (10 + 24/t + 5as/(ht)) bytes in fp16."""
    s, b, h, a, t = 32, 3, 96, 8, 4
    model = gpt(1, h, a, sequence=s, microbatch=b, tensor_parallel=t)
    kept = model.layers[1].stash_bytes + model.layers[2].stash_bytes
    assert kept == s * b * h * 10 + (s * b * h * 24 + 5 * a * s * s * b) / t


@pytest.mark.parametrize("text", DIVISIBLE)
def test_products_are_divided_over_tensor_parallel_devices_and_what_lies_between_is_not(text):
    whole, quarter = build(text), build(text, tensor_parallel=4)
    for one, part in zip(whole.layers, quarter.layers, strict=True):
        assert (part.name, part.kind, part.inputs) == (one.name, one.kind, one.inputs)
        if one.kind in {"attention", "cross_attention", "mlp"}:
            assert part.forward_flops == one.forward_flops / 4
            assert one.parameter_bytes / 4 < part.parameter_bytes < one.parameter_bytes / 4 + 2 * 4 * 96
            assert one.stash_bytes / 4 < part.stash_bytes < one.stash_bytes
        if one.kind not in {"head", "tied_head"}:
            assert part.output_bytes == one.output_bytes


def test_a_vocabulary_that_cannot_be_divided_is_padded():
    whole, part = (gpt(1, 96, 8, vocabulary=101, sequence=16, tensor_parallel=t) for t in (1, 4))
    assert part.layers[0].parameter_bytes == 2 * 96 * (26 + 16)
    assert part.layers[-1].output_bytes == 2 * 16 * 26
    assert whole.layers[-1].output_bytes == 2 * 16 * 101


def test_experts_are_divided_and_their_router_is_not():
    one, part = (
        layer(moe(1, 96, 8, inner=160, experts=3, vocabulary=101, tensor_parallel=t), "block0.moe").parameter_bytes
        for t in (1, 4)
    )
    common = 2 * (96 * 3 + 96)
    assert part - common == (one - common) / 4


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("gpt(2, 24, 4, tensor_parallel=3)", "tensor_parallel = 3 found; a divisor of heads = 4"),
        ("gpt(2, 24, 4, tensor_parallel=0)", "tensor_parallel = 0 found"),
        ("gpt(2, 24, 4, fused_attention=1)", "fused_attention: 1 found"),
        ("llama(2, 24, 4, inner=40, key_heads=3)", "key_heads = 3 found; a divisor of heads = 4"),
        ("llama(2, 24, 4, inner=40, key_heads=0)", "key_heads = 0 found"),
        ("llama(2, 24, 4, inner=40, key_heads=2, tensor_parallel=4)", "tensor_parallel = 4 .* of key_heads"),
        ("llama(2, 24, 4, inner=42, tensor_parallel=4)", "tensor_parallel = 4 found; a divisor of inner = 42"),
        ("llama(2, 24, 4, inner=0)", "inner = 0 found"),
        ("moe(2, 24, 4, inner=40, experts=2, active=3)", "active = 3 found; at most experts = 2"),
        ("moe(2, 24, 4, inner=40, every=0)", "every = 0 found"),
        ("xlnet(0, 24, 4)", "layers = 0 found"),
        ("t5(2, 24, 4, head_width=0)", "head_width = 0 found"),
        ("t5(2, 24, 4, inner=0)", "inner = 0 found"),
        ("t5(0, 24, 4)", "encoder_layers = 0 found"),
        ("translation(2, 24, 4, target=0)", "sequence = 0 found"),
        ("translation(2, 24, 5)", "heads = 5 found; a divisor of hidden = 24"),
        ("vit(2, 24, 4, patch=15)", "patch = 15 found; a divisor of image = 224"),
        ("vit(2, 24, 4, patch=0)", "patch = 0 found"),
    ],
)  # fmt: skip
def test_a_bad_size_is_refused_by_its_name(text, complaint):
    with pytest.raises(InputError, match=complaint):
        lookup.call(text, ARCHITECTURES, "architecture")


def test_a_qwen_has_biases_or_norms_of_queries_and_keys_by_hand():
    """Two samples of 5 tokens of 24 values; 4 heads of 8, two of keys and values, in fp16."""
    sizes = {"inner": 40, "key_heads": 2, "head_width": 8, "vocabulary": 100, "sequence": 5, "microbatch": 2}
    plain, second, third = (
        layer(qwen(1, 24, 4, key_bias=bias, key_norm=norm, **sizes), "block0.attention")
        for bias, norm in ((False, False), (True, False), (False, True))
    )
    assert plain.parameter_bytes == 2 * (24 * (32 + 16 + 16 + 32) + 24)
    assert second.parameter_bytes - plain.parameter_bytes == 2 * (32 + 16 + 16)
    assert third.parameter_bytes - plain.parameter_bytes == 2 * 2 * 8
    # the inputs of the norms of queries and of keys
    assert third.stash_bytes - plain.stash_bytes == 2 * 10 * (32 + 16)
    assert second.stash_bytes == plain.stash_bytes


def test_a_gemma_keeps_and_has_a_norm_after_attention_and_mlp():
    model = gemma(2, 24, 4, inner=40, head_width=8, window=3, vocabulary=100, sequence=5, microbatch=2)
    plain = llama(1, 24, 4, inner=40, head_width=8, vocabulary=100, sequence=5, microbatch=2)
    for name in ("block0.attention", "block0.mlp"):
        more, less = layer(model, name), layer(plain, name)
        assert more.parameter_bytes - less.parameter_bytes == 2 * 24
        assert more.stash_bytes - less.stash_bytes == 2 * 10 * 24
    assert layer(model, "block1.attention").forward_flops == layer(plain, "block0.attention").forward_flops
    saved = layer(model, "block1.attention").forward_flops - layer(model, "block0.attention").forward_flops
    assert saved == 2 * 2 * 10 * (5 - 3) * 32


def test_a_window_saves_nothing_where_attention_is_not_fused():
    unfused = [llama(1, 24, 4, inner=40, window=window, sequence=64, fused_attention=False) for window in (0, 8)]
    assert unfused[0].layers == unfused[1].layers


def test_a_narrow_opt_widens_after_the_embedding_and_narrows_before_the_head():
    """As OPT-350m: embeddings of 12 values, blocks of 24, no norm at the end; positions have two rows more."""
    names = [layer.name for layer in opt(1, 24, 4, embedding_width=12, final_norm=False, vocabulary=100).layers]
    assert names == ["embedding", "project_in", "block0.attention", "block0.mlp", "project_out", "head"]
    model = opt(1, 24, 4, embedding_width=12, vocabulary=100, sequence=5, microbatch=2)
    assert layer(model, "embedding").parameter_bytes == 2 * 100 * 12
    assert layer(model, "project_in").parameter_bytes == 2 * (12 * 24 + (5 + 2) * 24)
    assert layer(model, "project_out").parameter_bytes == 2 * 24 * 12
    assert layer(model, "project_out").output_bytes == 2 * 10 * 12
    wide = opt(1, 24, 4, vocabulary=100, sequence=5, microbatch=2)
    assert layer(wide, "embedding").parameter_bytes == 2 * (100 + 5 + 2) * 24


def test_a_shared_expert_is_work_and_parameters_for_every_token():
    """Three samples of 5 tokens of 24 values in fp16; 3 experts 40 wide, 2 of them active, a shared one 60 wide."""
    sizes = {"inner": 40, "experts": 3, "vocabulary": 100, "sequence": 5, "microbatch": 3}
    plain, shared, scaled = (
        layer(moe(1, 24, 4, shared_inner=inner, shared_gate=gate, **sizes), "block0.moe")
        for inner, gate in ((0, False), (60, False), (60, True))
    )
    assert shared.parameter_bytes - plain.parameter_bytes == 2 * 3 * 24 * 60
    assert shared.forward_flops - plain.forward_flops == 3 * 2 * 15 * 24 * 60
    assert shared.stash_bytes - plain.stash_bytes == 2 * 15 * 3 * 60
    assert scaled.parameter_bytes - shared.parameter_bytes == 2 * 24
    assert scaled.forward_flops - shared.forward_flops == 2 * 15 * 24
    assert plain.work.flops == plain.forward_flops
    assert shared.work.flops == shared.forward_flops


def test_a_deepseek_begins_with_dense_blocks_and_activates_few_of_its_parameters():
    """DeepSeek-AI (2024): of 671 billion parameters, 37 billion are active for a token; of 236 billion, 21."""
    for name, dense, billions in (("deepseek-v3", 3, 37), ("deepseek-v2", 1, 21)):
        model = build(name, sequence=1)
        kinds = [layer.kind for layer in model.layers]
        assert kinds[2 : 2 * dense + 2 : 2] == ["mlp"] * dense
        assert kinds.count("moe") == kinds.count("attention") - dense
        # Every active parameter but those of the embedding is a multiply-add for a token.
        active = model.forward_flops / 2 + model.layers[0].parameter_bytes / 2
        assert active == pytest.approx(billions * 1e9, rel=0.03)


def test_experts_are_divided_as_a_whole_or_refused():
    with pytest.raises(InputError, match="tensor_parallel = 4 found; a divisor of inner = 18 was expected"):
        moe(1, 24, 4, inner=18, dense_inner=40, tensor_parallel=4)
    with pytest.raises(InputError, match="active = 4 found; at most experts = 3 was expected"):
        moe(1, 24, 4, inner=40, experts=3, active=4)


def test_a_gated_t5_has_a_third_matrix_and_a_head_of_its_own():
    plain, gated = (t5(1, 24, 4, inner=40, vocabulary=100, gated=gated, tied=not gated) for gated in (False, True))
    assert layer(gated, "encoder0.mlp").parameter_bytes - layer(plain, "encoder0.mlp").parameter_bytes == 2 * 24 * 40
    assert (layer(plain, "head").parameter_bytes, layer(gated, "head").parameter_bytes) == (0, 2 * 24 * 100)
    longer = t5(1, 24, 4, decoder_layers=3, vocabulary=100)
    assert [one.name for one in longer.layers if one.name.startswith("decoder2")]
