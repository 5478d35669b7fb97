"""Other cuts of recorded runs: the runs that they would have been, where it is known what those are."""

import numpy as np
import pytest

from helpers import recorded_runs
from helpers.places import DATA, needs_data
from helpers.small_traces import trace_of
from pipesim.analysis.run_layers import equal_layers, layers_of_trace
from pipesim.analysis.run_variance import ComputingTimes
from pipesim.base.errors import InputError
from pipesim.core.recorded_run import FORWARD, RunLayout
from pipesim.importers.run_opening import open_run
from pipesim.studies.run_cuts import Cuts
from pipesim.studies.run_whatif import changes

BLOCK, HEAD = 5, 4  # ms of a forward


def recorded(layout, counts, head=HEAD):
    """A run of stages with so many blocks, and a head on the last."""
    forwards = [BLOCK * count for count in counts]
    forwards[-1] += head
    return recorded_runs.pipelined(layout, microbatches=4, steps=3, forwards=forwards)


def layers_with(forwards, parameters=0):
    """A trace of layers with these forwards, and backwards of twice that."""
    count = len(forwards)
    return trace_of(
        layer=list(range(count)),
        name=[f"layer{n}" for n in range(count)],
        forward_s=forwards,
        backward_s=[2 * one for one in forwards],
        output_bytes=[10**6] * count,
        parameter_bytes=[parameters] * count,
    )


def layers_of(run, counts):
    return equal_layers(ComputingTimes.of(run), counts)


def found(run, layers, schedules=(), **cuts):
    rows = changes(run, schedules=schedules, cuts=Cuts(layers, **cuts))
    return {(one.what, one.name): one for one in rows if one.assumes}


@pytest.mark.parametrize(
    ("layout", "before", "after"),
    [
        (RunLayout(3), (2, 2, 2), (2, 3, 1)),
        (RunLayout(3, 2), (1, 4, 2), (3, 2, 2)),
        (RunLayout(2, 2), (3, 3), (4, 2)),
        (RunLayout(2, 1, vpp=2), (2, 2, 2, 2), (1, 3, 3, 1)),
    ],
)
def test_a_cut_takes_as_long_as_the_run_with_that_cut(layout, before, after):
    run = recorded(layout, before)
    layers = layers_of(run, before)
    rows = found(run, layers, counts=[before, after])
    shown = [",".join(map(str, counts)) for counts in (before, after)]
    assert rows["cut", shown[0]].gain_s == pytest.approx(0, abs=1e-9)
    other = recorded(layout, after).step_ns.mean() / 1e9
    assert rows["cut", shown[1]].iteration_time_s == pytest.approx(other, abs=1e-8)
    assert "layers are alike: 16.5 ms each" in rows["cut", shown[1]].assumes
    assert "the last 13.2 ms beyond its layers" in rows["cut", shown[1]].assumes


def test_a_planner_finds_the_cut_that_the_head_asks_for():
    layout, head = RunLayout(3, 2), 3 * BLOCK
    run = recorded(layout, (4, 4, 4), head)
    rows = found(run, layers_of(run, (4, 4, 4)), planners=["balanced", "uniform"])
    best = rows["plan", "balanced: 5,5,2"]
    assert best.iteration_time_s == pytest.approx(recorded(layout, (5, 5, 2), head).step_ns.mean() / 1e9, abs=1e-8)
    assert rows["plan", "uniform: 4,4,4"].gain_s == pytest.approx(0, abs=1e-9)


def test_a_run_whose_order_no_scheduler_has_is_planned_in_its_recorded_steps():
    run = recorded(RunLayout(2, 1, vpp=2), (2, 2, 2, 2))
    rows = found(run, layers_of(run, (2, 2, 2, 2)), planners=["balanced"])
    assert rows["plan", "balanced: 2,2,2,2"].gain_s == pytest.approx(0, abs=1e-9)
    with pytest.raises(InputError, match="no scheduler has the order of this run"):
        found(run, layers_of(run, (2, 2, 2, 2)), planners=["balanced(stages=1)"])


def test_a_cut_under_another_schedule_is_what_that_schedule_makes_of_it():
    run = recorded(RunLayout(3), (2, 2, 2))
    rows = changes(
        run, schedules=[("zb_h1", None)], cuts=Cuts(layers_of(run, (2, 2, 2)), [(2, 2, 2), (1, 3, 2)], ["balanced"])
    )
    rows = {(one.what, one.name): one.iteration_time_s for one in rows}
    assert rows["cut", "2,2,2, zb_h1"] == pytest.approx(rows["schedule", "zb_h1"], abs=1e-8)
    assert rows["plan", "balanced: 2,2,2, zb_h1"] == pytest.approx(rows["cut", "2,2,2, zb_h1"])
    assert rows["cut", "1,3,2, zb_h1"] > rows["cut", "2,2,2, zb_h1"]


def test_what_a_device_takes_more_than_its_layers_it_takes_under_any_cut():
    run = recorded_runs.pipelined(RunLayout(4), 4, 2, forwards=[10, 10, 15, 10])
    layers = layers_of(run, (2, 2, 2, 2))
    stages = layers.of_stages((2, 2, 2, 2))[FORWARD]
    assert stages == pytest.approx(1.05e6 * np.array([12.5] * 4))  # blocks of the inner stages, nothing beyond them
    other = recorded_runs.pipelined(RunLayout(4), 4, 2, forwards=[10, 15, 7.5, 10])
    row = found(run, layers, counts=[(2, 3, 1, 2)])["cut", "2,3,1,2"]
    assert row.iteration_time_s == pytest.approx(other.step_ns.mean() / 1e9, abs=1e-8)


def test_layers_of_a_trace_are_cut_in_proportion_to_their_times():
    run = recorded_runs.pipelined(RunLayout(2), 4, 2, forwards=[6, 6])
    trace = layers_with([1.0, 2.0, 3.0])
    layers = layers_of_trace(ComputingTimes.of(run), (2, 1), trace)
    other = recorded_runs.pipelined(RunLayout(2), 4, 2, forwards=[2, 10])
    row = found(run, layers, counts=[(1, 2)])["cut", "1,2"]
    assert row.iteration_time_s == pytest.approx(other.step_ns.mean() / 1e9, abs=1e-8)
    assert "in proportion to those of the trace" in row.assumes


def test_stages_on_several_devices_need_bytes():
    run = recorded(RunLayout(2), (3, 3))
    with pytest.raises(InputError, match="stage 0 on 2 devices found; how long they take to sum gradients"):
        found(run, layers_of(run, (3, 3)), planners=["data_parallel"])
    trace = layers_with([1.0] * 6, parameters=1000)
    rows = found(run, layers_of_trace(ComputingTimes.of(run), (3, 3), trace), planners=["data_parallel"])
    (row,) = rows.values()
    assert row.name == "data_parallel: 6 x 2"
    assert row.gain_s > 0  # nothing to fill or drain, and next to nothing to sum


@pytest.mark.parametrize(
    ("counts", "cut", "message"),
    [
        ((2, 2), (2, 2), "layers 2,2 found, of 2 stages; 3 numbers were expected"),
        ((2, 2, 0), (2, 2, 2), "layers = 0 found"),
        ((2, 2, 2), (2, 2, 3), "cut 2,2,3 found: 3 stages of 7 layers; 3 stages of 6 layers"),
        ((2, 2, 2), (3, 3), "cut 3,3 found: 2 stages of 6 layers"),
        ((2, 2, 2), (6, 0, 0), "cut = 0 found"),
    ],
)
def test_numbers_that_do_not_fit_the_run_are_refused(counts, cut, message):
    run = recorded(RunLayout(3), (2, 2, 2))
    with pytest.raises(InputError, match=message):
        found(run, layers_of(run, counts), counts=[cut])


def test_what_cannot_be_cut_is_refused():
    alone = recorded_runs.pipelined(RunLayout(1), 4, 2)
    with pytest.raises(InputError, match="one stage; at least two were expected"):
        layers_of(alone, (2,))
    run = recorded(RunLayout(2), (3, 3))
    with pytest.raises(InputError, match="zb_v cuts layers again"):
        found(run, layers_of(run, (3, 3)), schedules=[("zb_v", None)], counts=[(4, 2)])
    times = ComputingTimes.of(run)
    with pytest.raises(InputError, match="has 2, and as many were expected"):
        layers_of_trace(times, (3, 3), layers_with([1.0, 1.0]))


def test_the_last_stage_of_a_real_job_is_relieved_by_a_planner():
    run = open_run([needs_data(DATA / "measured" / "straggler" / "trace-ST.parquet")])
    rows = found(run, layers_of(run, (8, 8, 8, 8)), counts=[(8, 8, 8, 8)], planners=["balanced"])
    assert rows["cut", "8,8,8,8"].gain_s == pytest.approx(0, abs=1e-9)
    (plan,) = (row for (what, _), row in rows.items() if what == "plan")
    assert plan.name == "balanced: 9,10,9,4"
    equal = next(one for one in changes(run) if one.what == "stages")
    assert equal.gain_s * 0.9 < plan.gain_s <= equal.gain_s
