"""Attention through narrow vectors, by hand: 3 samples of 5 tokens of 24 values, 4 heads of 4 + 2 values, in fp16."""

import pytest

from pipesim.architectures import latent_attention
from pipesim.architectures.latent_attention import LatentSizes
from pipesim.architectures.transformer import TransformerShape
from pipesim.base.errors import InputError

TOKENS, HIDDEN, HEADS, SEQUENCE = 15, 24, 4, 5
SIZES = LatentSizes(query_rank=8, key_rank=10, plain=4, rotary=2, values=7)


def layer(sizes=SIZES, **options):
    shape = TransformerShape(3, SEQUENCE, HIDDEN, HEADS, 100, "fp16", head_width=6, **options)
    return latent_attention.attention(shape, "block0", sizes)


def test_parameters_are_the_maps_to_and_from_the_narrow_vectors_and_their_norms():
    matrices = 24 * 8 + 8 * 4 * 6 + 24 * (10 + 2) + 10 * 4 * (4 + 7) + 4 * 7 * 24
    assert layer().parameter_bytes == 2 * (matrices + 24 + 8 + 10)
    direct = 24 * 4 * 6 + 24 * (10 + 2) + 10 * 4 * (4 + 7) + 4 * 7 * 24
    assert layer(LatentSizes(None, 10, 4, 2, 7)).parameter_bytes == 2 * (direct + 24 + 10)


def test_flops_are_those_of_the_products_and_of_scores_of_unequal_widths():
    matrices = 24 * 8 + 8 * 4 * 6 + 24 * (10 + 2) + 10 * 4 * (4 + 7) + 4 * 7 * 24
    assert layer().forward_flops == 2 * TOKENS * matrices + 2 * TOKENS * SEQUENCE * HEADS * (6 + 7)


def test_it_keeps_the_inputs_of_norms_and_products_and_a_sum_per_row_of_scores():
    narrow = 2 * 8 + 2 * 10
    assert layer().stash_bytes == 2 * TOKENS * (2 * 24 + narrow + 2 * 4 * 6 + 2 * 4 * 7) + 4 * HEADS * TOKENS


def test_tensor_parallel_devices_divide_heads_and_repeat_the_maps_to_narrow_vectors():
    whole, half = layer(), layer(tensor_parallel=2)
    repeated = 24 * 8 + 24 * (10 + 2) + 24 + 8 + 10
    assert half.parameter_bytes - 2 * repeated == (whole.parameter_bytes - 2 * repeated) / 2
    assert half.output_bytes == whole.output_bytes


def test_its_operations_do_its_flops():
    for options in ({}, {"tensor_parallel": 2}):
        assert layer(**options).work.flops == layer(**options).forward_flops


def test_widths_are_sizes():
    with pytest.raises(InputError, match="key_rank = 0 found"):
        LatentSizes(None, 0, 4, 2, 7)
    with pytest.raises(InputError, match="rotary_width = -1 found"):
        LatentSizes(8, 10, 4, -1, 7)
