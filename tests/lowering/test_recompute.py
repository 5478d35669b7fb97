"""Activations that are computed once more in place of being kept."""

import numpy as np
import pytest

import pipesim as ps
from helpers.networks import chain, pipeline_trace
from pipesim.analysis import metrics
from pipesim.base.errors import InputError
from pipesim.core.costs import costs_of
from pipesim.core.plan import Plan, Stage
from pipesim.core.schedule import parse
from pipesim.core.trace import Trace
from pipesim.engines.event import run
from pipesim.lowering import Options, Setup, lower


def recomputing(text, recompute):
    """One stage of two layers: the first keeps much for its time, the second little; both read 10 bytes."""
    layers = pipeline_trace([10, 40], [30, 30], hop_bytes=[10]).layers | {"stash_bytes": np.array([100, 60])}
    costs = costs_of(Trace("m", "test", 1, layers))
    plan = Plan("m", 2, 1, (Stage(0, 2, ("g0",)),))
    return run(lower(Setup(plan, parse(text), costs, chain(1), Options(recompute=recompute, optimizer_state=0.0))))


@pytest.mark.parametrize(
    ("recompute", "seconds", "stash", "restored"),
    [("none", 60, 160, 0), ("full", 110, 0 + 10, 100), ("selective", 70, 0 + 60, 100)],
)
def test_recomputation_moves_seconds_into_the_backward_and_bytes_out_of_the_stash(recompute, seconds, stash, restored):
    """The first layer reads nothing that is recorded, so it keeps nothing; `selective` takes it alone."""
    program = recomputing("0F0,0B0", recompute).program
    assert program.duration.tolist() == [50, seconds]
    assert program.memory_start.tolist() == [stash, restored]
    assert program.memory_end.tolist() == [0, -stash - restored]


def test_what_the_weights_gradient_needs_stays_restored_until_then():
    program = recomputing("0F0,0I0,0W0", "full").program
    assert program.duration.sum() == 50 + 60 + 50
    assert program.memory_start.tolist() == [10, 150, 0]
    assert program.memory_end.tolist() == [0, -80, -80]


@pytest.mark.parametrize("forward", [1000, 3000, 4000, 7000])
def test_of_equal_layers_none_is_better_than_the_whole_so_none_is_recomputed(forward):
    """In floating point it depended on the last bit: of 4 us each all were recomputed, of 3 us none."""
    layers = pipeline_trace([forward] * 3, [forward] * 3, [1000] * 2).layers | {"stash_bytes": np.array([5000] * 3)}
    layers["inputs"] = np.array(["-"] * 3, object)
    layers["output_bytes"] = np.array([1000] * 3)
    plan = Plan("m", 3, 1, (Stage(0, 3, ("g0",)),))
    costs = costs_of(Trace("m", "test", 1, layers))
    program = lower(Setup(plan, parse("0F0,0B0"), costs, chain(1), Options(recompute="selective")))
    assert program.duration[:2].tolist() == [3 * forward, 3 * forward]


def kept_by(**options):
    """Seconds of an iteration of a GPT with a large vocabulary on one stage, and the bytes of its device."""
    result = ps.simulate("model:gpt2", 'flat(1, bandwidth="1GB/s", device="a100-80gb")', microbatches=1, **options)
    return result.iteration_time, int(metrics.peak_memory(result.timeline).max())


def test_blocks_are_done_again_as_one_and_embedding_and_head_are_not():
    """As in Megatron-LM: a block keeps its input; the logits of a large vocabulary are not computed twice."""
    none, blocks, layers = kept_by(), kept_by(recompute="full"), kept_by(recompute="full", granularity="layer")
    assert none[0] < blocks[0] < layers[0]
    few = kept_by(recompute="full", recompute_blocks=3)
    assert none[0] < few[0] < blocks[0]
    assert blocks[1] < few[1] < none[1]


def test_selective_recomputation_does_attentions_core_again_and_frees_its_scores():
    none, core, full = kept_by(), kept_by(recompute="selective"), kept_by(recompute="full")
    assert none[0] < core[0] < full[0]
    assert full[1] < core[1] < none[1]


def test_blocks_may_be_done_again_on_some_stages_only():
    """As many on each as its memory asks for: the first stage keeps the most microbatches."""
    cluster = 'flat(2, bandwidth="100GB/s", device="a100-80gb")'
    same, less = (
        ps.simulate(
            "model:gpt2", cluster, pipeline=2, data=1, microbatches=4, recompute="full", recompute_blocks=counts
        ).timeline
        for counts in ("4;4", "4;0")
    )
    assert (metrics.busy(less) <= metrics.busy(same)).tolist() == [True, True]
    assert metrics.busy(less)[0] == metrics.busy(same)[0]
    assert metrics.peak_memory(less)[1] > metrics.peak_memory(same)[1]
    with pytest.raises(InputError, match="recompute_blocks: 3 numbers found; one for each of 2 stages"):
        ps.simulate("model:gpt2", cluster, pipeline=2, data=1, recompute="full", recompute_blocks="1;2;3")
    with pytest.raises(InputError, match="whole numbers such as 3"):
        ps.simulate("model:gpt2", cluster, pipeline=2, data=1, recompute="full", recompute_blocks="1;x")
