"""An iteration in the words of training: GPUs, tokens per second, MFU and HFU, days."""

from dataclasses import replace

import pytest

import pipesim as ps
from pipesim.base.errors import InputError
from pipesim.studies.performance import performance_of, recomputed_flops, tokens_of

PEAK = 989.4e12  # of an H100, in bf16
SEQUENCE, HIDDEN, BLOCKS = 8192, 8192, 80
# Llama 3 70B: parameters without the table of embeddings, which no product reads.
PARAMETERS = 70_553_706_496 - 128_256 * HIDDEN


@pytest.fixture(scope="module")
def llama():
    """Llama 3 70B on four nodes, two pipelines of two, each stage eight wide."""
    return ps.simulate(
        "llama3-70b", "hgx_h100(4)", tensor=8, pipeline=2, data=2, global_batch=8, sequence=SEQUENCE,
        recompute="selective",
    )  # fmt: skip


def test_model_flops_are_six_for_each_token_and_parameter_and_those_of_attention(llama):
    """Kaplan et al.: 6 N for each token, and 12 s h for each block's attention."""
    tokens = 8 * SEQUENCE
    expected = tokens * (6 * PARAMETERS + 12 * SEQUENCE * HIDDEN * BLOCKS)
    assert llama.timeline.program.flops == pytest.approx(expected, rel=1e-3)


def test_mfu_is_model_flops_over_the_peak_of_all_gpus(llama):
    found, seconds = llama.performance, llama.iteration_time
    assert found.gpus == 32
    assert found.mfu == pytest.approx(llama.timeline.program.flops / (seconds * 32 * PEAK))
    assert found.flops_per_s_per_gpu == pytest.approx(found.mfu * PEAK)


def test_tokens_are_those_of_a_job_and_per_gpu(llama):
    found = llama.performance
    assert found.global_batch == 8
    assert found.tokens_per_s == pytest.approx(8 * SEQUENCE / llama.iteration_time)
    assert found.tokens_per_s_per_gpu == pytest.approx(found.tokens_per_s / 32)
    assert found.days(86400 * found.tokens_per_s) == pytest.approx(1)
    assert found.gpu_hours(3600 * found.tokens_per_s) == pytest.approx(32)


def test_hfu_counts_the_attention_that_selective_recomputation_does_again(llama):
    """Two products of sequence x sequence in each block: 4 s h for each token."""
    again = 8 * SEQUENCE * 4 * SEQUENCE * HIDDEN * BLOCKS
    assert recomputed_flops(llama.setup) == pytest.approx(again, rel=0.01)
    assert llama.performance.hfu / llama.performance.mfu - 1 == pytest.approx(
        again / llama.timeline.program.flops, 0.01
    )


def test_full_recomputation_makes_hfu_four_thirds_of_mfu_but_for_the_head(llama):
    full = replace(llama.setup, options=replace(llama.setup.options, recompute="full"))
    found, model = performance_of(full, llama.timeline), llama.setup.costs.model
    blocks = sum(layer.forward_flops for layer, block in zip(model.layers, model.blocks, strict=True) if block >= 0)
    assert 0.97 < blocks / model.forward_flops < 1
    assert found.hfu == pytest.approx(found.mfu * (1 + blocks / model.forward_flops / 3))


def test_without_recomputation_hfu_is_mfu(llama):
    found = performance_of(replace(llama.setup, options=ps.lowering.Options()), llama.timeline)
    assert found.hfu == found.mfu


def test_the_peak_is_that_of_the_precision():
    """A cluster states the peak in fp16; a V100 in fp32 has an eighth of it."""
    found = [
        ps.simulate("model:gpt3-6.7b", "dgx1_v100", sequence=512, precision=precision).timeline.program.peak_flops
        for precision in ("fp16", "fp32")
    ]
    assert found == [8 * 125e12, pytest.approx(8 * 15.7e12)]


def test_what_is_not_known_is_none():
    result = ps.simulate("vgg-small-cpu", 'flat(2, bandwidth="1GB/s")', microbatches=2)
    data = result.as_data()
    assert (data["tokens_per_s"], data["mfu"], data["hfu"], data["training"]) == (None, None, None, None)
    assert data["gpus"] == 2
    with pytest.raises(InputError, match=r"the trace does not say how many tokens a sample has"):
        replace(result, simulation=replace(result.simulation, tokens="15T")).as_data()


def test_tokens_of_a_run_have_units(llama):
    assert tokens_of("15T", SEQUENCE) == 15e12
    training = replace(llama, simulation=replace(llama.simulation, tokens="300B")).as_data()["training"]
    assert training["tokens"] == 300e9
    assert training["days"] * 24 * 32 == pytest.approx(training["gpu_hours"])
