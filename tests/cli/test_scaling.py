"""--scaling: what a share of a microbatch takes, as recorded of smaller ones or as SPP assumes; and both side by side.

size     1   2   4   8      seconds of a layer's forward; its backward takes twice as long
curve    3   4   6  10      linear in the size, but for 2 that each microbatch takes however small it is
"""

import json
from dataclasses import replace

import numpy as np
import pytest

from pipesim.core.costs import costs_of
from pipesim.core.trace import Trace
from pipesim.studies import certified, loading, results

SIZES, LAYERS = (1, 2, 4, 8), 4
PAIR = 'flat(2, bandwidth="1000 GB/s", latency=0)'
SPLIT = ["-p", "data_parallel", "-m", "4"]


def curve(size):
    return (2.0 + size) * 1e-3


def trace_of(sizes, seconds=curve):
    size = np.repeat(sizes, LAYERS)
    forward = np.array([seconds(n) for n in size])
    columns = {
        "layer": np.tile(np.arange(LAYERS), len(sizes)),
        "name": np.tile(np.array([f"layer{n}" for n in range(LAYERS)], object), len(sizes)),
        "microbatch_size": size,
        "forward_s": forward,
        "backward_s": 2 * forward,
        "output_bytes": size,
    }
    return Trace("curved", "made up", 4, columns)


@pytest.fixture
def traces(tmp_path):
    """Names of folders: times of four sizes on a curve, of four sizes on a line, of one size."""
    made = {
        "curved": trace_of(SIZES),
        "straight": trace_of(SIZES, lambda size: size * 1e-3),
        "single": trace_of((4,)),
    }
    for name, trace in made.items():
        trace.save(tmp_path / name)
    return {name: str(tmp_path / name) for name in made}


def answer(run, *arguments):
    code, out, err = run(*arguments, "--json")
    assert code == 0, err
    return json.loads(out)


# Four microbatches of 4 samples, all layers on both devices: each takes half of every microbatch, 2 samples.
RECORDED = 4 * LAYERS * 3 * curve(2)
LINEAR = 4 * LAYERS * 3 * curve(4) / 2


def test_simulate_takes_halves_as_recorded_or_as_half_of_the_time(run, traces):
    for scaling, expected in (("recorded", RECORDED), ("linear", LINEAR)):
        data = answer(run, "simulate", traces["curved"], PAIR, *SPLIT, "-s", "gpipe", "--scaling", scaling)
        assert data["iteration_time_s"] == pytest.approx(expected, rel=1e-6)
        assert data["scaling"] == scaling
        assert data["iteration_time_by_scaling_s"]["recorded"] == pytest.approx(RECORDED, rel=1e-6)
        assert data["iteration_time_by_scaling_s"]["linear"] == pytest.approx(LINEAR, rel=1e-6)
        assert data["iteration_time_by_scaling_s"][scaling] == data["iteration_time_s"]


def test_recorded_is_the_default(run, traces):
    arguments = ["simulate", traces["curved"], PAIR, *SPLIT]
    assert answer(run, *arguments) == answer(run, *arguments, "--scaling", "recorded")


def table_of(out):
    """The lines of a comparison's table, which is below the headline and notes."""
    lines = out.splitlines()
    return lines[next(n for n, line in enumerate(lines) if line.startswith("planner")) :]


@pytest.mark.parametrize(("scaling", "label"), [("recorded", "if linear "), ("linear", "as recorded ")])
def test_simulate_and_compare_say_the_other_time_in_words(run, traces, scaling, label):
    _, out, _ = run("simulate", traces["curved"], PAIR, *SPLIT, "--scaling", scaling)
    assert sum(line.startswith(label) for line in out.splitlines()) == 1
    _, out, _ = run(
        "compare", traces["curved"], PAIR, *SPLIT, "-p", "uniform(stages=3)", "-s", "gpipe", "--scaling", scaling
    )
    assert f"iteration {label}" in " ".join(table_of(out)[0].split())
    assert "uniform(stages=3) + gpipe: " in out, "a row that failed stands beside one with the other time"


def test_compare_has_one_column_more_where_it_makes_a_difference_in_any_row(run, traces):
    """A plan that splits nothing takes as long under both; its cell says so."""
    arguments = ["compare", traces["curved"], PAIR, *SPLIT, "-p", "uniform", "-s", "gpipe"]
    lines = table_of(run(*arguments)[1])
    assert "if linear" in lines[0]
    split, whole = ([cell for cell in line.split("  ") if cell.strip()] for line in lines[2:4])
    assert split[2].strip() == "192.0 ms"
    assert split[3].strip() == "144.0 ms"
    assert whole[2].strip() == whole[3].strip()
    data = answer(run, *arguments)["rows"]
    assert data[0]["iteration_time_by_scaling_s"] == pytest.approx({"recorded": RECORDED, "linear": LINEAR}, rel=1e-6)
    assert data[1]["iteration_time_by_scaling_s"] is None


@pytest.mark.parametrize("name", ["straight", "single"])
def test_where_times_are_linear_or_one_size_was_recorded_nothing_is_said_of_it(run, traces, name):
    for command in ("compare", "simulate"):
        code, out, _ = run(command, traces[name], PAIR, *SPLIT)
        assert code == 0
        shown = (line for line in out.splitlines() if "measured runs" not in line)
        below = "\n".join(line for line in shown if not line.startswith("trace "))  # which was recorded
        assert "linear" not in below
        assert "recorded" not in below


def test_replicas_that_take_whole_microbatches_make_no_difference():
    """`whole` replication gives each replica microbatches as they were recorded."""
    trace, cluster = trace_of(SIZES), loading.load_cluster(PAIR)
    split = results.make_plan(trace, cluster, "data_parallel", 4)
    costs = costs_of(trace)
    whole = replace(split, replicas="whole")
    assert certified.plan_times_by_scaling(whole, costs, cluster) is None
    assert certified.plan_times_by_scaling(split, costs, cluster) is not None


def test_plan_says_what_its_plan_takes_under_both_and_the_file_can_be_read_again(run, traces, tmp_path):
    data = answer(run, "plan", traces["curved"], PAIR, *SPLIT, "--scaling", "linear")
    assert data["scaling"] == "linear"
    assert data["seconds_by_scaling"] == pytest.approx({"recorded": RECORDED, "linear": LINEAR}, rel=1e-6)
    (tmp_path / "plan.json").write_text(json.dumps(data))
    assert loading.load_plan(tmp_path / "plan.json").devices == ("gpu0", "gpu1")
    _, out, _ = run("plan", traces["curved"], PAIR, *SPLIT)
    assert "192.0 ms (as recorded for smaller microbatches), 144.0 ms (linear in the share" in out
    assert "shares" not in run("plan", traces["single"], PAIR, *SPLIT)[1]


def test_planners_plan_under_the_scaling_that_is_asked_for(run, traces):
    """SPP's objective takes two devices to halve the time, or what was recorded of half a microbatch."""
    plans = {
        scaling: answer(run, "plan", traces["curved"], PAIR, "-p", "spp", "-m", "1", "--scaling", scaling)
        for scaling in ("recorded", "linear")
    }
    assert plans["linear"]["objective_s"] == pytest.approx(LAYERS * 3 * curve(4) / 2, rel=1e-3)
    assert plans["recorded"]["objective_s"] == pytest.approx(LAYERS * 3 * curve(2), rel=1e-3)


def test_the_same_is_offered_in_python():
    trace = trace_of(SIZES)
    linear = results.simulate(trace, PAIR, "data_parallel", "gpipe", 4, scaling="linear").timeline
    recorded = results.simulate(trace, PAIR, "data_parallel", "gpipe", 4).timeline
    assert linear.makespan / 1e9 == pytest.approx(LINEAR, rel=1e-6)
    assert recorded.makespan / 1e9 == pytest.approx(RECORDED, rel=1e-6)


def test_an_unknown_scaling_is_refused_with_exit_code_2(run, traces):
    code, _, err = run("plan", traces["curved"], PAIR, "--scaling", "cubic")
    assert code == 2
    assert "'cubic'" in err
