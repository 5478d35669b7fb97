"""Folding: what is alike is simulated once, and every task has the times that it has without, to the last bit."""

import random
from dataclasses import replace

import numpy as np
import pytest

import pipesim as ps
from helpers import strategies
from pipesim.analysis import metrics
from pipesim.base.errors import DeadlockError
from pipesim.core.program import TRANSFERS
from pipesim.core.scenario import CALM, Degraded, Scenario, Slow
from pipesim.engines import by_name, compiled, event
from pipesim.lowering import Setup, expanded, fold_of, folding, lower, lower_folded
from pipesim.lowering.setup import SHARDINGS

CLUSTERS = (
    "hgx_h100(2)",
    'servers(4, 4, intra="300GB/s", inter="10GB/s", device="h100-80gb")',
    'leaf_spine(4, 2, 4, bandwidth="10GB/s", uplink="10GB/s", device="h100-80gb")',
    'leaf_spine(2, 2, 8, bandwidth="10GB/s", uplink="2GB/s", device="h100-80gb")',
    'fat_tree(4, bandwidth="10GB/s", device="h100-80gb")',
    'torus2d(4, 4, bandwidth="10GB/s", device="h100-80gb")',
    'flat(16, bandwidth="10GB/s", device="h100-80gb")',
)


def grid(rng: random.Random) -> Setup:
    """Pipelines side by side as Megatron has them; perhaps with a slow GPU, a degraded link, or both."""
    cluster = ps.load_cluster(rng.choice(CLUSTERS))
    tensor, pipeline = rng.choice([1, 2, 4]), rng.choice([1, 2, 4])
    data = 16 // tensor // pipeline
    chunks = rng.choice([1, 2]) if pipeline > 1 else 1
    setup = ps.make_setup(
        "model:bert-large", cluster, tensor=tensor, pipeline=pipeline, data=data, interleave=chunks,
        microbatches=data * pipeline * rng.choice([1, 2]) + (rng.choice([0, 1]) if chunks == 1 else 0), fit=False,
        sharing=rng.choice(["fair", "fair", "none"]),
        transfers=rng.choice(TRANSFERS if chunks == 1 else ("eager", "rendezvous")),
        sharding=rng.choice(SHARDINGS), sharding_size=rng.choice([None, 1, 2] if data % 2 == 0 else [None]),
        gradient_overlap=rng.choice([False, True]), rings=rng.choice(["one", "all"]),
        scatter_sends=rng.choice([False, True]), tied_all_reduce=rng.choice([False, True]),
        gradient_norm=rng.choice([False, True]),
        optimizer_s_per_byte=rng.choice([0.0, 1e-12]),
    )  # fmt: skip
    slow, degraded = rng.choice([(False, False)] * 3 + [(True, False), (False, True), (True, True)])
    link = rng.choice(setup.cluster.links)
    scenario = Scenario(
        (Slow(rng.choice(setup.plan.gpus), 1.5, 0.0, rng.choice([None, 1e-3])),) if slow else (),
        (Degraded(link.source, link.target, 0.5, rng.choice([0.0, 1e-3])),) if degraded else (),
    )
    return replace(setup, scenario=scenario)


def ranked(rates):
    order = np.lexsort((rates.task, rates.time))
    return [column[order].tolist() for column in (rates.task, rates.time, rates.rate)]


def check(setup: Setup) -> int:
    """How many ranks stand for all, where it folds and does not stand still; 0 otherwise."""
    fold = fold_of(setup)
    if fold is None:
        return 0
    few = lower_folded(setup, fold)
    try:
        whole = compiled.run(lower(setup))
    except DeadlockError:
        with pytest.raises(DeadlockError):
            compiled.run(few)
        return 0
    timeline = compiled.run(few)
    assert timeline.same_as(event.run(few)), "both engines"
    found = expanded(setup, fold, timeline)
    assert found.program.same_as(whole.program)
    assert found.same_as(whole)
    if whole.rates is not None:
        assert ranked(found.rates) == ranked(whole.rates)
    assert timeline.makespan == whole.makespan
    return len(set(fold.ranks.tolist()))


def test_pipelines_side_by_side_fold_and_have_the_times_that_they_have_without():
    rng, found = random.Random(1), []
    for _ in range(45):  # of 7 clusters, with and without slow GPUs and degraded links
        setup = grid(rng)
        found.append((check(setup), len(setup.plan.devices), setup.scenario == CALM))
    calm = [few / of for few, of, is_calm in found if is_calm and few]
    disturbed = [few / of for few, of, is_calm in found if not is_calm and few]
    assert len(calm) > 15
    assert len(disturbed) > 6
    assert np.mean(calm) < 0.6
    assert np.mean(calm) < np.mean(disturbed) < 1


def test_whatever_is_drawn_has_the_times_that_it_has_without_folding():
    found = []
    strategies.for_drawn(
        strategies.any_team_jobs, 100, lambda job: found.append(check(Setup(*job[:-1], scenario=job.scenario)))
    )
    # How many fold depends on the modules that are loaded, since Hypothesis draws constants that it finds in them: how
    # many of a fixed choice do is counted above.
    assert any(found)


def test_the_eight_gpus_of_a_team_and_all_replicas_are_one():
    setup = ps.make_setup(
        "gpt3-175b", "hgx_h100(16)", tensor=8, pipeline=4, data=4, microbatches=16, sequence=2048, fit=False
    )
    fold = fold_of(setup)
    assert len(set(fold.ranks.tolist())) == 4
    assert len(lower(setup)) > 8 * len(lower_folded(setup, fold))


def test_a_slow_gpu_makes_only_its_own_pipeline_another_where_links_are_not_shared():
    """Where they are, a ring joins all replicas: which are neighbours of the slow one makes a difference."""
    setup = ps.make_setup(
        "gpt3-175b", "hgx_h100(16)", tensor=8, pipeline=4, data=4, microbatches=16, sequence=2048, fit=False
    )
    slow = replace(setup, scenario=Scenario((Slow("node5.gpu3", 1.2),)))
    assert check(replace(slow, options=replace(slow.options, sharing="none"))) == 8
    assert check(slow) == 16
    assert len(lower(slow)) > 4 * len(lower_folded(slow, fold_of(slow))), "the GPUs of a team still do the same"


@pytest.mark.parametrize(
    ("scenario", "shrinks"),
    [
        (CALM, 4),
        (Scenario(tuple(Slow(f"node5.gpu{i}", 1.2) for i in range(4))), 1.5),
        (Scenario((), (Degraded("pod0.block1.leaf3", "pod0.spine1", 0.25),)), 1.2),
    ],
    ids=["calm", "a slow node", "a degraded link to a spine"],
)
def test_a_fat_tree_of_three_levels_folds_with_a_slow_node_and_with_a_degraded_link(scenario, shrinks):
    cluster = "rail_fat_tree(16, per_leaf=2, leaves=2, spines=2, cores=1, gpus=4, core_oversubscription=4)"
    setup = ps.make_setup(
        "gpt3-175b", cluster, tensor=4, pipeline=4, data=4, interleave=2, microbatches=16, sequence=2048,
        sharding="zero1", gradient_overlap=True, fit=False, scenario=scenario,
    )  # fmt: skip
    assert check(setup)
    assert len(lower(setup)) > shrinks * len(lower_folded(setup, fold_of(setup)))


def test_links_that_carry_one_transfer_after_the_other_tell_copies_apart():
    setup = ps.make_setup(
        "bert-large", "hgx_h100(1)", tensor=1, pipeline=2, data=4, microbatches=8, sharing="fifo", fit=False
    )
    assert fold_of(setup) is None


def test_classes_of_which_some_members_have_more_to_do_with_others_are_refused():
    """Two links that one and two streams of the same class cross: hashes that coincide would merge them."""
    one_rank, all_on_it = np.zeros(1, np.int64), np.zeros(3, np.int64)
    graph = folding._Graph(np.array([0, 1, 2]), np.array([0, 1, 1]), all_on_it, all_on_it, 0)
    merged = folding._Classes(one_rank, np.zeros(3, np.int64), np.zeros(2, np.int64))
    assert not folding._is_even(graph, merged)
    apart = folding._Classes(one_rank, np.array([0, 1, 1]), np.array([0, 1]))
    assert folding._is_even(graph, apart)


def test_metrics_of_what_is_folded_are_those_of_all():
    rng, found = random.Random(2), 0
    for _ in range(16):
        setup = grid(rng)
        fold = fold_of(setup)
        if fold is None:
            continue
        few, whole = (by_name.run(program) for program in (lower_folded(setup, fold), lower(setup)))
        of_all, of_few = metrics.summary(whole), metrics.summary(few)
        links = of_all.pop("links"), of_few.pop("links")
        for found_in in (of_all, of_few):  # of links that are as slow, any may be named, and their time is in parts
            held_by = found_in["critical_path"].pop("held_by")
            found_in["held_on_lanes"] = [row for row in held_by if "->" not in row["where"]]
        assert of_few == of_all
        assert links[0].keys() == links[1].keys()
        for name, one in links[0].items():
            assert one == pytest.approx(links[1][name]), "sums in another order"
        found += 1
    assert found > 8
