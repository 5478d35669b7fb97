"""Sweeps at the command line: what is printed, what is written, what is refused."""

import itertools
import json
import os
import pty
import random
import re
import subprocess
import sys
import time
from dataclasses import fields

import pytest

from helpers import sweeps
from helpers.mutations import mutations
from helpers.places import ROOT
from pipesim.cli.commands.plot_command import plot as plot_command
from pipesim.display.figures import Chart

EXPERIMENT = (
    sweeps.HEAD
    + """
[simulate]
trace = "bert-large"
cluster = 'flat({gpus}, bandwidth="{rate} Gb/s")'

[grid]
gpus = [2, 4]
rate = [1, 10]
planner = ["uniform", "uniform(stages=3)"]

[output]
metrics = ["iteration_time_s", "throughput_samples_per_s", "fits_memory"]

[plot]
time = { kind = "line", x = "rate", y = "iteration_time_s", series = "planner", panels = "gpus" }
speed = { kind = "bars", x = "gpus", y = "throughput_samples_per_s", series = "planner", formats = ["png", "svg"] }
"""
)


@pytest.fixture
def file(tmp_path):
    return sweeps.write(tmp_path, EXPERIMENT)


@pytest.fixture
def swept(file, run):
    assert run("sweep", file, "--workers", "1")[0] == 0
    return file


def test_a_sweep_says_what_it_did_and_where_failures_are_explained(file, run):
    code, out, err = run("sweep", file, "--workers", "1")
    assert (code, err) == (0, "")
    assert re.search(r"experiment +8 +8 +0 +2 ", out)
    assert "pipesim rows FILE --query 'error is not null'" in out
    data = json.loads(run("sweep", file, "--json")[1])
    assert {name: data[name] for name in ("points", "done", "left", "failed")} == {
        "points": 8, "done": 8, "left": 0, "failed": 2
    }  # fmt: skip


def test_a_dry_run_shows_the_points_and_computes_nothing(file, run):
    code, out, _ = run("sweep", file, "--dry-run")
    assert code == 0
    assert 'flat(2, bandwidth="1 Gb/s")' in out
    assert json.loads(run("sweep", file, "--dry-run", "--json")[1])["points"] == 8
    assert not file.with_suffix(".sqlite").exists()


def test_a_part_can_be_swept_first_and_the_status_says_what_is_left(file, run, monkeypatch):
    run("sweep", file, "--workers", "1", "--only", "gpus < 4 and planner == 'uniform'")
    data = json.loads(run("sweep", file, "--status", "--json")[1])
    assert (data["done"], data["left"]) == (2, 6)
    monkeypatch.chdir(file.parent)
    code, out, _ = run("sweep", "--status")
    assert code == 0
    assert re.search(r"experiment +8 +2 +6 ", out)


def test_rows_are_shown_queried_and_written(swept, run):
    code, out, _ = run("rows", swept)
    assert code == 0
    assert "stages = 3 found; 1 to 2 was expected" in out
    assert "error" not in run("rows", swept, "--query", "gpus = 4")[1]
    rows = json.loads(run("rows", swept, "--query", "gpus = 4 and rate > 1", "--json")[1])["rows"]
    assert [row["planner"] for row in rows] == ["uniform", "uniform(stages=3)"]
    counted = "select gpus, count(*) as n from rows where error is null group by gpus"
    assert json.loads(run("rows", swept, "-q", counted, "--json")[1])["rows"] == [
        {"gpus": 2, "n": 2}, {"gpus": 4, "n": 4}
    ]  # fmt: skip


def test_exports_read_back_exactly(swept, run, tmp_path):
    pytest.importorskip("pyarrow", reason="parquet needs pyarrow")
    code, out, _ = run("rows", swept, "--csv", tmp_path / "r.csv", "--parquet", tmp_path / "r.parquet")
    assert (code, out.count("8 rows written")) == (0, 2)
    assert run("rows", swept, "--csv", "-")[1] == (tmp_path / "r.csv").read_text()
    from pipesim.studies.sweep.show import read_table

    rows = json.loads(run("rows", swept, "--json")[1])["rows"]
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    assert read_table(tmp_path / "r.csv") == columns
    assert read_table(tmp_path / "r.parquet") == columns


def test_the_results_file_alone_is_enough(swept, run, tmp_path):
    store = swept.with_suffix(".sqlite")
    assert run("rows", store, "--csv", "-")[1] == run("rows", swept, "--csv", "-")[1]
    assert json.loads(run("sweep", "--status", store, "--json")[1])["done"] == 8
    code, _, _ = run("plot", store, "time", "--folder", tmp_path / "figures")
    assert code == 0
    assert (tmp_path / "figures" / "time.pdf").exists()


def test_all_charts_of_the_file_are_drawn_beside_it(swept, run):
    code, out, _ = run("plot", swept)
    assert code == 0
    for name in ("time.pdf", "speed.png", "speed.svg"):
        assert (swept.parent / name).stat().st_size > 1000
        assert name in out


def test_every_key_of_a_chart_is_an_option_too_but_for_its_style_which_is_a_table():
    options = {parameter.name for parameter in plot_command.params}
    assert {field.name for field in fields(Chart)} - {"style"} <= options


def test_axes_of_ones_own_a_limit_and_an_ideal_are_asked_for_in_one_line(swept, run, tmp_path):
    for number, more in enumerate(
        (["--own-y", "--panels", "gpus"], ["--limit", "iteration_time_s / 2", "--limit-label", "half"])
    ):
        picture = tmp_path / f"{number}.png"
        line = ["--kind", "line", "--x", "rate", "--y", "iteration_time_s", *more, "-o", str(picture)]
        assert run("plot", str(swept), *line)[0] == 0
        assert picture.stat().st_size > 5000
    line = ["--kind", "scaling", "--x", "gpus", "--y", "iteration_time_s", "--ideal", "up", "-o", str(picture)]
    code, _, error = run("plot", str(swept), *line)
    assert code == 2
    assert "ideal: 'up' found; one of '', 'rising', 'falling', 'flat' was expected" in error


def test_a_chart_is_asked_for_in_one_line(swept, run, tmp_path):
    one = ["--kind", "heat_map", "--x", "rate", "--y", "gpus", "--value", "iteration_time_s", "--statistic", "min"]
    code, out, _ = run("plot", swept, *one, "-o", tmp_path / "map.png", "--json")
    assert code == 0
    assert json.loads(out)["figures"] == [{"name": "experiment", "file": str(tmp_path / "map.png")}]
    run("rows", swept, "--csv", tmp_path / "r.csv")
    run("plot", tmp_path / "r.csv", *one, "-o", tmp_path / "again.png")
    assert (tmp_path / "map.png").read_bytes() == (tmp_path / "again.png").read_bytes()
    run("plot", swept, "time", "--rows", tmp_path / "r.csv", "--format", "svg", "--width", "double")
    assert (swept.parent / "time.svg").exists()


WRONG = {
    "no file": (["sweep"], "FILE is missing"),
    "no such file": (["sweep", "none.toml"], "none.toml: no such file"),
    "not TOML": (["sweep", "experiment.csv"], "experiment.csv: no such file"),
    "no workers": (["sweep", "FILE", "-w", "0"], "workers = 0 found; at least 1"),
    "no engine": (["sweep", "FILE", "--engine", "vent"], "did you mean 'event'"),
    "a formula of nothing": (["sweep", "FILE", "--only", "gpu > 1"], "only: where: 'gpu > 1': nothing is called 'gpu'"),
    "nothing swept": (["rows", "FILE"], "experiment.sqlite: no such file; `pipesim sweep` creates it"),
    "no status": (["sweep", "--status"], "no results (*.sqlite) in this folder"),
    "no chart": (["plot", "FILE", "tim"], "no such file"),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_is_said_in_one_paragraph(what, run, file, monkeypatch):
    monkeypatch.chdir(file.parent)
    arguments, message = WRONG[what]
    code, out, err = run(*(file if word == "FILE" else word for word in arguments))
    assert code == 2
    assert message in err
    assert err.count("\n") == 1
    assert out == ""


WRONG_AFTER = {
    "no such column": (["rows", "FILE", "-q", "gpu > 1"], "no such column: gpu"),
    "a CSV of another name": (["rows", "FILE", "--csv", "r.txt"], "r.txt: a name that ends with .csv"),
    "no such chart": (["plot", "FILE", "tim"], "[plot] has no 'tim'; did you mean 'time'"),
    "two charts in one file": (["plot", "FILE", "-o", "x.png"], "one file cannot hold 2 charts"),
    "a name and a kind": (["plot", "FILE", "time", "--kind", "line"], "names a chart"),
    "half a chart": (["plot", "FILE", "--kind", "line", "--x", "gpus"], "y: missing; a line needs x, y"),
    "no such kind": (["plot", "FILE", "--kind", "pie", "--x", "gpus"], "kind: 'pie' found"),
    "a chart of nothing": (
        ["plot", "FILE", "--kind", "line", "--x", "gpu", "--y", "rate"],
        "unknown column 'gpu'; did you mean 'gpus'",
    ),
    "no rows": (
        ["plot", "FILE", "--kind", "line", "--x", "gpus", "--y", "rate", "--where", "gpus > 9"],
        "no row has a value to draw, of 8 rows; 'where' leaves 0",
    ),
    "a picture of no kind": (["plot", "FILE", "time", "-o", "x.bmp"], ".png"),
}


@pytest.mark.parametrize("what", WRONG_AFTER)
def test_what_is_wrong_with_results_is_said_in_one_paragraph(what, run, swept, monkeypatch):
    monkeypatch.chdir(swept.parent)
    arguments, message = WRONG_AFTER[what]
    code, out, err = run(*(swept if word == "FILE" else word for word in arguments))
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1


def test_mutated_experiments_are_refused_or_read_but_never_crash(run, file):
    rng = random.Random(5)
    for kind, data in itertools.islice(mutations(file.read_bytes(), rng), 40):
        file.write_bytes(data)
        code, out, err = run("sweep", file, "--dry-run")
        assert code in {0, 2}, kind
        assert "Traceback" not in err + out, kind
        assert (code == 2) == err.startswith("error: "), f"{kind}: {err}"


def test_mutated_results_are_refused_or_read_but_never_crash(run, swept):
    store = swept.with_suffix(".sqlite")
    data, rng = bytearray(store.read_bytes()), random.Random(5)
    for _ in range(30):
        broken = bytearray(data)
        for _ in range(rng.choice([1, 20, 400])):
            broken[rng.randrange(len(broken))] = rng.randrange(256)
        store.write_bytes(broken[: rng.choice([len(broken), rng.randrange(len(broken))])])
        for beside in ("-wal", "-shm"):
            store.with_name(store.name + beside).unlink(missing_ok=True)
        for command in (["rows", store, "--json"], ["sweep", store, "--status"]):
            code, out, err = run(*command)
            assert code in {0, 2}
            assert "Traceback" not in err + out


def test_a_terminal_is_shown_progress_with_rate_and_failures(tmp_path):
    path = sweeps.write(tmp_path, sweeps.SMALL.replace("helpers.sweeps:counted", "helpers.sweeps:failing"), 30)
    main_end, other = pty.openpty()
    command = [sys.executable, "-m", "pipesim", "sweep", str(path), "--workers", "1"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")])}
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=other) as process:
        os.close(other)
        said = b""
        while True:
            try:
                said += os.read(main_end, 4096)
            except OSError:
                break
        assert process.wait() == 0
    os.close(main_end)
    assert re.search(rb"60 of 60, [\d.e+]+/s, 0:00 left, 2 failed", said)
    steps = [b"hashing ...", b"checking results ...", b"writing ...", b"looking for what is left ...", b"sweeping"]
    assert sorted(steps, key=said.index) == steps


def test_interrupted_a_sweep_keeps_what_it_has_and_goes_on_later(tmp_path, run):
    path, log = sweeps.write(tmp_path, sweeps.SMALL, 100), tmp_path / "log"
    environment = {
        **os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")]), sweeps.COUNT_FILE: str(log)
    }  # fmt: skip
    command = [sys.executable, "-m", "pipesim", "sweep", str(path), "--workers", "2"]
    with subprocess.Popen(
        command, env=environment, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        until = time.monotonic() + 30
        while not (log.exists() and log.read_text().count("\n") > 10) and time.monotonic() < until:
            time.sleep(0.01)
        os.killpg(process.pid, 2)  # as Ctrl-C does: everybody is told
        _, said = process.communicate()
    assert process.returncode == 130
    assert "what was computed is kept; the same command goes on from there" in said
    assert said.endswith("\ninterrupted\n")
    assert 0 < json.loads(run("sweep", path, "--status", "--json")[1])["done"] < 200
    assert json.loads(run("sweep", path, "--json")[1])["left"] == 0


TRAINING = (
    sweeps.HEAD
    + """
[simulate]
trace = "llama3-8b"
cluster = "hgx_h100(1)"
global_batch = 8
sequence = 2048
tokens = "15T"

[grid]
tensor = [2, 4]

[output]
metrics = [
  "layout", "global_batch", "tokens_per_s", "tokens_per_s_per_gpu", "flops_per_s_per_gpu", "mfu", "hfu",
  "training_days", "training_gpu_hours", "devices_in_plan",
]
"""
)


def test_a_sweep_over_widths_of_a_model_has_the_words_of_training(tmp_path, run):
    file = sweeps.write(tmp_path, TRAINING)
    assert run("sweep", file, "--workers", "1")[0] == 0
    rows = json.loads(run("rows", file, "--json")[1])["rows"]
    assert [row["layout"] for row in rows] == ["TP 2, PP 4, DP 1", "TP 4, PP 2, DP 1"]
    for row in rows:
        assert (row["devices_in_plan"], row["global_batch"]) == (8, 8)
        assert row["tokens_per_s"] == pytest.approx(8 * row["tokens_per_s_per_gpu"])
        assert row["mfu"] == row["hfu"] == pytest.approx(row["flops_per_s_per_gpu"] / 989.4e12)
        assert row["training_days"] == pytest.approx(15e12 / row["tokens_per_s"] / 86400)
        assert row["training_gpu_hours"] == pytest.approx(row["training_days"] * 24 * 8)
