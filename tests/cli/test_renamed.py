"""Old names of commands and options work for one release, and a line on standard error gives the present ones."""

import pytest

from pipesim.cli import COMMANDS, cli, renamed
from pipesim.cli.renamed import with_present_names

OLD = {"replan": "plan"}
OPTIONS = {"plan": {"--size": "--microbatch-size", "-z": "-o"}}


@pytest.mark.parametrize(
    ("words", "present", "notes"),
    [
        ("plan a b", "plan a b", ""),
        ("replan a b", "plan a b", "replan is now plan"),
        ("plan a --size 2", "plan a --microbatch-size 2", "--size is now --microbatch-size"),
        ("replan --size=2=3", "plan --microbatch-size=2=3", "replan is now plan\n--size is now --microbatch-size"),
        ("plan -z x", "plan -o x", "-z is now -o"),
        ("simulate --size 2 replan", "simulate --size 2 replan", ""),
        ("plan a -- --size", "plan a -- --size", ""),
        ("plan --sizes 2", "plan --sizes 2", ""),
        ("--help", "--help", ""),
        ("", "", ""),
    ],
)
def test_old_names_become_the_present_ones(capsys, words, present, notes):
    assert with_present_names(words.split(), OLD, OPTIONS) == present.split()
    lines = [f"{note}; the old name goes with the next release\n" for note in notes.splitlines()]
    assert capsys.readouterr() == ("", "".join(lines))


def test_a_command_line_of_old_names_does_what_it_did(run, monkeypatch):
    monkeypatch.setattr(renamed, "COMMANDS", {"forecast": "simulate"})
    monkeypatch.setattr(renamed, "OPTIONS", {"simulate": {"--batches": "--microbatches"}})
    flat = 'flat(2, bandwidth="1GB/s")'
    _, expected, _ = run("simulate", "bert-large", flat, "--microbatches", 2, "--json")
    code, out, err = run("forecast", "bert-large", flat, "--batches", 2, "--json")
    assert (code, out) == (0, expected)
    assert err.startswith("forecast is now simulate; the old name goes with the next release\n--batches is now --micro")


def test_every_old_name_stands_for_a_present_one():
    assert set(renamed.COMMANDS).isdisjoint(COMMANDS)
    assert set(renamed.COMMANDS.values()) <= set(COMMANDS)
    for name, options in renamed.OPTIONS.items():
        known = {option for parameter in cli.get_command(None, name).params for option in parameter.opts}
        assert set(options).isdisjoint(known)
        assert set(options.values()) <= known
