"""The commands of recorders, without PyTorch."""

import importlib.util
from types import SimpleNamespace

import pytest

from helpers.recorded_links import run
from pipesim.base import lookup
from pipesim.cli.commands import record_command as record
from pipesim.recorders import RECORDERS


def test_methods_of_the_command_are_those_of_the_family():
    assert set(record.METHODS) == set(RECORDERS)
    for name in RECORDERS:
        assert callable(lookup.function_named(name, RECORDERS, "method"))


@pytest.mark.parametrize("command", [["record", "module:factory", "-b", "4"], ["record-links"]])
def test_a_folder_with_other_things_is_refused_before_anything_is_measured(capsys, monkeypatch, tmp_path, command):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: SimpleNamespace(origin="torch/__init__.py"))
    (tmp_path / "precious.txt").write_text("kept")
    code, _, err = run(capsys, *command, "-o", tmp_path)
    assert code == 2
    assert "exists and is not a folder with" in err
    assert (tmp_path / "precious.txt").read_text() == "kept"


@pytest.mark.parametrize(
    ("command", "there"),
    [
        (["record", "module:factory", "-b", "4"], ["trace.toml"]),
        (["record-links"], ["links.toml"]),
        (["record-links"], ["trace.toml", "transfers.csv"]),
    ],
)
def test_an_earlier_recording_is_replaced_only_by_force_which_is_asked_before_anything_is_measured(
    capsys, monkeypatch, tmp_path, command, there
):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: SimpleNamespace(origin="torch/__init__.py"))
    for name in there:
        (tmp_path / name).write_text("kept")
    code, _, err = run(capsys, *command, "-o", tmp_path)
    assert (code, "exists already; choose another name, or replace it with --force" in err) == (2, True)
    assert {path.name for path in tmp_path.iterdir()} == set(there)
