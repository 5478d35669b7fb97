"""Parameters as a person writes them: numbers, and outputs that must not be inputs."""

import shutil

import click
import pytest

from pipesim.base import serialisation
from pipesim.cli import COMMANDS, cli, parameters
from pipesim.core.scenario import CALM
from pipesim.studies import loading, results

FLAT = 'flat(2, bandwidth="1GB/s")'
SMALL = ["bert-large", FLAT, "-p", "uniform", "-m", "2"]


# --- numbers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["simulate", *SMALL, "-m", "1_0"], "'1_0' is not a valid whole number"),
        (["simulate", *SMALL, "-m", "\u0664"], "'\u0664' is not a valid whole number"),
        (["simulate", *SMALL, "-m", "9" * 20], "is too large; less than 2^63"),
        (["simulate", *SMALL, "-n", "2", "--jitter", "0.0_5"], "'0.0_5' is not a valid number"),
        (["simulate", *SMALL, "-n", "2", "--jitter", "1e308"], "jitter = 1e+308 found; 0 to 10 was expected"),
        (["simulate", *SMALL, "-n", "2", "--jitter", "nan"], "jitter = nan found; 0 to 10 was expected"),
        (["schedule", "gpipe", "-p", "\uff12"], "is not a valid whole number"),
        (["trace", "bert-large", "-d", "h100", "-o", "x", "--efficiency", "0_1"], "'0_1' found"),
        (["show", 'flat(2, bandwidth="1_0GB/s")'], "'1_0GB/s' is not a bandwidth"),
        (["show", 'flat(2, bandwidth="\u0661GB/s")'], "is not a bandwidth"),
    ],
)
def test_numbers_are_written_in_ascii_digits(words, found, run):
    """Python also takes 1_0 and digits of any script for numbers."""
    code, _, err = run(*words)
    assert code == 2
    assert found in err


@pytest.mark.parametrize("cell", ["1_0", "\u0661", "\uff11.5"])
@pytest.mark.parametrize("column", ["forward_s", "output_bytes", "inputs"])
def test_tables_are_read_with_the_same_numbers(cell, column, tmp_path, run):
    loading.load_trace("vgg-19").save(tmp_path / "trace")
    table = tmp_path / "trace/layers.csv"
    header, *lines = table.read_text(encoding="utf-8").split("\n")
    cells = lines[1].split(",")
    cells[header.split(",").index(column)] = cell
    lines[1] = ",".join(cells)
    table.write_text("\n".join([header, *lines]), encoding="utf-8")
    code, _, err = run("show", tmp_path / "trace")
    assert code == 2
    assert column in err


def test_every_number_on_the_command_line_is_read_so():
    for name in COMMANDS:
        command = cli.get_command(click.Context(cli), name)
        kinds = {type(parameter.type) for parameter in command.params}
        assert not kinds & {click.types.IntParamType, click.types.FloatParamType}, name


# --- outputs ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with one of each input, in which the command is run."""
    monkeypatch.chdir(tmp_path)
    loading.load_trace("bert-large").save(tmp_path / "inp")
    serialisation.save(loading.load_cluster(FLAT), tmp_path / "c.toml")
    serialisation.save(results.make_plan("bert-large", FLAT, "uniform", 2), tmp_path / "p.json")
    serialisation.save(CALM, tmp_path / "s.toml")
    (tmp_path / "bg.csv").write_text("link,time,share\ngpu0->switch,0s,0.5\n")
    results.make_setup("bert-large", FLAT, "uniform").schedule.save(tmp_path / "order.csv")
    (tmp_path / "topo.txt").write_text("GPU0\n")
    (tmp_path / "link.csv").symlink_to("inp/layers.csv")
    return tmp_path


OVER = {
    "a trace's table": ["export", "inp", FLAT, "-o", "inp/layers.csv"],
    "a trace's table by another path": ["export", "inp", FLAT, "-o", "./inp/../inp/layers.csv"],
    "a trace's table through a link": ["export", "inp", FLAT, "-o", "link.csv"],
    "a trace given by its file": ["simulate", "inp/trace.toml", FLAT, "-o", "inp/layers.csv"],
    "a cluster": ["show", "c.toml", "-o", "c.toml"],
    "a cluster, as a plan": ["plan", "bert-large", "c.toml", "-o", "c.toml"],
    "a plan": ["simulate", "bert-large", FLAT, "--plan", "p.json", "-o", "p.json"],
    "a scenario": ["plan", "inp", FLAT, "-p", "uniform", "-o", "inp/trace.toml"],
    "a background": ["export", "bert-large", FLAT, "--background", "bg.csv", "-o", "bg.csv"],
    "a schedule": ["export", "bert-large", FLAT, "-s", "order.csv", "-o", "order.csv"],
    "a file in an expression": ["plan", "bert-large", 'nvidia_smi("topo.txt", 1)', "-o", "topo.txt"],
    "an imported table": ["import", "inp/layers.csv", "-o", "inp", "--force"],
    "an imported trace": ["import", "inp", "-o", "inp", "--force"],
    "another output": ["simulate", "bert-large", FLAT, "--gantt", "a.png", "--memory-plot", "a.png"],
}


@pytest.mark.parametrize("name", OVER)
def test_an_output_never_replaces_an_input_nor_another_output(name, folder, run):
    """`export inp C -o inp/layers.csv` replaced the table that it had read."""
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    code, _, err = run(*OVER[name])
    assert code == 2
    said = "is the name of two outputs" if name == "another output" else "is what this command reads"
    assert said in err
    assert before == {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_outputs_may_lie_beside_what_is_read_and_replace_older_ones(folder, run):
    for _ in range(2):
        words = ["inp", FLAT, "-p", "uniform", "--gantt", "inp/gantt.png", "-o", "inp/timeline.csv"]
        assert run("simulate", *words)[0] == 0
    assert run("show", "c.toml", "-o", "c2.toml")[0] == 0
    shutil.copytree(folder / "inp", folder / "other")
    assert run("import", "inp", "-o", "other", "--force")[0] == 0


INPUTS = {"columns",
    "files", "file", "rows_file", "store", "folder", "scenario", "background", "lengths", "plan", "beside",
    "plans", "runs", "since",
}  # fmt: skip


def test_every_path_of_every_command_is_known_as_an_input_or_an_output():
    """A new option with a path must say which of the two it is, or outputs could replace inputs again."""
    for name in COMMANDS:
        command = cli.get_command(click.Context(cli), name)
        paths = {parameter.name for parameter in command.params if isinstance(parameter.type, click.Path)}
        assert paths <= INPUTS | parameters.OUTPUTS, name


# --- words -----------------------------------------------------------------------------------------------------------


def test_how_to_write_an_expression_is_said_as_it_can_be_written(run, tmp_path):
    """`llama(layers, hidden, heads, inner, ...)` was recommended, and refused."""
    words = ["-d", "h100", "-o", tmp_path / "t"]
    _, _, err = run("trace", "llama(12, 8192, 64, 28672)", *words)
    assert "write llama(layers, hidden, heads, inner=..., " in err
    assert run("trace", "llama(12, 8192, 64, inner=28672)", *words)[0] == 0
    assert "llama(layers, hidden, heads, inner=...)" in run("trace", "llama(12)", *words, "--force")[2]
    assert "(layers, hidden, heads, inner=...)" in run("trace", "--list")[1]


def test_force_of_rebuild_is_about_its_folder_and_may_be_given_without(run):
    assert "Replace the folder of --output if it exists" in " ".join(run("rebuild", "--help")[1].split())
    code, _, err = run("rebuild", "none.json", "--save-schedule", "x.csv", "--force")
    assert code == 2
    assert "none.json: no such file" in err
