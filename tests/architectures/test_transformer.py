import pytest

from helpers.models import build, parameters
from pipesim.architectures.gpt import gpt


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        ("gpt2-xl", (2, 1024, 48, 1600, 50257)),
        ("gpt3-6.7b", (1, 2048, 32, 4096, 50257)),
        ("bert-large", (4, 512, 24, 1024, 30522)),
    ],
)
def test_flops_of_transformers_follow_the_published_formula(text, sizes):
    """Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters" (2021), appendix.

    Forward, of a block 24bsh² + 4bs²h, of the logits 2bshV.
    """
    b, s, blocks, h, V = sizes
    published = blocks * (24 * b * s * h**2 + 4 * b * s**2 * h) + 2 * b * s * h * V
    assert build(text, microbatch=b).forward_flops == pytest.approx(published, rel=0.01)


def test_a_block_keeps_the_activations_of_the_published_formula():
    """Korthikanti et al. (2022), equation 1: sbh (34 + 5as/h) bytes in fp16, with dropout, scores kept."""
    model = gpt(1, 96, 8, sequence=32, microbatch=3)
    s, b, h, a = 32, 3, 96, 8
    assert model.layers[1].stash_bytes + model.layers[2].stash_bytes == s * b * h * 34 + 5 * a * s * s * b


def test_an_untied_head_has_the_matrix_that_a_tied_one_shares():
    tied, untied = gpt(2, 24, 4, vocabulary=100), gpt(2, 24, 4, vocabulary=100, tied=False)
    assert tied.layers[-1].parameter_bytes == 0
    assert untied.layers[-1].parameter_bytes == 24 * 100 * 2
    assert tied.forward_flops == untied.forward_flops


def test_the_position_table_is_as_long_as_said_and_by_default_as_the_sequence():
    short = gpt(1, 24, 4, sequence=16)
    long = gpt(1, 24, 4, sequence=16, positions=64)
    assert long.layers[0].parameter_bytes - short.layers[0].parameter_bytes == (64 - 16) * 24 * 2
    assert parameters(build("gpt2-xl", sequence=128)) == parameters(build("gpt2-xl"))


def test_the_ends_of_a_gpt_by_hand():
    """Five tokens of 24 values in fp16, 100 words, five positions."""
    model = gpt(1, 24, 4, vocabulary=100, sequence=5)
    embedding, *_, norm, head = model.layers
    assert (embedding.stash_bytes, embedding.forward_flops) == (5 * 8 + 5 * 24, 5 * 24)
    assert embedding.parameter_bytes == 2 * 24 * (100 + 5)
    assert (norm.stash_bytes, norm.forward_flops) == (2 * 5 * 24, 7 * 5 * 24)
    assert (head.stash_bytes, head.output_bytes) == (2 * 5 * (24 + 100), 2 * 5 * 100)
