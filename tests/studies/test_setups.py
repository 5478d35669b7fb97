"""What a simulation describes is loaded and planned as described."""

import numpy as np
import pytest

import pipesim as ps
from helpers.networks import chain, pipeline_trace
from helpers.strategies import even_trace
from pipesim.analysis import metrics
from pipesim.base.errors import InputError, PlanError, RefusedError
from pipesim.planners import PLANNERS
from pipesim.studies import results

FLAT = 'flat(4, bandwidth="1GB/s")'


def own_planner(model, cluster, costs, microbatches):
    """A planner that somebody else wrote."""
    from pipesim.planners.uniform import uniform

    return uniform(model, cluster, costs, microbatches, stages=2)


def bad_planner(*_):
    """Not a planner."""


def test_a_plan_for_other_devices_is_refused():
    plan = results.make_plan("vgg-19", FLAT)
    with pytest.raises(PlanError, match=r"stages\[2\].devices\[0\]: cluster .* has no device 'gpu2'"):
        results.simulate("vgg-19", 'flat(2, bandwidth="1GB/s")', plan)


def test_anybodys_function_can_plan():
    plan = results.make_plan(even_trace(4), FLAT, "studies.test_setups:own_planner")
    assert len(plan.stages) == 2
    assert results.make_plan(even_trace(4), FLAT, own_planner) == plan
    with pytest.raises(InputError, match=r"bad_planner.*returned a NoneType; a Plan was expected"):
        results.make_plan(even_trace(4), FLAT, "studies.test_setups:bad_planner")


def test_the_microbatch_size_scales_the_work():
    """Twice the samples take twice as long, seconds and bytes, where links have no latency."""
    flat = 'flat(4, bandwidth="1GB/s", latency=0)'
    one, two = (results.simulate(even_trace(4), flat, microbatch_size=size, sharing="none").timeline for size in (1, 2))
    assert two.makespan == 2 * one.makespan
    assert metrics.throughput(one) == pytest.approx(metrics.throughput(two))


def scenario(tmp_path, text):
    file = tmp_path / "scenario.toml"
    file.write_text(f'format = "pipesim.scenario"\nversion = 1\n{text}', encoding="utf-8")
    return file


def test_a_device_that_is_slow_throughout_takes_longer_for_every_task(tmp_path):
    slow = scenario(tmp_path, '[[slow]]\ndevice = "g0"\nfactor = 2.0\n')
    calm = results.simulate(pipeline_trace([1000], [2000]), chain(1), microbatches=3).timeline
    late = results.simulate(pipeline_trace([1000], [2000]), chain(1), microbatches=3, scenario=slow).timeline
    assert late.makespan == 2 * calm.makespan
    late.verify()


def test_a_device_that_is_slow_for_a_while_loses_just_that(tmp_path):
    """Half speed from 500 to 1500 ns costs 500 ns."""
    slow = scenario(tmp_path, '[[slow]]\ndevice = "g0"\nfactor = 2.0\nstart = "500ns"\nend = "1500ns"\n')
    timeline = results.simulate(pipeline_trace([1000], [2000]), chain(1), microbatches=3, scenario=slow).timeline
    assert timeline.makespan == 3 * 3000 + 500


@pytest.mark.parametrize("sharing", ["none", "fifo", "fair"])
def test_a_degraded_link_carries_a_fraction(tmp_path, sharing):
    """1000 bytes at 1 byte per ns, a quarter of it from 1500 ns on: half is through, the rest takes 4 times as long."""
    bad = scenario(
        tmp_path, '[[degraded]]\nsource = "g0"\ntarget = "g1"\nfraction = 0.25\nstart = "1500ns"\nend = "5us"\n'
    )
    trace = pipeline_trace([1000, 10], [10, 10], [1000])
    timeline = results.simulate(trace, chain(2), "uniform", "gpipe", 1, scenario=bad, sharing=sharing).timeline
    timeline.verify()
    transfer = int(np.flatnonzero(~timeline.program.is_compute & (timeline.program.source == 0))[0])
    assert (timeline.start[transfer], timeline.end[transfer]) == (1000, 1500 + 4 * 500)


def test_a_scenario_for_other_devices_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"slow\[0\].device: cluster 'chain' has no device 'g7'"):
        results.simulate(
            pipeline_trace([1], [1]), chain(1), scenario=scenario(tmp_path, '[[slow]]\ndevice = "g7"\nfactor = 2\n')
        )
    with pytest.raises(InputError, match=r"degraded\[0\]: cluster 'chain' has no link 'a' - 'b'"):
        results.simulate(
            pipeline_trace([1], [1]),
            chain(1),
            scenario=scenario(tmp_path, '[[degraded]]\nsource = "a"\ntarget = "b"\nfraction = 0.5\n'),
        )


def test_an_abstract_channel_has_no_link_to_degrade(tmp_path):
    bad = scenario(tmp_path, '[[degraded]]\nsource = "g0"\ntarget = "g1"\nfraction = 0.5\n')
    with pytest.raises(RefusedError, match="sharing 'channel' has no links to degrade"):
        results.simulate(pipeline_trace([1, 1], [1, 1], [1]), chain(2), scenario=bad, sharing="channel")


@pytest.mark.parametrize("planner", PLANNERS)
def test_every_planner_plans_for_teams(planner):
    """A team is one device to it; the plan has its members, and no GPU twice."""
    result = ps.simulate("model:gpt2", "hgx_h100(1)", planner, microbatches=4, tensor=2)
    result.timeline.verify()
    plan = result.setup.plan
    assert all(len(plan.team(device)) == 2 for device in plan.devices)
    assert len(set(plan.gpus)) == 2 * len(plan.devices) == len(plan.gpus)


@pytest.mark.parametrize(
    ("precision", "fields", "part"),
    [
        ("bf16", {"framework": "megatron"}, 2.0),
        ("fp8", {"framework": "megatron"}, 2.0),  # parameters are kept in bf16
        ("fp16", {"framework": "megatron"}, None),
        ("bf16", {"framework": "deepspeed"}, None),
        ("bf16", {"framework": "megatron", "gradient_precision": "bf16"}, None),
        ("fp16", {"gradient_precision": "fp32"}, 2.0),
    ],
)
def test_gradients_have_the_precision_that_the_framework_gives_them(precision, fields, part):
    made = results.make_setup("gpt(2, 64, 2)", "hgx_h100(1)", precision=precision, **fields)
    assert made.options.gradient_bytes == part


TWO_CHUNKS = 'flat(4, bandwidth="25GB/s", device="v100-16gb")'


@pytest.mark.parametrize("scheduler", ["zb_v", "v_half", "dualpipe_v", "interleaved", "hanayo", "interleaved_zb"])
def test_one_stage_on_each_device_is_refused_with_schedules_of_several(scheduler):
    """Once, `--vpp 1` was taken without a word, and each device had two stages."""
    with pytest.raises(InputError, match=f"interleave = 1 found; scheduler '{scheduler}' has"):
        ps.make_setup("bert-large", TWO_CHUNKS, scheduler=scheduler, pipeline=4, interleave=1)


@pytest.mark.parametrize(("scheduler", "chunks"), [("zb_v", 3), ("interleaved(chunks=3)", 2), ("hanayo(waves=2)", 2)])
def test_stages_per_device_that_contradict_the_schedule_are_refused(scheduler, chunks):
    with pytest.raises(InputError, match=f"interleave = {chunks} found; scheduler "):
        ps.make_setup("bert-large", TWO_CHUNKS, scheduler=scheduler, pipeline=4, interleave=chunks)


@pytest.mark.parametrize("scheduler", ["zb_v", "v_half", "v_min", "dualpipe_v"])
def test_two_stages_per_device_of_a_v_are_cut_as_well_as_without_that_option(scheduler):
    stated, own = (
        ps.make_setup("bert-large", TWO_CHUNKS, scheduler=scheduler, pipeline=4, interleave=chunks, microbatches=8)
        for chunks in (2, None)
    )
    assert stated.plan == own.plan


def test_schedules_of_any_number_of_chunks_take_that_of_the_plan():
    made = ps.make_setup("bert-large", TWO_CHUNKS, scheduler="interleaved", pipeline=4, interleave=3, microbatches=8)
    assert len(made.plan.stages) == 12


def test_slow_devices_are_those_of_a_scenario_stated_in_short(tmp_path):
    words = ("bert-large", 'servers(2, 2, intra="25GB/s", inter="1GB/s")')
    (tmp_path / "slow.toml").write_text(
        'format = "pipesim.scenario"\nversion = 1\n[[slow]]\nnode = "node1"\nfactor = 1.5\n', encoding="utf-8"
    )
    times = {
        results.simulate(*words, microbatches=4, **given).timeline.makespan
        for given in ({"slow": "node1.*=1.5"}, {"scenario": tmp_path / "slow.toml"})
    }
    assert len(times) == 1
    assert times.pop() > results.simulate(*words, microbatches=4).timeline.makespan
