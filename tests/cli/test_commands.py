"""The command line as a person meets it: exit codes, messages, files, JSON."""

import itertools
import json
import random
import re
import shutil
import subprocess
import sys

import pytest

from helpers.mutations import corpus, mutations
from helpers.places import ROOT
from helpers.source import HEAVY
from pipesim.base.errors import InputError
from pipesim.cli import COMMANDS, main
from pipesim.planners import PLANNERS
from pipesim.schedulers import COMPARED, SCHEDULERS
from pipesim.studies import loading, results

FLAT = 'flat(4, bandwidth="1GB/s")'
SMALL = ["bert-large", FLAT, "--microbatches", "4"]


# --- help ------------------------------------------------------------------------------------------------------------


def test_help_names_every_command_and_each_teaches_by_example(run):
    code, out, _ = run("--help")
    assert code == 0
    for name in COMMANDS:
        assert name in out
        code, text, _ = run(name, "--help")
        assert code == 0
        assert re.search(rf"Examples?:\n\s+pipesim {name}", text), f"{name} --help shows an example"


def test_help_of_every_command_imports_nothing_that_takes_time():
    code = """
import contextlib, sys
from pipesim.cli import COMMANDS, main
for name in COMMANDS:
    with contextlib.suppress(SystemExit):
        main([name, "--help"])
print("imported:", *sorted({module.partition(".")[0] for module in sys.modules}))
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert done.count("Usage: pipesim") == len(COMMANDS)
    assert not HEAVY & set(done.splitlines()[-1].split())


def test_version_is_printed(run):
    assert run("--version")[1].startswith("pipesim, version ")


def test_names_are_completed():
    context = {"_PIPESIM_COMPLETE": "bash_complete", "COMP_WORDS": "pipesim plan bert", "COMP_CWORD": "2", "PATH": ""}
    script = "from pipesim.cli import cli; cli(prog_name='pipesim')"
    done = subprocess.run([sys.executable, "-c", script], env=context, capture_output=True, text=True, check=False)
    assert "bert-large" in done.stdout


# --- what goes wrong -------------------------------------------------------------------------------------------------

WRONG = {
    "unknown command": (["simulat"], "did you mean 'simulate'"),
    "unknown trace": (["plan", "bert-lrge", FLAT], "did you mean 'bert-large'"),
    "unknown topology": (["plan", "bert-large", "flot(4)"], "did you mean 'flat'"),
    "unknown planner": (["plan", "bert-large", FLAT, "-p", "balance"], "did you mean 'balanced'"),
    "unknown scheduler": (["simulate", "bert-large", FLAT, "-s", "one_f_on_b"], "did you mean 'one_f_one_b'"),
    "unknown sharing": (["simulate", "bert-large", FLAT, "--sharing", "unfair"], "'unfair'"),
    "unknown engine": (["simulate", "bert-large", FLAT, "--engine", "vent"], "did you mean 'event'"),
    "missing argument": (["plan", "bert-large"], "Missing argument 'CLUSTER'"),
    "arguments that do not fit": (["plan", "bert-large", "flat(4)"], "missing a required argument: 'bandwidth'"),
    "no such option": (["plan", "bert-large", FLAT, "-p", "uniform(size=3)"], "unexpected keyword argument 'size'"),
    "no microbatches": (["plan", "bert-large", FLAT, "-m", "0"], "microbatches = 0 found"),
    "a microbatch of nothing": (["plan", "bert-large", FLAT, "--microbatch-size", "0"], "microbatch_size = 0 found"),
    "no such file": (["simulate", "bert-large", FLAT, "--plan", "none.json"], "none.json: no such file"),
    "no such cluster file": (["show", "none.toml"], "none.toml: no such file"),
    "a picture of no kind": (["simulate", *SMALL, "--gantt", "gantt.bmp"], ".png"),
    "a page of no kind": (
        ["simulate", *SMALL, "--html", "page.pdf"],
        "a file name ending in .html or .htm was expected",
    ),
    "a page of what has no timeline": (
        ["show", FLAT, "--html", "page.html"],
        "--html has no effect but for a recorded run",
    ),
    "an export of no kind": (["export", *SMALL, "-o", "timeline.xyz"], "timeline.xyz"),
    "nothing varies": (["simulate", *SMALL, "-n", "3"], "jitter"),
    "a planner that cannot be imported": (["plan", "bert-large", FLAT, "-p", "no.such:planner"], "cannot import"),
    "a trace of other devices": (["plan", "gpt-small-cpu", 'flat(2, bandwidth=1e9, device="h100-80gb")'], "h100-80gb"),
    "an option of another kind": (
        ["plan", "bert-large", FLAT, "-p", "spp(most_stages=2.5)"],
        "most_stages: 2.5 found; int was expected",
    ),
    "an option too small": (
        ["plan", "bert-large", FLAT, "-p", "spp(most_stages=0)"],
        "most_stages = 0 found; at least 1",
    ),
    "a seed below zero": (["plan", "bert-large", FLAT, "-p", "annealing(seed=-1)"], "seed = -1 found; at least 0"),
    "a list for a name": (
        ["plan", "bert-large", FLAT, "-p", "spp(order=['a'])"],
        "order: ['a'] found; str was expected",
    ),
    "a function from the shell": (["plan", "bert-large", FLAT, "-p", "annealing(cost=2)"], "passed only from Python"),
    "a planner that is none": (
        ["plan", "bert-large", FLAT, "-p", "textwrap:dedent"],
        "cannot be called with (model, cluster",
    ),
    "a scheduler that is none": (
        ["simulate", *SMALL, "-s", "textwrap:dedent"],
        "cannot be called with (plan, costs, cluster)",
    ),
    "an engine that is none": (["simulate", *SMALL, "--engine", "textwrap:dedent"], "called with (program, watch=)"),
    "an engine that gives no timeline": (["simulate", *SMALL, "--engine", "types:SimpleNamespace"], "types:SimpleName"),
    "a planner that is built in": (["plan", *SMALL, "-p", "builtins:len"], "a function written in Python was expected"),
    "a scheduler that ends all": (["simulate", *SMALL, "-s", "sys:exit"], "a function written in Python was expected"),
    "a cluster of the system": (["plan", "bert-large", "os:system"], "a function written in Python was expected"),
    "an architecture that fails": (
        ["trace", "pathlib:Path.cwd", "--device", "a100-80gb", "-o", "t"],
        "module 'pathlib' has no 'Path.cwd'",
    ),
    "a scheduler that is a class": (["simulate", *SMALL, "-s", "pathlib:Path"], "raised TypeError"),
    "a name of nothing": (["show", "bert-larg"], "did you mean 'bert-large'"),
    "a family nearly named": (["show", "planers"], "did you mean 'planners'"),
    "a picture of names": (["show", "planners", "--plot", "p.png"], "only --json has an effect"),
    "no trace": (["plan", "", FLAT], "no trace file or bundled trace named ''"),
    "jitter without iterations": (
        ["simulate", *SMALL, "--jitter", "0.1"],
        "--jitter has no effect without --iterations",
    ),
    "links without a chart": (["simulate", *SMALL, "--links"], "--links has no effect without --gantt"),
    "microbatches beside a plan": (
        ["simulate", *SMALL, "--plan", "p.json"],
        "--microbatches has no effect beside --plan",
    ),
    "a second file of no kind": (["simulate", *SMALL, "--gantt", "g.png", "-o", "g.png"], "g.png"),
    "all comparisons fail": (["compare", *SMALL, "-p", "uniform(stages=9)"], "stages = 9 found; 1 to 4 was expected"),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_is_said_in_one_paragraph_with_exit_code_2(what, run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arguments, expected = WRONG[what]
    code, out, err = run(*arguments)
    assert code == 2
    assert expected in err
    assert "Traceback" not in err + out
    assert "\n\n" not in err.strip()
    assert not list(tmp_path.iterdir()), "nothing half-written is left behind"


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """One valid file of each format, and the command that reads it."""
    folder = tmp_path_factory.mktemp("corpus")
    return corpus(folder)


COMMAND_OF = {
    "trace toml": lambda path: ["show", path.parent],
    "layers csv": lambda path: ["show", path.parent],
    "transfers csv": lambda path: ["show", path.parent],
    "profile txt": lambda path: ["show", path],
    "cluster toml": lambda path: ["show", path],
    "cluster json": lambda path: ["show", path],
    "plan json": lambda path: ["simulate", *SMALL[:2], "--plan", path],
    "schedule csv": lambda path: ["simulate", *SMALL, "--scheduler", path],
    "scenario toml": lambda path: ["simulate", *SMALL, "--scenario", path],
}


@pytest.mark.parametrize("name", COMMAND_OF)
def test_mutated_files_are_refused_or_read_but_never_crash(name, files, run, tmp_path):
    """The same mutations as for the library, through the commands that read such files."""
    rng = random.Random(11)
    folder = tmp_path / "spoilt"
    shutil.copytree(files[name].parent, folder)
    place = folder / files[name].name
    for kind, data in itertools.islice(mutations(files[name].read_bytes(), rng), 25):
        place.write_bytes(data)
        code, out, err = run(*COMMAND_OF[name](place))
        assert code in {0, 2}, kind
        assert "Traceback" not in err + out, kind
        assert (code == 2) == err.startswith("error: "), f"{kind}: {err}"


# --- what comes out --------------------------------------------------------------------------------------------------


def test_simulate_prints_one_json_object_with_what_is_promised(run):
    code, out, _ = run("simulate", *SMALL, "--sharing", "fifo", "--json")
    data = json.loads(out)
    assert code == 0
    assert {"iteration_time_s", "bubble", "peak_memory_bytes", "devices", "tasks", "engine"} <= set(data)
    assert set(data["bubble"]) == {"idle_share", "longest_stage", "actual_over_ideal"}
    assert set(data["peak_memory_bytes"]) == {"gpu0", "gpu1", "gpu2", "gpu3"}
    timeline = results.simulate("bert-large", FLAT, microbatches=4, sharing="fifo").timeline
    assert data["iteration_time_s"] == timeline.makespan / 1e9


def test_the_ledger_of_a_simulation_is_printed_and_is_in_its_json(run):
    code, out, _ = run("simulate", *SMALL, "--ledger", "--json")
    data = json.loads(out)
    assert code == 0
    assert sum(line["ns"] for line in data["ledger"]["lines"]) == round(data["iteration_time_s"] * 1e9)
    code, out, _ = run("simulate", *SMALL, "--ledger", "--bound")
    assert code == 0
    assert "what the iteration consists of" in out
    assert "no plan of this kind takes less than" in out


def test_a_printed_plan_can_be_simulated(run, tmp_path):
    code, out, _ = run("plan", "bert-large", FLAT, "--planner", "uniform", "--json")
    file = tmp_path / "plan.json"
    file.write_text(out, encoding="utf-8")
    data = json.loads(out)
    assert (data["planner"], data["replication"], len(data["cuts"])) == ("uniform", [1, 1, 1, 1], 3)
    code, out, _ = run("simulate", "bert-large", FLAT, "--plan", file, "--json")
    assert code == 0
    assert json.loads(out)["cuts"] == data["cuts"]


def test_the_plans_own_microbatches_count(run, tmp_path):
    run("plan", "bert-large", FLAT, "-m", "3", "-o", tmp_path / "plan.toml")
    assert (
        json.loads(run("simulate", "bert-large", FLAT, "--plan", tmp_path / "plan.toml", "--json")[1])["microbatches"]
        == 3
    )


def test_replays_report_their_statistics(run):
    _, out, _ = run("simulate", *SMALL, "-n", "5", "--jitter", "0.1", "--seed", "2", "--json")
    replay = json.loads(out)["replay"]
    assert {"mean_s", "p50_s", "p95_s", "p99_s", "ci95_low_s", "ci95_high_s", "seed", "jitter"} <= set(replay)
    assert out == run("simulate", *SMALL, "-n", "5", "--jitter", "0.1", "--seed", "2", "--json")[1]


def test_every_command_has_a_text_form(run, tmp_path):
    for arguments, expected in (
        (["show"], "bert-large"),
        (["show", FLAT], "4 x v100-16gb"),
        (["show", "bert-large"], "roofline"),
        (["plan", "bert-large", FLAT], "gpu3"),
        (["simulate", *SMALL, "--verify"], "verified"),
        (["compare", *SMALL, "-p", "uniform", "-p", "spp"], "fastest that fits in memory"),
        (["export", *SMALL, "-o", tmp_path / "t.csv"], "timeline written to"),
    ):
        code, out, _ = run(*arguments)
        assert code == 0
        assert expected in out


def test_compare_takes_all_planners_and_the_common_schedulers_by_default(run):
    rows = json.loads(run("compare", *SMALL, "--json")[1])["rows"]
    assert [(row["planner"], row["scheduler"]) for row in rows] == [(p, s) for p in PLANNERS for s in COMPARED]


def test_compare_takes_all_schedulers_when_asked_and_stars_the_best_of_each_planner(run):
    rows = json.loads(run("compare", *SMALL, "-p", "balanced", "-p", "spp", "-s", "all", "--json")[1])["rows"]
    assert [row["scheduler"] for row in rows] == [*SCHEDULERS, *SCHEDULERS]
    for planner in ("balanced", "spp"):
        mine = [row for row in rows if row["planner"] == planner and "error" not in row]
        (star,) = [row for row in mine if row["starred"]]
        fitting = [row["iteration_time_s"] for row in mine if row["fits_memory"]]
        assert star["fits_memory"]
        assert star["iteration_time_s"] == min(fitting)


def test_every_picture_and_export_is_written(run, tmp_path):
    names = ["gantt.png", "memory.svg", "links.pdf", "trace.json"]
    gantt, memory, links, trace = (tmp_path / name for name in names)
    code, out, _ = run(
        "simulate",
        *SMALL,
        "--gantt",
        gantt,
        "--links",
        "--critical",
        "--memory-plot",
        memory,
        "--links-plot",
        links,
        "-o",
        trace,
    )
    assert code == 0
    assert all(str(path) in out for path in (gantt, memory, links, trace))
    few = ["-p", "uniform", "-p", "spp", "-s", "gpipe"]
    run("compare", *SMALL, *few, "--plot", tmp_path / "bars.png", "--gantt", tmp_path / "gantts.png")
    run("show", FLAT, "--plot", tmp_path / "cluster.png", "-o", tmp_path / "cluster.toml")
    (tmp_path / "timeline.parquet").write_text("what a file that is named holds is replaced")
    run("export", *SMALL, "-o", tmp_path / "timeline.parquet")
    assert (tmp_path / "timeline.parquet").read_bytes().startswith(b"PAR1")
    expected = {*names, "bars.png", "gantts.png", "cluster.png", "cluster.toml", "timeline.parquet"}
    assert {path.name for path in tmp_path.iterdir()} == expected
    assert json.loads(trace.read_text(encoding="utf-8"))["traceEvents"]
    assert loading.load_cluster(str(tmp_path / "cluster.toml")) == loading.load_cluster(FLAT)


def test_every_page_is_written_and_named(run, tmp_path):
    page = tmp_path / "page.html"
    for words in (
        ["simulate", *SMALL, "--ledger"],
        ["compare", *SMALL, "-p", "uniform", "-s", "gpipe", "-s", "pe"],
        ["schedule", "zb_h1"],
        ["whatif", *SMALL, "--only", "device"],
        ["tune", *SMALL[:2], "--global-batch", "8", "--budget", "2"],
    ):
        code, out, _ = run(*words, "--html", page)
        assert (code, f"page written to {page}" in out) == (0, True)
        text = page.read_text(encoding="utf-8")
        assert text.startswith("<!doctype html>")
        assert text.count('id="columns') == (2 if words[0] in {"compare", "tune"} else 1)
        page.unlink()


def test_a_report_has_all_of_a_simulation_from_a_file_or_from_what_simulate_printed(run, tmp_path):
    file, printed, page = tmp_path / "simulation.toml", tmp_path / "printed.json", tmp_path / "report.html"
    file.write_text(f"trace = '{SMALL[0]}'\ncluster = '{SMALL[1]}'\nplanner = 'balanced'\nmicrobatches = 4\n")
    code, out, _ = run("report", file, "-o", page)
    assert (code, out.startswith("iteration time "), out.endswith(f"\npage written to {page}\n")) == (0, True, True)
    text = page.read_text(encoding="utf-8")
    for title in ("What the iteration consists of", "Critical path", "What would help most", "first make"):
        assert title in text
    printed.write_text(run("simulate", *SMALL, "-p", "balanced", "-m", "4", "--json")[1])
    run("report", printed, "-o", page)
    assert page.read_text(encoding="utf-8") == text
    file.write_text("microbatch = 4\n")
    code, _, error = run("report", file, "-o", page)
    assert (code, "did you mean" in error, str(file) in error) == (2, True, True)
    assert page.read_text(encoding="utf-8") == text


def test_slack_is_a_table_and_in_json_that_of_each_task(run):
    code, out, _ = run("simulate", *SMALL, "-p", "balanced", "--slack")
    assert (code, "slack of tasks on" in out) == (0, True)
    data = json.loads(run("simulate", *SMALL, "-p", "balanced", "--slack", "--json")[1])
    assert len(data["slack"]["tasks"]) == data["tasks"]
    assert min(one["slack_s"] for one in data["slack"]["tasks"]) == 0


def test_the_demo_shows_every_step(run, tmp_path):
    code, out, _ = run("demo", "--output", tmp_path / "demo")
    assert code == 0
    assert [line.split()[2] for line in out.splitlines() if line.startswith("$ pipesim")] == [
        "show",
        "plan",
        "simulate",
        "compare",
    ]
    written = {path.name for path in (tmp_path / "demo").iterdir()}
    assert written >= {
        "plan.json",
        "gantt.png",
        "memory.png",
        "perfetto.json",
        "comparison.html",
        "comparison.png",
        "gantts.png",
        "cluster.png",
    }


def test_the_demo_answers_in_json_too(run, tmp_path):
    code, out, _ = run("demo", "--output", tmp_path / "demo", "--json")
    assert code == 0
    answers = json.loads(out)
    assert list(answers) == ["format", "version", "show", "plan", "simulate", "compare"]
    assert answers["plan"]["format"] == "pipesim.plan"
    assert answers["compare"]["format"] == "pipesim.output.compare"
    assert answers["simulate"]["cuts"] == answers["plan"]["cuts"]


def test_the_same_command_prints_the_same_bytes_whatever_the_hash_seed():
    def printed(seed):
        command = [
            sys.executable,
            "-m",
            "pipesim",
            "simulate",
            "resnet-152",
            'servers(2, 2, "25GB/s", "1GB/s")',
            "--json",
        ]
        return subprocess.run(command, env={"PYTHONHASHSEED": seed, "PATH": ""}, check=True, capture_output=True).stdout

    assert printed("1") == printed("2")


def test_an_output_that_cannot_be_written_is_said():
    with open("/dev/full", "w") as full:  # noqa: PTH123 - a device, opened for its errors
        for buffering in ({}, {"PYTHONUNBUFFERED": "1"}):
            command = [sys.executable, "-m", "pipesim", "show"]
            done = subprocess.run(command, env=buffering, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
            assert done.returncode == 2
            assert done.stderr.startswith("error: cannot write the output")
            assert "Exception" not in done.stderr


def test_without_a_command_help_is_shown(run):
    assert run() == run("--help")


@pytest.mark.parametrize("words", ["simulate bert-large dgx1_v100 --json", "--help", "show --help", "show"])
def test_when_its_reader_has_seen_enough_a_command_ends_without_a_word(words):
    """As programs do that the signal for it ends: with what a shell says of these, 128 + 13."""
    command = [sys.executable, "-c", f"from pipesim.cli import main; input(); main({words.split()!r})"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as started:
        started.stdout.close()  # before anything is written
        _, errors = started.communicate(b"\n")
    assert (started.returncode, errors) == (141, b"")


def test_a_command_whose_standard_output_was_closed_does_its_work(tmp_path):
    path = tmp_path / "gantt.png"
    command = f"{sys.executable} -m pipesim simulate bert-large dgx1_v100 --gantt {path} >&-"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=True)  # noqa: S602 - as a shell does it
    assert not done.stderr
    assert path.stat().st_size


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["show", "a" * 300], "error: no cluster or trace is called 'aaa"),
        (["simulate", "a" * 300, "dgx1_v100"], "error: no trace file or bundled trace named 'aaa"),
        (["diff", "vgg-19", "a" * 300], "error: no trace file or bundled trace named 'aaa"),
        (["import", "a" * 300, "-o", "x"], "error: aaa"),
        (["rebuild", "a" * 300], "error: aaa"),
        (["show", "a" * 300 + ".json"], "error: aaa"),
    ],
)
def test_a_name_that_no_file_can_have_is_no_trouble_with_writing(arguments, message, capsys):
    """The system refuses to look for it; that was taken for a full disk."""
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert capsys.readouterr().err.startswith(message)


def test_a_cluster_expression_that_makes_no_cluster_is_refused():
    with pytest.raises(InputError, match="cluster 'builtins:list': returned a list; a Cluster was expected"):
        loading.load_cluster("builtins:list")


def test_a_function_of_one_s_own_may_lie_in_the_folder_where_the_command_is_run(tmp_path):
    """As with python -m; a console script has its own folder in that place."""
    (tmp_path / "mine.py").write_text("from pipesim.planners.balanced import balanced as planner\n")
    root, words = str(ROOT), ["plan", *SMALL, "-p", "mine:planner"]
    script = f"import sys; sys.path.insert(0, {root!r}); from pipesim.cli import main; main({words!r})"
    command = [sys.executable, "-I", "-c", script]  # -I: the folder is not on the path by itself
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_schedule_file_is_shown_drawn_and_compared(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run("schedule", "zb_v", "--stages", 2, "-m", 6, "-o", "mine.csv")
    shown = json.loads(run("schedule", "mine.csv", "--json")[1])
    assert (shown["microbatches"], len(shown["peak_in_flight"])) == (6, 2), "of the file, where none are stated"
    rows = json.loads(run("gallery", "-s", "mine.csv", "-s", "zb_v", "--json")[1])["rows"]
    assert rows[0]["makespan"] == rows[1]["makespan"]
    words = ("bert-large", 'flat(2, bandwidth="1GB/s")')
    run("plan", *words, "-m", 6, "-p", "uniform", "-o", "plan.json")
    found = json.loads(run("compare", *words, "-m", 6, "--plan", "plan.json", "-s", "mine.csv", "--json")[1])
    assert [(row["planner"], row["scheduler"]) for row in found["rows"]] == [("plan.json", "mine.csv")]
    code, _, err = run("schedule", "mine.csv", "-m", 7)
    assert code == 2
    assert "a table of 6 microbatches found; --microbatches 7 was expected" in err
    assert run("schedule", "none.csv")[0] == 2


def test_a_schedule_of_several_stages_on_a_device_is_shown_against_another_at_the_same_work(run):
    """Two stages of a second each were set against one of a second: interleaving seemed to take 73 % more time."""
    words = ("schedule", "interleaved", "--stages", 4, "-m", 8, "--against")
    found = json.loads(run(*words, "one_f_one_b", "--json")[1])
    alone = json.loads(run("schedule", "one_f_one_b", "--stages", 4, "-m", 8, "--forward", 2, "--json")[1])
    assert found["against"]["stage_factor"] == 2
    assert found["against"]["makespan"] == alone["makespan"] == 66
    assert found["makespan"] == 57
    assert "its stages take 2 times as long: the same work on each device" in run(*words, "one_f_one_b")[1]
    assert "times as long" not in run(*words, "looped_bfs")[1]


def test_a_schedule_is_shown_against_another_in_words_and_in_a_picture(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run("schedule", "one_f_one_b", "--stages", 2, "-m", 4, "-o", "mine.csv")
    code, out, _ = run("schedule", "mine.csv", "--against", "gpipe", "--gantt", "both.png")
    assert code == 0
    assert "against gpipe: 15.00 s, +0.0 %" in out
    assert (tmp_path / "both.png").stat().st_size > 1000
    assert "the orders are the same" in run("schedule", "mine.csv", "--against", "one_f_one_b")[1]
    found = json.loads(run("schedule", "mine.csv", "--against", "gpipe", "--json")[1])["against"]
    assert [one["first"] for one in found["ranks"]] == [2, 1]
    assert found["scheduler"] == "gpipe"
    assert run("schedule", "mine.csv", "--against", "nope")[0] == 2
