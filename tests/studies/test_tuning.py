"""The search for the best layout: what is left out truly is no better, and the rest is what was simulated."""

import dataclasses
import random
from itertools import pairwise, product
from pathlib import Path

import pytest

import pipesim as ps
from helpers.strategies import even_trace
from pipesim.base.errors import DoesNotFitError, InputError, PipesimError
from pipesim.studies.goodput import Failures
from pipesim.studies.results import simulated
from pipesim.studies.setups import setup_of
from pipesim.studies.simulation import Simulation
from pipesim.studies.sweep.inputs import Inputs
from pipesim.studies.sweep.worker import Worker, WorkerConfig
from pipesim.studies.tuning import TuningOptions, tuned
from pipesim.studies.tuning.layout_prices import Pricing
from pipesim.studies.tuning.lost_parts import without
from pipesim.studies.tuning.pipeline_bounds import balanced
from pipesim.studies.tuning.planner_layouts import is_uneven, planners_for
from pipesim.studies.tuning.search import METRICS, given_fields, prepared
from pipesim.studies.tuning.space import LayoutChoice, Space
from pipesim.studies.tuning_options import prices_of

FOUR = 'servers(2, 2, intra="25GB/s", inter="10Gb/s")'
SMALL = {"trace": "bert-large", "cluster": FOUR, "global_batch": 128}
EIGHT = 'servers(2, 4, intra="300GB/s", inter="100Gb/s", device="a100-40gb")'


def space_of(simulation, given=frozenset()):
    """Prices of a simulation, and all its layouts with what is known of them."""
    inputs = Inputs(Path("tune"))
    for name in ("trace", "cluster"):
        inputs.gather(name, getattr(simulation, name))
    worker = Worker(WorkerConfig(inputs.values, (), "auto"))
    pricing = Pricing(simulation, worker, simulation.global_batch)
    every = Space.of(simulation, given, fewer=False).candidates(pricing.room(given))
    return pricing, [made for one in every if (made := pricing.priced(one)) is not None]


def test_every_layout_is_counted_once():
    found = ps.tune(**SMALL, budget=8)
    counts = found.counts
    assert counts.all == counts.memory + counts.bound + counts.refused + counts.simulated + counts.left
    assert counts.simulated == len(found.rows) > 1


def test_the_best_layout_is_that_of_a_simulation_of_all():
    simulation = Simulation(**SMALL, scheduler="interleaved", pipeline=2, sharding="zero1")
    given = frozenset({"scheduler", "pipeline", "sharding"})
    pricing, priced = space_of(simulation, given)
    times = []
    for one in priced:
        try:
            result = ps.simulate(pricing.point(one.candidate, one.blocks))
        except PipesimError:
            continue
        if result.fits_memory is not False:
            times.append(result.iteration_time)
    rows = ps.tune(simulation, budget=1000).rows  # moved cuts are beside them
    assert min(row.iteration_time for row in rows if row.candidate.cuts in {"even", "balanced"}) == min(times)
    assert len(times) > 10


@pytest.mark.parametrize("seed", range(6))
def test_no_simulation_is_faster_than_the_bound_of_its_layout_and_memory_is_exact(seed):
    rng = random.Random(seed)
    model, cluster = rng.choice([("gpt3-1.3b", EIGHT), ("bert-large", FOUR), ("llama3-8b", "hgx_h100(1)")])
    batch = rng.choice([16, 32])
    framework = rng.choice([None, "megatron", "torch"])
    simulation = Simulation(
        trace=model, cluster=cluster, global_batch=batch * (32 if model == "bert-large" else 1), framework=framework
    )
    pricing, priced = space_of(simulation)
    for one in rng.sample(priced, min(4, len(priced))):
        setup = setup_of(pricing.point(one.candidate, one.blocks, one.redone))
        result = simulated(setup, simulation)
        assert result.iteration_time >= one.bound, one
        assert result.fits_memory is pricing.fits(one), one


def test_what_is_given_is_not_searched():
    found = ps.tune(**SMALL, pipeline=2, recompute="full", budget=8)
    assert {(row.candidate.pipeline, row.candidate.recompute) for row in found.rows} == {(2, "full")}
    assert ps.tune(**SMALL, within="pipeline * data < 4 and sharding == 'none'", budget=8).best.candidate.gpus < 4


def test_a_fixed_value_that_is_the_default_is_not_searched_either():
    found = ps.tune(**SMALL, recompute="none", scheduler="one_f_one_b", budget=8)
    assert {(row.candidate.recompute, row.candidate.scheduler) for row in found.rows} == {("none", "one_f_one_b")}


def test_a_certificate_is_below_every_layout_and_blank_for_other_objectives():
    found = ps.tune(**SMALL, budget=4)
    assert all(found.gap(row) >= 0 for row in found.rows)
    other = ps.tune(**SMALL, budget=4, objective="tokens/s/gpu")
    assert other.certificate is other.own_bound is None
    assert other.gap(other.best) is None


def test_fewer_gpus_are_better_for_each_of_them():
    alone = ps.tune(**SMALL, objective="tokens/s/gpu", budget=8).best
    assert alone.candidate.gpus < ps.tune(**SMALL, budget=8).best.candidate.gpus
    assert alone.value == pytest.approx(alone.iteration_time * alone.candidate.gpus)


def test_cost_counts_what_the_used_gpus_cost():
    best = ps.tune(**SMALL, objective="cost", price="3.6", budget=8).best
    assert best.value == pytest.approx(best.iteration_time * best.candidate.gpus * 3.6 / 3600)
    with pytest.raises(InputError, match="cost needs price"):
        ps.tune(**SMALL, objective="cost")
    with pytest.raises(InputError, match=r"'a100' found; a price such as 2\.5"):
        prices_of("a100")


def test_p95_is_that_of_drawn_iterations():
    found = ps.tune(**SMALL, objective="p95", iterations=10, jitter=0.1, seed=3, pipeline=2, data=2, budget=3)
    again = ps.simulate(found.best.simulation)
    assert found.best.value == again.replay["p95_s"]


def test_the_number_of_workers_changes_nothing():
    assert (
        ps.tune(**SMALL, pipeline=2, budget=9, workers=2).as_data() == ps.tune(**SMALL, pipeline=2, budget=9).as_data()
    )


def test_results_in_a_store_are_taken_from_it(tmp_path, monkeypatch):
    first = ps.tune(**SMALL, budget=6, store=tmp_path / "kept.sqlite")
    monkeypatch.setattr(Worker, "result", lambda *_: pytest.fail("it was simulated again"))
    assert ps.tune(**SMALL, budget=6, store=tmp_path / "kept.sqlite").as_data() == first.as_data()


def test_a_greater_budget_is_never_worse():
    few, many = (ps.tune(**SMALL, budget=budget) for budget in (1, 16))
    assert many.best.value <= few.best.value
    assert few.counts.left > 0
    assert not few.is_complete


def test_on_the_front_nothing_is_both_slower_and_larger():
    front = ps.tune(**SMALL, budget=24, front=True, tensor=1, data=2).front()
    assert len(front) > 1
    for one, other in pairwise(front):
        assert one.iteration_time <= other.iteration_time
        assert one.memory > other.memory


def test_the_command_of_a_row_simulates_it_again():
    row = ps.tune(**SMALL, budget=4).best
    result = ps.simulate(row.simulation)
    assert result.iteration_time == row.iteration_time
    assert "--global-batch 128" in row.command


def test_cuts_of_a_mixed_cluster_give_fast_devices_more():
    kinds = 'servers(2, 2, intra="300GB/s", inter="100Gb/s", device="a100-40gb")'
    cluster = ps.load_cluster(kinds)
    slow = tuple(dataclasses.replace(one, kind="v100-32gb") if one.node == "node1" else one for one in cluster.devices)
    found = ps.tune(
        "gpt3-1.3b",
        dataclasses.replace(cluster, devices=slow),
        global_batch=16,
        tensor=2,
        pipeline=2,
        budget=20,
        within="kinds == ''",
    )
    assert found.best.blocks is not None
    assert found.best.blocks[0] > found.best.blocks[1]


def test_balanced_cuts_are_the_best_of_all():
    rng = random.Random(1)
    for _ in range(60):
        layers, stages = rng.randint(3, 7), rng.randint(2, 3)
        parts = [rng.randint(1, 9) for _ in range(layers)]
        before = [float(sum(parts[:n])) for n in range(layers + 1)]
        room = [rng.choice([float("inf"), 30.0])] * stages
        held = [[value * 1.5 for value in before] for _ in range(stages)]
        best = min(
            (
                max(before[b] - before[a] for a, b in pairwise(cut))
                for inner in product(range(1, layers), repeat=stages - 1)
                if (cut := [0, *inner, layers]) == sorted(set(cut))
                and all((before[b] - before[a]) * 1.5 <= room[n] for n, (a, b) in enumerate(pairwise(cut)))
            ),
            default=None,
        )
        found = balanced([before] * stages, held, room, stages)
        assert (found is None) == (best is None)
        if found is not None:
            assert max(before[b] - before[a] for a, b in pairwise(found)) <= best * 1.001


def test_what_cannot_be_searched_is_refused_by_name():
    with pytest.raises(InputError, match="global_batch is missing"):
        ps.tune("bert-large", FOUR)
    with pytest.raises(InputError, match="context = 2 found; tune searches tensor, pipeline and data widths"):
        ps.tune(**SMALL, context=2)
    with pytest.raises(InputError, match="planner found; the cuts of layers are searched"):
        ps.tune(**SMALL, planner="spp")
    with pytest.raises(InputError, match="nothing is called 'tensors'"):
        ps.tune(**SMALL, within="tensors == 1")
    with pytest.raises(InputError, match="budget = 0 found"):
        ps.tune(**SMALL, budget=0)
    with pytest.raises(InputError, match="no layout found"):
        ps.tune("bert-large", FOUR, global_batch=3)


def test_where_nothing_fits_the_reasons_are_counted():
    tiny = 'servers(2, 2, intra="25GB/s", inter="10Gb/s", memory="100MB")'
    with pytest.raises(DoesNotFitError, match=r"none of [0-9,]+ layouts can be used: [0-9,]+ do not fit in memory"):
        ps.tune("bert-large", tiny, global_batch=128)


def test_values_made_in_python_are_searched_and_not_kept(tmp_path):
    trace, cluster = even_trace(4), ps.load_cluster(FOUR)
    found = ps.tune(trace, cluster, global_batch=8, budget=6)
    assert found.best.iteration_time > 0
    with pytest.raises(InputError, match="store found beside a trace or cluster made in Python"):
        ps.tune(trace, cluster, global_batch=8, budget=6, store=tmp_path / "kept.sqlite")


def test_a_result_is_a_table():
    found = tuned(Simulation(**SMALL), given_fields(Simulation(**SMALL)), TuningOptions(budget=3))
    frame = found.frame()
    assert len(frame) == len(found.rows)
    assert {"tensor", "pipeline", "iteration_time_s", "mfu", "gap", "command"} <= set(frame.columns)


def test_schedules_and_shardings_are_those_of_the_framework():
    for framework, scheduler, sharding in (("deepspeed", {"one_f_one_b"}, {"none", "zero1"}),):
        simulation = Simulation(**SMALL, framework=framework, pipeline=2)
        _, priced = space_of(simulation, frozenset({"pipeline"}))
        assert {one.candidate.scheduler for one in priced} == scheduler
        assert {one.candidate.sharding for one in priced} == sharding


def test_a_layout_knows_its_gpus_and_microbatches():
    one = LayoutChoice(2, 4, 3, 5, 2, "none", "zero1", "interleaved")
    assert (one.gpus, one.stages, one.microbatches(48)) == (24, 20, 8)


def test_cuts_that_are_moved_by_a_block_are_better_where_the_head_is_long():
    """The head of a model with a large vocabulary is worth blocks; chunks of whole blocks cannot be balanced."""
    given = {
        "global_batch": 8,
        "budget": 24,
        "framework": "megatron",
        "tensor": 2,
        "pipeline": 4,
        "scheduler": "interleaved",
    }
    best = ps.tune("llama3-8b", "hgx_h100(1)", **given, interleave=4, microbatch_size=1, recompute="none").best
    assert best.blocks is not None
    assert sum(best.blocks) == 32
    assert best.blocks[-1] < max(best.blocks)


def test_the_bound_of_any_layout_is_no_greater_than_that_of_the_layouts_that_were_searched():
    found = ps.tune(**SMALL, budget=8)
    assert 0 < found.certificate <= found.own_bound <= found.best.iteration_time
    assert found.gap(found.best) >= found.own_gap(found.best) >= 0
    assert ps.tune(**SMALL, budget=1, bound=False).certificate is None


def test_a_slow_gpu_is_in_every_simulation_and_a_faster_one_lowers_the_bounds():
    calm = ps.tune(**SMALL, pipeline=2, budget=6)
    slow = ps.tune(**SMALL, pipeline=2, budget=6, slow="node0.gpu0=2")
    fast = ps.tune(**SMALL, pipeline=2, budget=6, slow="node*.gpu*=0.5")
    assert fast.best.iteration_time < calm.best.iteration_time < slow.best.iteration_time
    assert all(row.bound <= row.iteration_time for found in (slow, fast) for row in found.rows)


def test_what_is_lost_is_not_used():
    found = ps.tune(**SMALL, budget=6, lost="node1; node0.gpu1")
    assert found.best.candidate.gpus == 1
    assert ps.simulate(found.best.simulation).iteration_time == found.best.iteration_time
    assert found.best.command == ""
    with pytest.raises(InputError, match="has no node or device 'node7'"):
        ps.tune(**SMALL, lost="node7")
    with pytest.raises(InputError, match="is all of cluster"):
        ps.tune(**SMALL, lost="node*")


def test_failures_make_iterations_of_many_gpus_longer():
    failing = {"mtbf": "1000h", "restart": "10min", "checkpoint": 60.0}
    found = ps.tune(**SMALL, budget=6, **failing)
    part = Failures(1000 * 3600, 600, 60).goodput(found.best.candidate.gpus)
    assert found.best.metrics["goodput"] == part < 1
    assert found.best.value == pytest.approx(found.best.iteration_time / part)
    with pytest.raises(InputError, match="no effect without mtbf"):
        ps.tune(**SMALL, restart="10min")


TIGHT = 'servers(2, 2, intra="300GB/s", inter="100Gb/s", device="v100-32gb", memory="26GB")'


def test_stages_do_no_more_again_than_they_need_to_fit():
    """The first stages of 1F1B keep most microbatches: they do blocks again, the last ones none."""
    given = {"pipeline": 4, "scheduler": "one_f_one_b", "within": "recompute != 'selective'"}
    found = ps.tune("gpt3-1.3b", TIGHT, global_batch=32, microbatch_size=4, budget=40, **given)
    best = found.best
    assert best.redone is not None
    assert best.redone[0] > best.redone[-1] == 0
    assert best.as_data()["recompute"] == "full"
    assert best.as_data()["recompute_blocks"] == list(best.redone)
    assert "--recompute-blocks" in best.command
    again = ps.simulate(best.simulation)
    assert (again.iteration_time, again.fits_memory) == (best.iteration_time, True)
    others = [row.iteration_time for row in found.rows if row.redone is None]
    assert best.iteration_time < min(others)
    less = ";".join(str(max(count - 1, 0)) for count in best.redone)
    assert ps.simulate(dataclasses.replace(best.simulation, recompute_blocks=less)).fits_memory is False


def test_megatron_does_the_same_number_of_blocks_again_in_every_stage():
    found = ps.tune(
        "gpt3-1.3b", TIGHT, global_batch=32, microbatch_size=4, pipeline=4, framework="megatron", budget=30,
        within="recompute == 'stages'",
    )  # fmt: skip
    assert all(len(set(row.redone)) == 1 for row in found.rows)
    assert isinstance(found.best.simulation.recompute_blocks, int)
    simulation = Simulation(**SMALL, framework="deepspeed", pipeline=2)
    assert {one.candidate.recompute for one in space_of(simulation)[1]} == {"none", "full", "selective"}


def test_layouts_that_need_nothing_done_again_are_searched_once():
    _, priced = space_of(Simulation(**SMALL, pipeline=2), frozenset({"pipeline"}))
    assert "stages" not in {one.candidate.recompute for one in priced}


@pytest.fixture(scope="module")
def mixed():
    """Two nodes of two fast GPUs, and one before them with two slow ones."""
    cluster = ps.load_cluster('servers(3, 2, intra="300GB/s", inter="100Gb/s", device="a100-40gb")')
    slow = [dataclasses.replace(one, kind="v100-32gb", memory=32 * 10**9) for one in cluster.devices[:2]]
    return dataclasses.replace(cluster, devices=(*slow, *cluster.devices[2:]))


def test_the_slow_devices_of_a_mixed_cluster_can_be_left_idle(mixed):
    found = ps.tune("bert-large", mixed, global_batch=32, planners="none", within="data == 4 or pipeline == 4")
    idle = [row for row in found.rows if row.candidate.kinds == "a100-40gb"]
    assert idle
    assert all(row.candidate.gpus <= 4 for row in idle)
    used = ps.simulate(idle[0].simulation).setup.plan.gpus
    assert {mixed.device(name).kind for name in used} == {"a100-40gb"}


def test_plans_of_other_planners_are_beside_the_others_on_a_mixed_cluster(mixed):
    alone = ps.tune("bert-large", mixed, global_batch=64, planners="none", budget=48)
    found = ps.tune("bert-large", mixed, global_batch=64, planners="alpa; dapple", budget=64)
    planned = [row for row in found.rows if row.candidate.planner]
    assert {row.candidate.planner for row in planned} <= {"alpa", "dapple"}
    assert planned
    assert found.best.iteration_time <= alone.best.iteration_time
    assert found.counts.all > alone.counts.all
    assert all(found.gap(row) >= 0 for row in found.rows)
    again = ps.simulate(planned[0].simulation)
    assert again.iteration_time == planned[0].iteration_time
    assert planned[0].as_data()["gpus"] == len(again.setup.plan.gpus)


def test_a_width_that_one_kind_of_device_has_no_team_of_is_left_out(mixed):
    pricing, _, _ = prepared(Simulation(trace="bert-large", cluster=mixed, global_batch=8), METRICS)
    assert sorted(pricing.room(frozenset()).teams) == [1, 2]
    assert dict(pricing.room(frozenset()).teams[2]) == {
        "": (1, 3), "v100-32gb": (0, 1), "a100-40gb,v100-32gb": (2, 3), "a100-40gb": (0, 2),
    }  # fmt: skip


def test_other_planners_are_asked_where_devices_or_links_differ_and_no_framework_is_named(mixed):
    even = ps.load_cluster(FOUR)
    assert planners_for(even, None, None) == ()
    assert "alpa" in planners_for(mixed, None, None)
    assert planners_for(mixed, None, "megatron") == planners_for(mixed, "none", None) == ()
    assert planners_for(even, "spp", "megatron") == ("spp",)
    three = ps.load_cluster('servers(3, 2, intra="25GB/s", inter="10Gb/s")')
    slower = [
        dataclasses.replace(link, bandwidth=link.bandwidth / (4 if "node1" in f"{link.source}{link.target}" else 1))
        for link in three.links
    ]
    assert not is_uneven(three)
    assert is_uneven(dataclasses.replace(three, links=tuple(slower)))
    with pytest.raises(InputError, match="'alpha'"):
        ps.tune(**SMALL, planners="alpha")
    with pytest.raises(InputError, match="planners and pipeline found"):
        ps.tune(**SMALL, pipeline=2, planners="alpa")


def test_bytes_that_leave_a_node_cost_money_too():
    """With a price of what leaves a node, layouts that send nothing between nodes are better."""
    both = {"objective": "cost", "price": "2", "budget": 40}
    free, priced = (ps.tune(**SMALL, **both, price_out=price) for price in (0.0, 100.0))
    best = priced.best
    assert best.metrics["bytes_out_of_nodes"] == 0
    row = next(row for row in priced.rows if row.metrics["bytes_out_of_nodes"] > 0)
    gpus = row.iteration_time * row.candidate.gpus * 2 / 3600
    assert row.value == pytest.approx(gpus + 100 * row.metrics["bytes_out_of_nodes"] / 1e9)
    assert row.metrics["cost_per_million_tokens"] == pytest.approx(row.value / (128 * 512) * 1e6)
    assert "bytes_out_of_nodes" not in free.best.metrics
    with pytest.raises(InputError, match="price_out has no effect without objective = cost"):
        ps.tune(**SMALL, price_out=1.0)
    with pytest.raises(InputError, match="price_out = -1"):
        ps.tune(**SMALL, objective="cost", price="2", price_out=-1.0)


def test_lost_links_are_routed_around():
    two_nics = 'servers(2, 2, intra="25GB/s", inter="10Gb/s", nics=2)'
    whole = ps.load_cluster(two_nics)
    names = [f"{link.source}--{link.target}" for link in whole.links]
    assert "node0.nic0--core" in names
    rest = without(whole, "core--node0.nic0")
    assert len(rest.links) == len(whole.links) - 1
    assert not any("nic0->core" in medium and "node0" in medium for medium in rest.media)
    given = {"trace": "bert-large", "global_batch": 128, "pipeline": 2, "budget": 2}
    lost = ps.tune(cluster=two_nics, lost="core--node0.nic0", **given)
    assert lost.best.iteration_time >= ps.tune(cluster=two_nics, **given).best.iteration_time
    with pytest.raises(InputError, match="has no link 'core--node9'"):
        without(whole, "core--node9")
