"""What several commands take, and how they show what they do."""

import json
import re
import sys
import time

import pytest

from pipesim.cli import options
from pipesim.core import costs, program
from pipesim.lowering.setup import RECOMPUTES
from pipesim.studies import simulation


def test_the_choices_of_the_options_are_those_of_the_program():
    assert simulation.SHARINGS == program.SHARINGS
    assert simulation.TRANSFERS == program.TRANSFERS
    assert simulation.RECOMPUTES == RECOMPUTES
    assert simulation.SCALINGS == costs.SCALINGS


def test_what_takes_long_says_so_to_a_terminal_and_leaves_no_trace_of_it(capsys, monkeypatch):
    monkeypatch.setattr(options, "PATIENCE", 0.01)
    is_terminal(monkeypatch)
    with options.busy("planning", quiet=False):
        time.sleep(0.1)
    with options.busy("planning", quiet=True):
        time.sleep(0.1)
    said = capsys.readouterr().err
    assert said.count("planning |") == 1
    assert said.endswith("\r" + " " * len("planning |") + "\r")


def is_terminal(monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)


def test_a_bar_names_what_is_under_way_before_it_is_done(capsys, monkeypatch):
    is_terminal(monkeypatch)

    def slow():
        for name in ("first", "second"):
            assert re.search(rf"{name} [|/\\-]\s*$", capsys.readouterr().err)
            yield name

    with options.named_progress(slow(), ["first", "second"], "comparing", quiet=False) as shown:
        assert list(shown) == ["first", "second"]
    left = capsys.readouterr().err
    assert "100%" in left
    assert left.endswith("\n\033[A\033[2K"), "its line is empty, and the next begins there"


@pytest.mark.parametrize(("most", "ended"), [(True, "100%"), (False, "30%")])
def test_a_bar_of_at_most_so_many_steps_is_full_after_fewer(most, ended, capsys, monkeypatch):
    is_terminal(monkeypatch)
    with options.bar(10, "tuning", quiet=False, most=most) as step:
        step(3, "3 simulated")
    assert ended in capsys.readouterr().err.rsplit("\r", 1)[-1]


def test_what_is_shown_of_work_can_end_before_the_work(capsys, monkeypatch):
    is_terminal(monkeypatch)
    monkeypatch.setattr(options, "PATIENCE", 0.01)
    with options.busy("planning", quiet=False) as end:
        time.sleep(0.05)
        end()
        before = capsys.readouterr().err
        time.sleep(0.3)
    assert "planning |" in before
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("command", ["simulate", "plan", "compare", "whatif"])
def test_the_layout_can_be_stated_as_megatron_has_it(command, run):
    code, out, _ = run(command, "--help")
    assert code == 0
    for flag in ("--tp", "--pp", "--dp", "--vpp", "--cp", "--ep", "--gbs", "--seq-length"):
        assert f"{flag} " in out or f"{flag}," in out


def test_a_plan_of_a_model_shows_its_teams_layout_and_origin(run):
    code, out, _ = run("plan", "llama3-8b", "hgx_h100(1)", "--tp", "2", "--pp", "2", "--dp", "2")
    assert code == 0
    assert "\nllama3-8b computed from data sheets for h100-80gb at tensor width 2" in out
    assert "TP 2, PP 2, DP 2 (8 GPUs)" in out
    assert "node0.gpu0-1, node0.gpu2-3" in out


def test_a_plan_in_json_counts_gpus_and_can_be_simulated_again(run, tmp_path):
    words = ("llama3-8b", "hgx_h100(1)")
    _, out, _ = run("plan", *words, "--tp", "2", "--pp", "2", "--json")
    data = json.loads(out)
    assert (data["gpus"], data["layout"]["tensor"], data["layout"]["pipeline"]) == (8, 2, 2)
    assert ["node0.gpu0", "node0.gpu1"] in data["teams"]
    (tmp_path / "plan.json").write_text(out)
    code, again, _ = run("simulate", *words, "--plan", tmp_path / "plan.json", "--json")
    assert code == 0
    assert json.loads(again)["layout"] == data["layout"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--tp", "8", "--pp", "4", "-p", "balanced"], "pipeline has no effect on planner 'balanced'"),
        (["--tp", "4", "--cp", "2"], "context = 2 found; the model 'llama3-70b' is computed"),
        (["--tp", "4", "--ep", "2"], "expert = 2 found; the model 'llama3-70b' is computed"),
    ],
)
def test_what_cannot_be_is_refused_by_name(words, message, run):
    code, out, err = run("simulate", "llama3-70b", "hgx_h100(4)", *words)
    assert (code, out) == (2, "")
    assert message in err


def test_several_stages_on_a_device_are_ordered_as_interleaved(run):
    words = ("llama3-8b", "hgx_h100(1)", "--tp", "2", "--pp", "2", "--vpp", "2", "--dp", "2", "--gbs", "8", "--json")
    _, out, _ = run("simulate", *words)
    assert json.loads(out)["simulation"]["scheduler"] == "interleaved"
    _, out, _ = run("simulate", *words, "-s", "zb_v")
    assert json.loads(out)["simulation"]["scheduler"] == "zb_v"


def test_tokens_of_a_run_give_days_and_gpu_hours(run):
    words = ("llama3-8b", "hgx_h100(1)", "--tp", "2", "--pp", "4", "--tokens", "15T")
    _, out, _ = run("simulate", *words)
    shown = next(line for line in out.splitlines() if line.startswith("training"))
    assert re.search(r"15T tokens: [\d,]+\.\d days, [\d,]+ GPU-hours", shown)
    training = json.loads(run("simulate", *words, "--json")[1])["training"]
    assert training["days"] * 24 * 8 == pytest.approx(training["gpu_hours"])
    assert run("simulate", *words[:-1], "15X")[0] == 2
