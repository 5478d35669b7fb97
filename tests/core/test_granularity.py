"""Blocks are kept together: planners see them as one layer, and their plans are those of layers."""

from dataclasses import replace

import numpy as np
import pytest

from helpers.strategies import even_trace
from pipesim.base.errors import InputError
from pipesim.core.costs import costs_of
from pipesim.core.granularity import blocks_of, even_bounds
from pipesim.core.plan import Plan, Stage
from pipesim.planners import PLANNERS
from pipesim.studies import loading, results

NAMES = [
    "embedding",
    "block0.attention",
    "block0.mlp",
    "block1.attention",
    "block1.mlp",
    "block2.attention",
    "block2.mlp",
]
CLUSTER = 'servers(2, 2, intra="25GB/s", inter="1GB/s")'
BERT = {3 + 2 * n for n in range(24)}  # in each block the cut is before these: embedding, then two layers each
SLOW = {"brute", "spp_plus", "annealing", "piper"}


def named_trace(names, **sizes):
    trace = even_trace(len(names), **sizes)
    return replace(trace, layers={**trace.layers, "name": np.array(names, object)})


def costs(names=(*NAMES, "norm", "head")):
    return costs_of(named_trace(list(names)))


def test_the_layers_of_a_block_are_one_unit_and_others_their_own():
    blocks = blocks_of(costs())
    assert [layer.name for layer in blocks.costs.model.layers] == [
        "embedding",
        "block0",
        "block1",
        "block2",
        "norm",
        "head",
    ]
    assert blocks.bounds.tolist() == [0, 1, 3, 5, 7, 8, 9]


@pytest.mark.parametrize(
    "names", [["a", "b"], ["block0", "block1"], ["blocks.a", "blocks.b"], ["block0.a", "block1.a"]]
)
def test_a_model_without_blocks_of_several_layers_has_no_units(names):
    assert blocks_of(costs(names)) is None


@pytest.mark.parametrize("trace", ["bert-large", "gpt2-xl", "gpt-small-cpu"])
def test_units_cost_what_their_layers_cost(trace):
    fine = costs_of(loading.load_trace(trace))
    blocks = blocks_of(fine)
    starts, ends = blocks.bounds[:-1], blocks.bounds[1:]
    for phase in fine.samples:
        for share in (1.0, 0.5):
            whole = np.add.reduceat(fine.seconds(phase, fine.kinds[0], share), starts)
            assert np.allclose(blocks.costs.seconds(phase, fine.kinds[0], share), whole, rtol=1e-12, atol=0)
    model, units = fine.model, blocks.costs.model
    for name in ("parameter_bytes", "stash_bytes"):
        assert np.array_equal(getattr(units, name), np.add.reduceat(getattr(model, name), starts))
    assert np.array_equal(units.cut_bytes, model.cut_bytes[ends - 1]), "exactly: an output read later crosses cuts too"
    assert units.forward_flops == pytest.approx(model.forward_flops)


def test_plans_go_from_units_to_layers_and_back():
    blocks = blocks_of(costs())
    plan = Plan("even", 6, 4, (Stage(0, 3, ("a",)), Stage(3, 6, ("b",))))
    made = blocks.expanded(plan)
    assert [(stage.start, stage.stop) for stage in made.stages] == [(0, 5), (5, 9)]
    assert blocks.contracted(made) == plan
    assert blocks.contracted(replace(made, stages=(Stage(0, 4, ("a",)), Stage(4, 9, ("b",))))) is None


@pytest.mark.parametrize("planner", sorted(set(PLANNERS) - SLOW))
def test_no_planner_cuts_a_block_unless_layers_are_asked_for(planner):
    plan = results.make_plan("bert-large", CLUSTER, planner, 4)
    assert plan.layers == 52
    assert not BERT & {cut + 1 for cut in plan.cuts if cut < 49}


@pytest.mark.parametrize("planner", ["spp_plus(evaluations=20)", "annealing(evaluations=20)"])
def test_planners_that_simulate_are_given_the_time_of_their_plans_of_layers(planner):
    trace = named_trace([*NAMES, "norm", "head"])
    block = results.make_plan(trace, CLUSTER, planner, 4)
    assert set(block.cuts) <= {1, 3, 5, 7, 8}
    seconds = results.simulate(trace, CLUSTER, block, "pe").iteration_time
    assert block.objective_s <= seconds or "annealing" in planner


@pytest.mark.parametrize("planner", ["balanced", "uniform", "megatron", "dapple"])
def test_without_blocks_granularity_makes_no_difference(planner):
    plans = [results.make_plan("vgg-19", CLUSTER, planner, 4, granularity=one) for one in ("block", "layer")]
    assert plans[0] == plans[1]


def test_blocks_are_divided_evenly_and_the_rest_is_at_the_ends():
    """32 blocks on 4 stages are 8 each: embedding with the first, norm and head with the last."""
    for planner in ("megatron(pipeline=4, data=1)", "uniform"):
        plan = results.make_plan("gpt3-6.7b", 'flat(4, bandwidth="1GB/s")', planner, 4)
        assert [(stage.start, stage.stop) for stage in plan.stages] == [(0, 17), (17, 33), (33, 49), (49, 67)]
    layers = results.make_plan("gpt3-6.7b", 'flat(4, bandwidth="1GB/s")', "uniform", 4, granularity="layer")
    assert layers.cuts == (16, 33, 50)


def test_with_fewer_blocks_than_parts_units_are_divided():
    model = blocks_of(costs()).costs.model
    assert even_bounds(model, 3) == [0, 2, 3, 6]
    assert even_bounds(model, 4) == [0, 1, 3, 4, 6]


@pytest.mark.parametrize("scheduler", ["interleaved(chunks=3)", "zb_v", "hanayo", "looped_bfs"])
def test_layers_that_are_cut_again_are_cut_between_blocks(scheduler):
    made = results.make_setup("bert-large", 'flat(4, bandwidth="1GB/s")', "balanced", scheduler, 8)
    assert not BERT & {cut + 1 for cut in made.plan.cuts if cut < 49}
    layers = results.make_setup(
        "bert-large", 'flat(4, bandwidth="1GB/s")', "balanced", scheduler, 8, granularity="layer"
    )
    assert BERT & {cut + 1 for cut in layers.plan.cuts if cut < 49}


def test_a_plan_that_cuts_blocks_is_cut_again_at_layers():
    plan = results.make_plan("bert-large", 'flat(4, bandwidth="1GB/s")', "uniform", 8, granularity="layer")
    both = [
        results.make_setup("bert-large", 'flat(4, bandwidth="1GB/s")', plan, "interleaved", granularity=one).plan
        for one in ("block", "layer")
    ]
    assert both[0] == both[1]


def test_errors_about_layers_say_that_blocks_are_counted():
    with pytest.raises(InputError, match=r"28 layers\); a block counts as one layer, unless granularity is layer"):
        results.make_plan("bert-large", 'flat(40, bandwidth="1GB/s")', "uniform(stages=30)", 4)
    assert (
        len(
            results.make_plan(
                "bert-large", 'flat(40, bandwidth="1GB/s")', "uniform(stages=30)", 4, granularity="layer"
            ).stages
        )
        == 30
    )
