"""Tables of commands: their order, their first rows, and files of them."""

import csv
import io
import json

import click
import pytest

from helpers.recorded_runs import pipelined
from pipesim.base import tables
from pipesim.cli import cli
from pipesim.core.recorded_run import RunLayout
from pipesim.importers.operations.operation_table import table_of_run

# Commands that print no table of their own, or one that is the same for everyone.
WITHOUT_TABLES = {"demo", "export", "help", "init", "plot", "report"}
COMPARE = ("compare", "bert-large", 'flat(4, bandwidth="1GB/s")', "-m", "4", "-p", "uniform", "-p", "balanced")
GALLERY = ("gallery", "--stages", "2", "-m", "4", "-s", "gpipe", "-s", "zb_h1", "-s", "one_f_one_b")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_rows_are_sorted_and_the_first_of_them_shown(run):
    every = json.loads(run(*COMPARE, "--json")[1])["rows"]
    assert len(every) == 6
    first = json.loads(run(*COMPARE, "--sort", "-peak memory", "--top", "2", "--json")[1])["rows"]
    assert [row["peak_memory_bytes"] for row in first] == sorted(row["peak_memory_bytes"] for row in every)[:3:-1]
    out = run(*GALLERY, "--sort", "makespan", "--top", "1")[1]
    assert "zb_h1" in out
    assert "gpipe" not in out


def test_files_have_the_rows_that_are_shown(run, folder):
    words = ("--sort", "iteration_time_s", "--top", "3", "--csv", "a.csv", "--markdown", "a.md", "--latex", "a.tex")
    code, out, _ = run(*COMPARE, *words)
    assert code == 0
    assert out.endswith("\ntable written to a.csv\ntable written to a.md\ntable written to a.tex\n")
    rows = list(csv.DictReader(io.StringIO((folder / "a.csv").read_text())))
    times = [float(row["iteration_time_s"]) for row in rows]
    assert times == sorted(times)
    assert len(times) == 3
    assert (folder / "a.md").read_text().count("\n") == 2 + 3
    assert "\\midrule" in (folder / "a.tex").read_text()


def test_standard_output_has_nothing_but_the_file_that_it_is(run):
    out = run(*GALLERY, "--csv", "-")[1]
    assert [row["scheduler"] for row in csv.DictReader(io.StringIO(out))] == ["gpipe", "zb_h1", "one_f_one_b"]
    assert run(*COMPARE, "--markdown", "-")[1].startswith("| planner |")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--top", "0"], "--top 0 found"),
        (["--sort", "speed"], "no column is called 'speed'; one of 'scheduler', 'makespan'"),
        (["--csv", "-", "--json"], "several outputs to standard output"),
        (["--csv", "-", "--latex", "-"], "several outputs to standard output"),
        (["--csv", "a.txt", "--latex", "a.txt"], "is the name of two outputs"),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_is_written(run, folder, words, message):
    if words[0] == "--csv" and "a.txt" in words:
        (folder / "a.txt").write_text("kept")
    code, out, err = run(*GALLERY, *words)
    assert (code, out) == (2, "")
    assert message in err
    assert [path.name for path in folder.iterdir()] == ["a.txt"] * (folder / "a.txt").exists()


def test_planners_and_schedulers_are_called_what_their_labels_are(run, folder):
    words = ("--label", "uniform=Ours", "--label", "gpipe=GPipe", "--plot", "a.svg", "--gantt", "g.svg")
    code, out, _ = run(*COMPARE, *words)
    assert code == 0
    assert "Ours" in out
    assert "uniform" not in out
    assert (folder / "a.svg").exists()
    assert (folder / "g.svg").exists()
    for label, message in (("unifrom=Ours", "did you mean 'uniform'"), ("uniform", "NAME=LABEL was expected")):
        code, _, err = run(*COMPARE, "--label", label)
        assert code == 2
        assert message in err


def test_gains_are_sorted_and_written_and_the_others_are_in_the_same_order(run, folder):
    words = ("whatif", "bert-large", 'flat(2, bandwidth="1GB/s")', "-m", "2", "--planner", "uniform")
    every = json.loads(run(*words, "--json")[1])["gains"]
    listed = [row for row in every if not row["group"]]
    code, out, _ = run(*words, "--sort", "-iteration", "--top", "2", "--csv", "gains.csv")
    assert code == 0
    rows = list(csv.DictReader(io.StringIO((folder / "gains.csv").read_text())))
    slowest = sorted((row["iteration_time_s"] for row in listed), reverse=True)[:2]
    assert [float(row["iteration_time_s"]) for row in rows] == slowest
    assert len(out.split("\n\n")[1].splitlines()) == 2 + 2 + 1  # the last says what was written
    old, new = run(*words, "--most", "2"), run(*words, "--top", "2")
    assert old[1] == new[1]
    assert old[2].startswith("--most is now --top")


def test_gains_of_a_plan_that_does_not_fit_end_with_code_3_if_it_must(run):
    words = ("whatif", "bert-large", 'flat(2, bandwidth="1GB/s", memory="1GiB")', "-m", "2", "--no-fit")
    assert run(*words)[0] == 0
    code, out, err = run(*words, "--require-fit")
    assert code == 3
    assert "first make" in out
    assert "does not fit in memory" in err


def test_all_schedulers_are_a_table_of_which_files_are_written(run):
    assert run("schedules", "--markdown", "-")[1].splitlines()[2].startswith("| gpipe | ")
    assert list(json.loads(run("schedules", "--sort", "scheduler", "--top", "1", "--json")[1]))[-1] == "auto"


def test_layouts_are_sorted_and_written(run, folder):
    words = ("tune", "bert-large", 'flat(2, bandwidth="1GB/s")', "--global-batch", "8", "--budget", "6")
    code, out, _ = run(*words, "--sort", "memory", "--top", "2", "--latex", "layouts.tex", "--csv", "layouts.csv")
    assert code == 0
    rows = list(csv.DictReader(io.StringIO((folder / "layouts.csv").read_text())))
    bytes_ = [float(row["peak_memory_bytes"]) for row in rows]
    assert len(bytes_) == 2
    assert bytes_ == sorted(bytes_)
    assert "\\midrule" in (folder / "layouts.tex").read_text()
    assert out.endswith("table written to layouts.csv\ntable written to layouts.tex\n")


def test_what_show_prints_is_sorted_and_written(run):
    out = run("show", "bert-large", "--sort", "-forward", "--top", "2")[1]
    assert [line.split()[:2] for line in out.splitlines()[2:]] == [["51", "head"], ["2", "block0.mlp"]]
    code, out, _ = run("show", "devices", "--csv", "-", "--top", "2")
    assert code == 0
    assert [row["device"] for row in csv.DictReader(io.StringIO(out))] == ["v100-16gb", "v100-32gb"]
    assert json.loads(run("show", "gpt2", "--sort", "layers", "--json")[1])["rows"][-1]["layers"] == 12
    run("plan", "bert-large", 'flat(2, bandwidth="1GB/s")', "-o", "plan.json")
    assert run("show", "plan.json", "--markdown", "-", "--top", "1")[1].splitlines()[2].startswith("| 0 | 0 to ")
    for what in ("zb_v", "dgx1_v100"):
        code, out, err = run("show", what, "--top", "1")
        assert (code, out) == (2, "")
        assert "--top has no effect" in err


def test_differences_of_traces_are_sorted_and_written(run):
    code, out, _ = run("diff", "bert-large", "bert-large", "--csv", "same.csv")
    assert code == 0
    assert out.endswith("table written to same.csv\n")
    run("trace", "gpt(2, 64, 2)", "-d", "v100-16", "-o", "a")
    run("trace", "gpt(2, 64, 2)", "-d", "v100-16", "-o", "b", "--efficiency", "0.25")
    rows = list(csv.DictReader(io.StringIO(run("diff", "a", "b", "--sort", "-change", "--top", "3", "--csv", "-")[1])))
    changes = [float(row["change"]) for row in rows]
    assert len(changes) == 3
    assert changes == sorted(changes, reverse=True)
    assert 0 not in changes


def test_the_state_of_sweeps_is_sorted_and_written(run, folder):
    for name, gpus in (("one", "[2]"), ("two", "[2, 4]")):
        (folder / f"{name}.toml").write_text(
            f'format = "pipesim.sweep"\nversion = 1\nname = "{name}"\n[simulate]\ntrace = "bert-large"\n'
            f'cluster = \'flat({{gpus}}, bandwidth="1GB/s")\'\nplanner = "uniform"\n[grid]\ngpus = {gpus}\n'
        )
        assert run("sweep", f"{name}.toml")[0] == 0
    out = run("sweep", "--status", "--sort", "-points", "--csv", "-")[1]
    assert [(row["experiment"], row["done"]) for row in csv.DictReader(io.StringIO(out))] == [
        ("two", "2"),
        ("one", "1"),
    ]
    code, _, err = run("sweep", "one.toml", "--top", "1")
    assert code == 2
    assert "--top has no effect without --status" in err


def test_results_of_a_sweep_are_sorted_before_they_are_written(run, folder):
    (folder / "s.toml").write_text(
        'format = "pipesim.sweep"\nversion = 1\n[simulate]\ntrace = "bert-large"\n'
        'cluster = \'flat({gpus}, bandwidth="1GB/s")\'\nplanner = "uniform"\n[grid]\ngpus = [2, 4, 8]\n'
    )
    assert run("sweep", "s.toml")[0] == 0
    code, out, _ = run("rows", "s.toml", "--sort", "-gpus", "--top", "2", "--csv", "-")
    assert code == 0
    assert [row["gpus"] for row in csv.DictReader(io.StringIO(out))] == ["8", "4"]
    assert (
        run("rows", "s.toml", "--sort", "gpus", "--top", "1", "--markdown", "-")[1].splitlines()[2].startswith("| 2 |")
    )
    assert [row["gpus"] for row in json.loads(run("rows", "s.toml", "--top", "1", "--json")[1])["rows"]] == [2]


def of(out):
    return list(csv.DictReader(io.StringIO(out)))


def test_every_command_that_prints_a_table_sorts_and_writes_it():
    with click.Context(cli) as context:
        commands = {name: cli.get_command(context, name) for name in cli.list_commands(context)}
    flags = {name: {flag for one in command.params for flag in one.opts} for name, command in commands.items()}
    without = {name for name, has in flags.items() if not {"--sort", "--top", "--csv", "--markdown", "--latex"} <= has}
    assert without == WITHOUT_TABLES


def test_devices_of_a_simulation_are_sorted_and_written(run):
    words = ("simulate", "bert-large", 'flat(4, bandwidth="1GB/s")', "-m", "4", "-p", "balanced")
    devices = json.loads(run(*words, "--json")[1])["devices"]
    code, out, err = run(*words, "--sort", "-in flight", "--top", "2", "--csv", "-")
    assert (code, err) == (0, "")
    most = sorted(devices, key=lambda name: -devices[name]["peak_in_flight"])[:2]
    assert [(row["device"], int(row["peak_in_flight"])) for row in of(out)] == [
        (name, devices[name]["peak_in_flight"]) for name in most
    ]
    assert len(json.loads(run(*words, "--top", "1", "--json")[1])["rows"]) == 1
    assert "iteration time" in run(*words, "--markdown", "devices.md")[1]  # all is shown where no row is left out
    assert run(*words, "--markdown", "-")[1].startswith("| device | busy |")


def test_jobs_of_one_cluster_are_sorted_and_written(run, folder):
    (folder / "b.toml").write_text('trace = "bert-large"\nmicrobatches = 2\n')
    words = ("simulate", "bert-large", 'servers(2, 2, intra="25GB/s", inter="1GB/s")', "-m", "4")
    words += ("--devices", "*.gpu0", "--with", "b.toml", "--job-iterations", "2")
    rows = of(run(*words, "--sort", "-job", "--csv", "-")[1])
    jobs = {job["name"]: job for job in json.loads(run(*words, "--json")[1])["jobs"]}
    assert [row["job"] for row in rows] == ["first", "b"]
    assert [int(row["iterations"]) for row in rows] == [len(jobs[name]["iterations_s"]) for name in ("first", "b")]
    assert [float(row["slowdown"]) for row in rows] == [jobs["first"]["slowdown"], jobs["b"]["slowdown"]]
    assert "iterations counted" in run(*words, "--top", "1")[1]


def test_ranks_that_differ_from_another_schedule_are_sorted_and_written(run):
    words = ("schedule", "zb_2p", "--stages", "4", "-m", "8", "--against", "zb_h1")
    code, out, _ = run(*words, "--sort", "actions elsewhere", "--csv", "-")
    moved = [int(row["moved"]) for row in of(out)]
    assert code == 0
    assert moved == sorted(moved)
    assert len({*moved}) > 1
    assert run(*words, "--top", "1", "--latex", "-")[1].count("\\\\") == 2
    code, out, err = run(*words[:-2], "--sort", "rank")
    assert (code, out) == (2, "")
    assert "--sort has no effect without --against" in err


def test_steps_of_a_recorded_run_are_sorted_and_written(run, folder):
    tables.write(folder / "run.csv", table_of_run(pipelined(RunLayout(2, 2), 3, 3)))
    steps = json.loads(run("rebuild", "run.csv", "--json")[1])["steps"]
    code, out, err = run("rebuild", "run.csv", "--sort", "-recorded", "--top", "2", "--csv", "-", "-o", "trace")
    longest = sorted((step["recorded_s"] for step in steps), reverse=True)[:2]
    assert (code, err) == (0, "")
    assert [float(row["recorded_s"]) for row in of(out)] == longest
    assert (folder / "trace" / "trace.toml").exists()


def test_stages_of_a_plan_and_of_a_layout_are_sorted_and_written(run):
    words = ("plan", "bert-large", 'flat(2, bandwidth="1GB/s")', "-p", "balanced")
    code, out, err = run(*words, "--sort", "-stage", "--csv", "-")
    assert (code, err) == (0, "")
    assert [row["stage"] for row in of(out)] == ["1", "0"]
    assert run(*words, "--latex", "plan.tex")[1].endswith("\ntable written to plan.tex\n")
    words = ("layout", "--num-layers", "8", "--pipeline-model-parallel-size", "4")
    assert [row["holds"] for row in of(run(*words, "--top", "2", "--csv", "-")[1])] == [
        "embedding, 2 x block",
        "2 x block",
    ]
    code, out, err = run(*words, "--to", "torchtitan", "--top", "1")
    assert (code, out) == (2, "")
    assert "--top has no effect with --to" in err


def test_devices_of_a_trace_from_data_sheets_are_sorted_and_written(run, folder):
    code, out, _ = run(
        "trace", "gpt(2, 64, 2)", "-d", "v100-16", "-d", "t4", "-o", "a", "--sort", "-device", "--csv", "-"
    )
    assert code == 0
    assert [row["device"] for row in of(out)] == ["v100-16gb", "t4-16gb"]
    assert (folder / "a" / "trace.toml").exists()
    code, _, err = run("trace", "--list", "--top", "1")
    assert code == 2
    assert "--top has no effect beside --list" in err


def test_layers_that_were_imported_and_residuals_of_a_calibration_are_sorted_and_written(run, folder):
    (folder / "times.csv").write_text("name,forward_s,backward_s\na,0.1,0.2\nb,0.3,0.4\n")
    code, out, err = run("import", "times.csv", "-o", "mine", "--sort", "-forward", "--csv", "-")
    assert (code, err) == (0, "")
    assert [row["name"] for row in of(out)] == ["b", "a"]
    (folder / "runs.csv").write_text(
        "architecture,cluster,microbatches,iteration_s,id\n"
        "\"gpt(2, 1024, 8, sequence=256, microbatch=4)\",\"flat(2, '100 GB/s', device='a100-80gb')\",4,80 ms,first\n"
        "\"gpt(2, 2048, 8, sequence=256, microbatch=4)\",\"flat(2, '100 GB/s', device='a100-80gb')\",4,0.2,second\n"
    )
    code, out, _ = run("calibrate", "runs.csv", "-o", "own.toml", "--sort", "measured", "--csv", "-")
    assert code == 0
    assert [(row["label"], float(row["measured_s"])) for row in of(out)] == [("first", 0.08), ("second", 0.2)]
