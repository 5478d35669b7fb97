"""One way through the house, with things called by their names."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from helpers.networks import chain, pipeline_trace
from helpers.strategies import even_trace, jobs
from pipesim.analysis import metrics
from pipesim.base import serialisation
from pipesim.base.errors import InputError, PlanError, RefusedError, UnknownNameError
from pipesim.core.cluster import Cluster
from pipesim.core.plan import Plan
from pipesim.core.schedule import WEIGHT, Schedule
from pipesim.lowering import Setup, lower
from pipesim.schedulers.gpipe import gpipe
from pipesim.studies import comparison, documents, experiment

FLAT = 'flat(4, bandwidth="1GB/s")'


def own_planner(model, cluster, costs, microbatches):
    """A planner that somebody else wrote."""
    from pipesim.planners.uniform import uniform

    return uniform(model, cluster, costs, microbatches, stages=2)


def bad_planner(*_):
    """Not a planner."""


def test_a_bundled_trace_is_found_by_name():
    assert experiment.load_trace("bert-large").model == "bert-large"
    with pytest.raises(InputError, match="did you mean 'bert-large'"):
        experiment.load_trace("bert-lrage")


def test_a_cluster_comes_from_an_expression_or_from_a_file(tmp_path):
    made = experiment.load_cluster(FLAT)
    for name in ("c.toml", "c.json"):
        serialisation.save(made, tmp_path / name)
        assert experiment.load_cluster(str(tmp_path / name)) == made
    assert isinstance(experiment.load_cluster("dgx1_v100"), Cluster)
    with pytest.raises(UnknownNameError, match="did you mean 'flat'"):
        experiment.load_cluster("flet(4)")


def test_an_expression_is_parsed_and_never_evaluated():
    with pytest.raises(InputError, match="is not a plain number, text, list or tuple"):
        experiment.load_cluster("flat(__import__('os').getpid(), bandwidth=1e9)")


def test_a_plan_is_printed_so_that_it_can_be_loaded_again(tmp_path):
    plan = experiment.make_plan("vgg-19", FLAT, "balanced", 8)
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(documents.plan_data(plan, 0.05, 0.1)), encoding="utf-8")
    assert experiment.load_plan(file) == plan


def test_a_plan_for_other_devices_is_refused():
    plan = experiment.make_plan("vgg-19", FLAT)
    with pytest.raises(PlanError, match=r"stages\[2\].devices\[0\]: cluster .* has no device 'gpu2'"):
        experiment.simulate("vgg-19", 'flat(2, bandwidth="1GB/s")', plan)


def test_anybodys_function_can_plan():
    plan = experiment.make_plan(even_trace(4), FLAT, "studies.test_experiment:own_planner")
    assert len(plan.stages) == 2
    assert experiment.make_plan(even_trace(4), FLAT, own_planner) == plan
    with pytest.raises(InputError, match=r"bad_planner.*returned a NoneType; a Plan was expected"):
        experiment.make_plan(even_trace(4), FLAT, "studies.test_experiment:bad_planner")


def test_a_schedule_comes_from_a_name_a_function_a_value_or_a_file(tmp_path):
    case = experiment.make_case(even_trace(4), FLAT, "balanced", "gpipe", 4)
    case.schedule.save(tmp_path / "s.csv")
    case.schedule.save(tmp_path / "s.json")
    for scheduler in (gpipe, gpipe(case.plan), str(tmp_path / "s.csv"), str(tmp_path / "s.json")):
        assert experiment.make_case(even_trace(4), FLAT, case.plan, scheduler).schedule == case.schedule
    assert isinstance(case.schedule, Schedule)


def test_the_microbatch_size_scales_the_work():
    """Twice the samples take twice as long, seconds and bytes, where links have no latency."""
    flat = 'flat(4, bandwidth="1GB/s", latency=0)'
    one, two = (experiment.simulate(even_trace(4), flat, microbatch_size=size, sharing="none") for size in (1, 2))
    assert two.makespan == 2 * one.makespan
    assert metrics.throughput(one) == pytest.approx(metrics.throughput(two))


# --- replaying with varying times ------------------------------------------------------------------------------------


def sampled_case():
    base = pipeline_trace([1000, 1000], [2000, 2000], [10]).layers
    layers = {name: np.repeat(values, 2) for name, values in base.items()} | {"sample": np.array([0, 1, 0, 1])}
    layers["forward_s"] = layers["forward_s"] * np.array([1, 3, 1, 3])
    trace = experiment.Trace("sampled", "test", 1, layers)
    return experiment.make_case(trace, chain(2), "balanced", "gpipe", 4)


def test_replays_depend_on_the_seed_and_on_nothing_else():
    case = sampled_case()
    ten = list(experiment.replay(case, 10, seed=3))
    assert ten == list(experiment.replay(case, 10, seed=3))
    assert ten[:4] == list(experiment.replay(case, 4, seed=3)), "iteration i does not depend on how many there are"
    assert ten != list(experiment.replay(case, 10, seed=4))
    assert len(set(ten)) > 1


def test_replays_stay_within_the_fastest_and_slowest_samples():
    seconds = list(experiment.replay(sampled_case(), 30))
    fastest, slowest = (2 * 1000 + 3 * 1000 + 2 * 2000 + 3 * 2000) * 1e-9, (5 * 3000 + 5 * 2000 + 20) * 1e-9
    assert all(fastest <= s <= slowest for s in seconds)


def test_a_replay_in_which_nothing_varies_is_refused():
    case = experiment.make_case(even_trace(4), FLAT)
    with pytest.raises(InputError, match="one sample per layer, so every iteration would be the same"):
        list(experiment.replay(case, 3))
    assert len(set(experiment.replay(case, 3, jitter=0.1))) == 3


@pytest.mark.parametrize(
    ("wrong", "message"), [((0, 0, 0.1), "iterations"), ((3, 0, -1), "jitter"), ((3, -1, 0.1), "seed")]
)
def test_wrong_numbers_are_refused(wrong, message):
    with pytest.raises(InputError, match=message):
        list(experiment.replay(sampled_case(), *wrong))


# --- scenarios -------------------------------------------------------------------------------------------------------


def scenario(tmp_path, text):
    file = tmp_path / "scenario.toml"
    file.write_text(f'format = "pipesim.scenario"\nversion = 1\n{text}', encoding="utf-8")
    return file


def test_a_device_that_is_slow_throughout_takes_longer_for_every_task(tmp_path):
    slow = scenario(tmp_path, '[[slow]]\ndevice = "g0"\nfactor = 2.0\n')
    calm = experiment.simulate(pipeline_trace([1000], [2000]), chain(1), microbatches=3)
    late = experiment.simulate(pipeline_trace([1000], [2000]), chain(1), microbatches=3, scenario=slow)
    assert late.makespan == 2 * calm.makespan
    late.verify()


def test_a_device_that_is_slow_for_a_while_loses_just_that(tmp_path):
    """Half speed from 500 to 1500 ns costs 500 ns."""
    slow = scenario(tmp_path, '[[slow]]\ndevice = "g0"\nfactor = 2.0\nstart = "500ns"\nend = "1500ns"\n')
    timeline = experiment.simulate(pipeline_trace([1000], [2000]), chain(1), microbatches=3, scenario=slow)
    assert timeline.makespan == 3 * 3000 + 500


@pytest.mark.parametrize("sharing", ["none", "fifo", "fair"])
def test_a_degraded_link_carries_a_fraction(tmp_path, sharing):
    """1000 bytes at 1 byte per ns, a quarter of it from 1500 ns on: half is through, the rest takes 4 times as long."""
    bad = scenario(
        tmp_path, '[[degraded]]\nsource = "g0"\ntarget = "g1"\nfraction = 0.25\nstart = "1500ns"\nend = "5us"\n'
    )
    trace = pipeline_trace([1000, 10], [10, 10], [1000])
    timeline = experiment.simulate(trace, chain(2), "uniform", "gpipe", 1, scenario=bad, sharing=sharing)
    timeline.verify()
    transfer = int(np.flatnonzero(~timeline.program.is_compute & (timeline.program.source == 0))[0])
    assert (timeline.start[transfer], timeline.end[transfer]) == (1000, 1500 + 4 * 500)


def test_a_scenario_for_other_devices_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"slow\[0\].device: cluster 'chain' has no device 'g7'"):
        experiment.simulate(
            pipeline_trace([1], [1]), chain(1), scenario=scenario(tmp_path, '[[slow]]\ndevice = "g7"\nfactor = 2\n')
        )
    with pytest.raises(InputError, match=r"degraded\[0\]: cluster 'chain' has no link 'a' - 'b'"):
        experiment.simulate(
            pipeline_trace([1], [1]),
            chain(1),
            scenario=scenario(tmp_path, '[[degraded]]\nsource = "a"\ntarget = "b"\nfraction = 0.5\n'),
        )


def test_an_abstract_channel_has_no_link_to_degrade(tmp_path):
    bad = scenario(tmp_path, '[[degraded]]\nsource = "g0"\ntarget = "g1"\nfraction = 0.5\n')
    with pytest.raises(RefusedError, match="sharing 'channel' has no links to degrade"):
        experiment.simulate(pipeline_trace([1, 1], [1, 1], [1]), chain(2), scenario=bad, sharing="channel")


# --- comparing -------------------------------------------------------------------------------------------------------


def test_a_comparison_has_a_row_for_each_pair_and_a_failure_stops_nothing():
    rows = list(comparison.compare(even_trace(4), FLAT, ["uniform(stages=9)", "balanced"], ["gpipe", "one_f_one_b"]))
    assert [(row.planner, row.scheduler) for row in rows] == [
        (planner, scheduler) for planner in ("uniform(stages=9)", "balanced") for scheduler in ("gpipe", "one_f_one_b")
    ]
    assert [bool(row.error) for row in rows] == [True, True, False, False]
    done = [row for row in rows if row.timeline]
    assert comparison.best(rows).timeline.makespan == min(row.timeline.makespan for row in done)


def test_a_name_that_nobody_has_stops_a_comparison_at_once():
    with pytest.raises(UnknownNameError, match="unknown planner 'ballanced'; did you mean 'balanced'"):
        next(comparison.compare(even_trace(4), FLAT, ["ballanced"]))


def test_the_star_of_a_planner_is_on_the_fastest_schedule_that_fits_or_on_none():
    """The first keeps all microbatches, which is too much here; on the tiny devices nothing fits."""
    trace = "bert-large"
    rooms = [lower(experiment.make_case(trace, FLAT, "uniform", name, 8)) for name in ("gpipe", "one_f_one_b")]
    most, least = (int(metrics.peak_memory(experiment.run(program)).max()) for program in rooms)
    cluster = experiment.load_cluster(FLAT)
    small = replace(cluster, devices=tuple(replace(device, memory=(most + least) // 2) for device in cluster.devices))
    rows = list(comparison.compare(trace, small, ["uniform"], ["gpipe", "one_f_one_b", "zb_2p"], 8))
    assert [row.as_data()["fits_memory"] for row in rows][:2] == [False, True]
    (star,) = [row for row, starred in zip(rows, comparison.starred(rows), strict=True) if starred]
    assert star.as_data()["fits_memory"]
    tiny = replace(cluster, devices=tuple(replace(device, memory=1) for device in cluster.devices))
    assert not any(comparison.starred(list(comparison.compare(trace, tiny, ["uniform"], ["gpipe"], 8))))


def test_what_fits_in_memory_is_better_than_what_is_fast():
    small = Cluster("small", tuple(experiment.load_cluster(FLAT).devices[:1]))
    assert small.devices[0].memory > 0
    rows = list(comparison.compare(even_trace(4, parameter_bytes=10**10), small, ["uniform"], ["gpipe"]))
    assert not rows[0].as_data()["fits_memory"]
    assert comparison.best(rows) is rows[0], "if none fits the fastest is named all the same"


@settings(max_examples=50)
@given(jobs(calm=True))
def test_what_is_printed_of_a_simulation_is_json(job):
    case = Setup(job.plan, job.schedule, job.costs, job.cluster, job.options)
    data = documents.simulation_data(case, experiment.run(lower(case)))
    assert json.loads(json.dumps(data, allow_nan=False)) == data


def test_a_plan_that_exists_is_valid_wherever_it_comes_from():
    assert isinstance(experiment.make_plan("gpt2-xl", "dgx1_v100", "uniform(stages=4)"), Plan)


def test_an_assumed_split_of_backwards_is_stated_and_used():
    """Where a trace has whole backwards only: a schedule that splits them says by what, one that does not is silent."""
    trace, cluster = even_trace(4, 1e-3, 2e-3), 'flat(4, bandwidth="10GB/s")'
    for share in (0.25, 0.5):
        case = experiment.make_case(trace, cluster, "balanced", "zb_h1", 8, weight_share=share)
        program = lower(case)
        assert set(program.duration[program.kind == WEIGHT]) == {share * 2e6}
        assert documents.simulation_data(case, experiment.run(program))["weight_share"] == share
    assert experiment.weight_share(experiment.make_case(trace, cluster, "balanced", "one_f_one_b", 8)) is None
    assert (
        experiment.weight_share(experiment.make_case("bert-large", 'flat(4, bandwidth="1GB/s")', "balanced", "zb_h1"))
        is None
    )
