"""Scores of measured runs: those that ship, a recorded run, a table of iterations."""

import pytest

import pipesim as ps
from helpers.places import DATA, needs_data
from helpers.recorded_runs import pipelined
from pipesim.base.errors import InputError
from pipesim.core.recorded_run import RunLayout
from pipesim.studies import validation
from pipesim.studies.measured_runs import shipped
from pipesim.studies.simulation import Simulation

CLUSTER = 'flat(2, bandwidth="1GB/s", device="cpu", memory="8GiB")'


def scores_of(report):
    return {(one.tier, one.data_set): one for one in report.scores}


# --- what ships ------------------------------------------------------------------------------------------------------


def test_every_shipped_row_is_scored_once():
    report = ps.trust_report()
    assert sum(one.rows for one in report.scores) == len(shipped())
    assert [one.tier for one in report.scores] == sorted(one.tier for one in report.scores)


def test_scores_are_those_of_the_rows():
    one = scores_of(ps.trust_report())["c", "zero_bubble"]
    errors = [run.simulated_s / run.measured_s - 1 for run in shipped() if run.tier == "c" and not run.group]
    assert one.rows == len(errors) == 26
    assert one.mean == pytest.approx(sum(map(abs, errors)) / 26)
    assert one.worst == pytest.approx(max(map(abs, errors)))
    assert one.bias == pytest.approx(sum(errors) / 26)
    assert (len(one.spearman), one.choices, one.regret) == (2, 6, 0.0)


def test_replays_of_recorded_jobs_are_within_a_thousandth_of_a_percent_and_say_what_others_published():
    found = scores_of(ps.trust_report())
    assert {found["a", name].mean < 1e-5 for name in ("SE", "ST", "pp8")} == {True}
    assert found["a", "ST, without launch gaps"].published.startswith("1.9 %")
    assert found["a", "ST, without launch gaps"].bias == pytest.approx(-0.0178, abs=1e-4)
    assert found["d", "simumax"].published == "5.3 % (SimuMax)"


def test_a_tier_without_rows_is_there_as_not_measured():
    report = ps.trust_report([run for run in shipped() if run.tier == "d"])
    data = {one["tier"]: one["data"] for one in report.as_data()["tiers"]}
    assert list(data) == list("abcde")
    assert data["a"] == []


def test_nothing_cannot_be_scored():
    with pytest.raises(InputError, match="no measured runs found"):
        validation.score("d", "none", [])


# --- a recorded run --------------------------------------------------------------------------------------------------


def test_a_recorded_run_is_replayed_and_its_second_half_predicted():
    run = pipelined(RunLayout(2), 4, 10)
    found = scores_of(validation.validate_run(run))
    assert found["a", "own operations"].rows == 10
    assert found["a", "own operations"].worst < 1e-9
    assert found["b", "second half"].rows == 3


def test_a_run_of_few_steps_has_no_second_half():
    report = validation.validate_run(pipelined(RunLayout(2), 4, 3))
    assert [one.tier for one in report.scores] == ["a", "a"]
    assert report.as_data()["intervals"] is None


def test_a_simulation_is_compared_with_the_mean_of_the_steps():
    run = pipelined(RunLayout(2), 4, 3)
    simulation = Simulation(trace="gpt-small-cpu", cluster=CLUSTER, microbatches=4)
    report = validation.validate_run(run, simulation)
    row = report.rows[-1]
    assert (row.tier, row.measured_s) == ("d", pytest.approx(run.step_ns.mean() / 1e9))
    assert row.simulated_s == ps.simulate(simulation).iteration_time
    assert report.simulated == 1


@pytest.mark.docs
def test_the_shipped_rows_of_a_job_are_those_of_its_recording():
    path = DATA / "measured" / "straggler" / "trace-ST.parquet"
    needs_data(path)
    kept = [run for run in shipped() if run.source == "ST" and run.tier == "a" and not run.group]
    found = [run for run in ps.validate(path).rows if run.source == "own operations"]
    assert [run.simulated_s for run in found] == pytest.approx([run.simulated_s for run in kept], rel=1e-5)


# --- a table of iterations -------------------------------------------------------------------------------------------


def test_lines_of_a_table_are_simulated_with_what_they_do_not_state(tmp_path):
    times = [ps.simulate("gpt-small-cpu", CLUSTER, microbatches=count).iteration_time for count in (4, 8)]
    lines = [f"{count},{seconds * 1.25!r}" for count, seconds in zip((4, 8), times, strict=True)]
    (tmp_path / "runs.csv").write_text("\n".join(["microbatches,iteration_s", *lines]), encoding="utf-8")
    report = ps.validate(tmp_path / "runs.csv", trace="gpt-small-cpu", cluster=CLUSTER)
    assert [run.error for run in report.rows] == pytest.approx([-0.2, -0.2])
    assert report.scores[0].bias == pytest.approx(-0.2)


def test_lines_of_the_same_work_are_a_choice(tmp_path):
    text = "scheduler,iteration_s\none_f_one_b,1.0\ngpipe,0.5\n"
    (tmp_path / "runs.csv").write_text(text, encoding="utf-8")
    cluster = 'flat(2, bandwidth="50MB/s", device="cpu", memory="8GiB")'
    report = ps.validate(tmp_path / "runs.csv", trace="gpt-small-cpu", cluster=cluster)
    ours = [run.simulated_s for run in report.rows]
    assert report.scores[0].choices == int(ours[0] != ours[1])


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("iteration_s\n", "no measured iterations found"),
        ("trace,iteration_s\nno-such-trace,1\n", "line 2: .*no-such-trace"),
        ("microbatches,iteration_s\n8,1\n", "line 2: trace, or architecture, is missing"),
    ],
)
def test_what_cannot_be_simulated_is_refused_with_its_line(tmp_path, text, found):
    (tmp_path / "runs.csv").write_text(text, encoding="utf-8")
    with pytest.raises(ps.PipesimError, match=found):
        ps.validate(tmp_path / "runs.csv", cluster=CLUSTER)


def test_an_unknown_keyword_is_refused():
    with pytest.raises(ps.PipesimError, match="microbatches"):
        ps.validate("runs.csv", microbatchs=4)
