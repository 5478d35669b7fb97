"""Templates: each runs as it is written, by the commands that it names."""

import json
import shlex
import sys
import tomllib

import pytest

from pipesim.cli.commands.init_command import KINDS


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] in {"my_planner", "my_scheduler", "own"}]:
        del sys.modules[name]


@pytest.mark.parametrize("kind", KINDS)
def test_every_command_of_a_template_works(kind, run):
    code, out, _ = run("init", kind)
    assert code == 0
    commands = [line.strip() for line in out.partition("Try:\n")[2].split("\n") if line.strip()]
    assert commands
    for command in commands:
        program, *words = shlex.split(command)
        workers = ["--workers", "1"] if words[0] == "sweep" and "--dry-run" not in words else []
        assert program == "pipesim"
        code, out, err = run(*words, *workers)
        assert code == 0, f"{command}\n{out}{err}"


@pytest.mark.parametrize("kind", ["sweep", "scenario", "cluster", "trace"])
def test_a_toml_template_names_its_schema_which_is_written_beside_it(kind, run, tmp_path):
    code, out, _ = run("init", kind, f"sub/folder{'' if kind == 'trace' else '/own.toml'}", "--json")
    file, *_, schema = json.loads(out)["written"]
    first, *_ = (tmp_path / file).read_text().split("\n")
    assert code == 0
    assert (tmp_path / file).parent / first.removeprefix("#:schema ") == tmp_path / schema
    assert json.loads((tmp_path / schema).read_text())["title"] == f"pipesim.{kind}"
    assert tomllib.loads((tmp_path / file).read_text())["format"] == f"pipesim.{kind}"


def test_a_planner_in_a_folder_is_named_as_python_imports_it(run):
    code, out, _ = run("init", "planner", "own/planners/greedy.py", "--json")
    command = json.loads(out)["try"][0]
    assert code == 0
    assert command.endswith("-p own.planners.greedy:by_time")
    assert run(*shlex.split(command)[1:])[0] == 0


def test_what_exists_is_replaced_only_by_force(run, tmp_path):
    (tmp_path / "cluster.toml").write_text("mine")
    code, _, err = run("init", "cluster")
    assert (code, (tmp_path / "cluster.toml").read_text()) == (2, "mine")
    assert "cluster.toml: exists already; choose another PATH, or replace it with --force" in err
    assert not (tmp_path / "schemas").exists()
    assert run("init", "cluster", "--force")[0] == 0
    assert run("show", "cluster.toml")[0] == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["planner", "3.py"], "a name that Python can import was expected"),
        (["planner", "mine.txt"], "a file that ends in .py was expected"),
        (["sweep", "mine.json"], "a file that ends in .toml was expected"),
        (["model"], "'model' is not one of"),
        ([], "Missing argument"),
    ],
)
def test_wrong_arguments_are_refused(words, message, run, tmp_path):
    code, _, err = run("init", *words)
    assert code == 2
    assert message in err
    assert not list(tmp_path.iterdir())
