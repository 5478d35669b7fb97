"""Help, version and colours of the command line."""

import json
import os
import pty
import re
import subprocess
import sys

import pytest

from pipesim import __version__

SMALL = ("bert-large", 'flat(2, bandwidth="1GB/s")')


def test_help_of_a_command_is_what_its_help_option_prints(run):
    assert run("help", "simulate")[1] == run("simulate", "--help")[1]
    assert run("help")[1] == run("--help")[1]
    code, _, err = run("help", "simulat")
    assert code == 2
    assert "did you mean 'simulate'" in err


def test_the_version_has_a_short_option(run):
    assert run("-V") == run("--version")
    assert __version__ in run("-V")[1]


@pytest.mark.parametrize("command", ["simulate", "compare", "plan", "whatif"])
def test_options_are_listed_under_what_they_are_about(command, run):
    headings = re.findall(r"^(\w+) options:$", run("help", command)[1], re.MULTILINE)
    assert {"Plan", "Schedule", "Memory", "Output"} <= set(headings)
    assert headings[-1] == "Output"
    assert len(headings) == len(set(headings))


@pytest.mark.parametrize(
    ("command", "headings"),
    [
        ("rebuild", ["Reading", "Network", "Recorded runs", "Engine", "Output"]),
        ("plot", ["Chart", "Output"]),
        ("sweep", ["Running", "Output"]),
        ("record", ["Recording", "Output"]),
        ("import", ["Reading", "Output"]),
        ("trace", ["Model", "Output"]),
    ],
)
def test_commands_of_many_options_have_headings_too(command, headings, run):
    found = re.findall(r"^(\w[\w ]*) options:$", run("help", command)[1], re.MULTILINE)
    assert found == headings


def test_planners_and_schedulers_are_chosen_under_what_they_are(run):
    plan = run("help", "compare")[1].split("Plan options:")[1].split(" options:")[0]
    assert re.search(r"-p, --planner", plan)


def test_stages_have_no_short_option_that_is_the_planner_elsewhere(run):
    code, out, err = run("schedule", "gpipe", "-p", "3", "--json")
    assert code == 0
    assert json.loads(out)["stages"] == 3
    assert err.startswith("-p is now --stages")
    assert not re.search(r"^ +-p\b", run("help", "schedule")[1], re.MULTILINE)


def printed_to_a_terminal(*words, **environment):
    """What a command prints to a terminal of 80 columns."""
    outer, inner = pty.openpty()
    given = {name: value for name, value in os.environ.items() if name != "NO_COLOR"} | {"COLUMNS": "80", **environment}
    command = [sys.executable, "-m", "pipesim", *words]
    with subprocess.Popen(command, stdout=inner, stderr=subprocess.DEVNULL, env=given) as process:
        os.close(inner)
        found = b""
        while True:
            try:
                piece = os.read(outer, 65536)
            except OSError:  # how Linux ends the output of a closed terminal
                piece = b""
            if not piece:
                break
            found += piece
        assert process.wait() == 0
    os.close(outer)
    return found.decode()


def test_a_terminal_gets_colours_and_tables_of_its_width_unless_it_asks_not_to():
    shown = printed_to_a_terminal("simulate", *SMALL, "-m", "2", "-v")
    assert "\x1b[1m" in shown
    assert max(len(line) for line in shown.split("\r\n") if line.startswith("gpu")) <= 80
    assert "left out, as the terminal is narrow: " in shown
    assert "\x1b[" not in printed_to_a_terminal("simulate", *SMALL, "-m", "2", NO_COLOR="1")
    assert "\x1b[" not in printed_to_a_terminal("simulate", *SMALL, "-m", "2", "--no-color")


@pytest.mark.parametrize(
    "words",
    [
        ("simulate", "llama3-8b", "hgx_h100(1)", "--tp", "2", "-m", "4"),
        ("plan", *SMALL, "-m", "2", "--planner", "uniform"),
        ("schedule", "zb_v", "--stages", "4", "-m", "8"),
        ("schedules",),
        ("show", "bert-large"),
        ("show", "planners"),
        ("diff", "bert-large", "bert-large"),
    ],
    ids=lambda words: " ".join(words[:2]),
)
def test_no_line_is_wider_than_the_terminal(words):
    shown = re.sub(r"\x1b\[\d*m", "", printed_to_a_terminal(*words))
    assert max(map(len, shown.split("\r\n"))) <= 80


def test_plans_begin_with_the_answer_of_their_simulation(run):
    words = ("bert-large", 'flat(4, bandwidth="1GB/s")', "-m", "4", "--planner", "uniform")
    answer = run("simulate", *words)[1].split("\n\n")[0]
    assert run("plan", *words)[1].split("\n\n")[0] == answer


def test_a_plan_that_cannot_be_simulated_is_shown_all_the_same(run):
    words = ("bert-large", 'flat(4, bandwidth="1GB/s")', "-m", "4", "--planner", "uniform", "--host-memory", "20kB")
    code, out, _ = run("plan", *words)
    assert code == 0
    assert out.startswith("not simulated: 4 microbatches on 4 stages make ")
    assert "planner       uniform" in out
    assert run("plan", *words, "--require-fit")[0] == 2


def test_a_pipe_gets_neither_colours_nor_narrow_tables(run):
    _, out, _ = run("simulate", *SMALL, "-m", "2", "-v")
    assert "\x1b[" not in out
    assert "exposed all-reduce  in flight  peak memory" in out


def test_details_are_shown_when_asked_for(run):
    _, short, _ = run("simulate", *SMALL, "-m", "2")
    _, long, _ = run("simulate", *SMALL, "-m", "2", "-v")
    assert len(short.splitlines()) <= 8
    assert long.startswith(short)
    assert "critical path" in long
