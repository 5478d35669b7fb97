"""Recorded runs on the command line: pipesim show RUN, pipesim rebuild FILES."""

import json

import pytest

from helpers.recorded_runs import pipelined
from pipesim.base import tables
from pipesim.core.recorded_run import RunLayout
from pipesim.importers.operations.operation_table import table_of_run


@pytest.fixture
def table(tmp_path):
    tables.write(tmp_path / "run.csv", table_of_run(pipelined(RunLayout(2, 2), 3, 3)))
    return tmp_path / "run.csv"


def test_show_prints_what_a_run_is_and_draws_its_map_and_a_step(run, table, tmp_path):
    code, out, _ = run("show", table, "--plot", tmp_path / "map.png", "--output", tmp_path / "step.svg", "--step", "2")
    assert code == 0
    assert "PP 2, DP 2, 3 microbatches" in out
    assert "Gantt chart of step 2 written" in out
    assert (tmp_path / "map.png").exists()
    assert "rank0" in (tmp_path / "step.svg").read_text()
    assert json.loads(run("show", table, "--json")[1])["step_count"] == 3


def test_pages_of_a_run_have_a_step_as_recorded_and_as_simulated(run, table, tmp_path):
    page = tmp_path / "page.html"
    for command, charts in (("show", 1), ("rebuild", 2), ("report", 2)):
        flag = "-o" if command == "report" else "--html"
        assert run(command, table, flag, page)[0] == 0
        text = page.read_text(encoding="utf-8")
        assert text.count('id="columns') == charts
        assert ("What would help most" in text) == (command == "report")
        page.unlink()
    assert run("report", table, "--bound", "-o", page)[0] == 2


def test_rebuild_simulates_every_step_and_compares(run, table, tmp_path):
    code, out, _ = run(
        "rebuild", table, "--gantt", tmp_path / "g.png", "--save-schedule", tmp_path / "s.csv", "--force"
    )
    assert code == 0
    assert "mean absolute error 0.000 %" in out
    assert (tmp_path / "g.png").exists()
    assert (tmp_path / "s.csv").read_text().startswith("0F0")
    data = json.loads(run("rebuild", table, "--json", "--save-run", tmp_path / "again.csv")[1])
    assert [step["step"] for step in data["steps"]] == [1, 2, 3]
    assert all(step["recorded_s"] == step["simulated_s"] for step in data["steps"])
    assert (tmp_path / "again.csv").read_text() == table.read_text()


def test_a_run_is_asked_for_its_ledger_stragglers_new_steps_and_a_trace(run, table, tmp_path):
    words = ["rebuild", table, "--ledger", "--stragglers", "--iterations", "6"]
    code, out, _ = run(*words, "-o", tmp_path / "trace")
    assert code == 0
    assert "what the iteration consists of" in out
    assert "slowdown by stragglers" in out
    assert "steps drawn from the run" in out
    assert (tmp_path / "trace" / "trace.toml").exists()
    data = json.loads(run(*words, "--draw", "microbatch", "--json")[1])
    for step, one in zip(data["steps"], data["ledgers"], strict=True):
        assert sum(line["ns"] for line in one["lines"]) == round(step["recorded_s"] * 1e9)
    assert sum(line["share"] for line in data["ledger"]["lines"]) == pytest.approx(1)
    assert data["prediction"]["draw"] == "microbatch"
    assert data["straggler_metrics"]["slowdown"] >= 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--step", "9"], "step = 9 found; one of the recorded steps was expected: 1, 2, 3"),
        (["--layers", "modules"], "--layers has no effect for recorded runs of many steps"),
        (["--iterations", "0"], "iterations = 0 found; at least 1 was expected"),
        (["--draw", "step"], "--draw has no effect without --iterations"),
        (["--iteration", "1"], "--iteration has no effect for recorded runs of many steps"),
        (["--save-run", "x.json"], "x.json: cannot be written; a file name ending in .csv or .parquet"),
        (["--columns", "wrong"], "columns = 'wrong' found"),
        (["--columns", "straggler_analysis"], "no column 'optype' (for operation)"),
        (["--run", "a"], "run = 'a' found, and no column that states which run"),
    ],
)
def test_what_has_no_effect_or_is_wrong_is_refused(run, table, words, message):
    code, _, err = run("rebuild", table, *words)
    assert code == 2
    assert message in " ".join(err.split())


def test_options_of_runs_are_refused_for_other_files(run, tmp_path):
    (tmp_path / "rank0.json").write_text('{"traceEvents": []}')
    code, _, err = run("rebuild", tmp_path / "rank0.json", "--dp", "2")
    assert (code, "--data-parallel has no effect for profiles" in err) == (2, True)
    code, _, err = run("show", "bert-large", "--step", "2")
    assert (code, "--step has no effect but for a recorded run" in err) == (2, True)


@pytest.mark.parametrize("several", [False, True])
def test_an_error_of_profiles_names_the_file_once(run, tmp_path, several):
    operator = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 1, "dur": 3, "pid": 1, "tid": 1}
    for rank in range(2 if several else 1):
        profile = {"distributedInfo": {"rank": rank}, "traceEvents": [operator]}
        (tmp_path / f"rank{rank}.json").write_text(json.dumps(profile))
    code, _, err = run(
        "rebuild", tmp_path if several else tmp_path / "rank0.json", "--save-schedule", tmp_path / "s.csv"
    )
    assert (code, err.count("rank0.json"), "no range has the name of an action" in err) == (2, 1, True)


def test_whatif_of_a_run_ranks_what_would_change_its_steps(run, table):
    code, out, _ = run("whatif", table, "--scheduler", "zb_h1")
    assert code == 0
    assert out.startswith("recorded steps take")
    assert "zb_h1" in out
    data = json.loads(run("whatif", table, "--vpp", "2", "--json")[1])
    assert any(one["name"] == "interleaved, 2 chunks" for one in data["gains"])
    code, _, err = run("whatif", table, "--tp", "2")
    assert (code, "has no effect for a recorded run" in " ".join(err.split())) == (2, True)
    code, _, err = run("whatif", "bert-large")
    assert (code, "CLUSTER" in err) == (2, True)


def test_whatif_of_a_run_cuts_its_layers_otherwise(run, table):
    words = ("whatif", table, "--layers", "4,4", "--cut", "5,3", "--cut", "4,4", "--planner", "balanced")
    code, out, _ = run(*words, "--top", "1")
    assert code == 0
    assert [line.split()[:2] for line in out.splitlines() if line.startswith(("cut", "plan"))]
    assert "other cuts: layers are alike:" in out
    found = {(one["what"], one["name"]): one for one in json.loads(run(*words, "--json")[1])["gains"]}
    assert found["cut", "4,4"]["gain_s"] == pytest.approx(0, abs=1e-9)
    assert found["plan", "balanced: 4,4"]["assumes"] == found["cut", "5,3"]["assumes"]
    assert found["stages", "equal work"]["assumes"] == ""


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--planner", "uniform"], "--planner has no effect without --layers"),
        (["--cut", "4,4"], "--cut has no effect without --layers"),
        (["--layers", "4,x"], "--layers '4,x' found; layers per stage were expected, as 8,8,8,6"),
        (["--layers", "4,4", "--cut", "4;4"], "--cut '4;4' found"),
        (["--layers", "4,4", "--cut", "4,5"], "cut 4,5 found: 2 stages of 9 layers"),
        (["--layers", "4,4", "--layer-times", "missing"], "missing"),
        (["--layers", "4,4", "--planner", "data_parallel"], "stage 0 on 2 devices found"),
    ],
)
def test_wrong_cuts_of_a_run_are_refused(run, table, words, message):
    code, _, err = run("whatif", table, *words)
    assert (code, message in " ".join(err.split())) == (2, True), err
    code, _, err = run("whatif", "bert-large", "flat(2)", "--layers", "4,4")
    assert (code, "--layers has no effect but for a recorded run" in " ".join(err.split())) == (2, True)
