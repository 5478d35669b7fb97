"""pipesim tune, as a person meets it."""

import functools
import json
import shlex

import pytest

FOUR = 'servers(2, 2, intra="25GB/s", inter="10Gb/s")'
SMALL = ("bert-large", FOUR, "--global-batch", "128", "--budget", "4", "--pp", "2")


@pytest.fixture
def tune(run):
    """Run `pipesim tune` in this process: (exit code, standard output, standard error)."""
    return functools.partial(run, "tune")


def test_the_best_row_is_simulated_again_by_the_command_that_is_shown(tune, run):
    code, out, _ = tune(*SMALL, "--json")
    found = json.loads(out)
    assert code == 0
    best = found["rows"][0]
    words = shlex.split(best["command"])[1:]
    code, out, _ = run(*words, "--json")
    assert code == 0
    assert json.loads(out)["iteration_time_s"] == best["iteration_time_s"]


def test_options_that_are_given_are_kept_and_a_picture_is_drawn(tune, tmp_path):
    code, out, _ = tune(*SMALL, "--recompute", "full", "--plot", tmp_path / "front.png", "--top", "1")
    assert code == 0
    assert "time and memory written to" in out
    assert (tmp_path / "front.png").stat().st_size > 0
    assert " full " in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "global_batch is missing"),
        (("--global-batch", "128", "--objective", "cost"), "objective cost needs price"),
        (("--global-batch", "128", "--price", "x", "--objective", "cost"), "'x' found; a price such as 2.5"),
        (("--global-batch", "128", "--cp", "2"), "context = 2 found; tune searches tensor, pipeline and data"),
        (("--global-batch", "128", "--within", "tp < 2"), "nothing is called 'tp'"),
        (("--global-batch", "128", "--planners", "alpaa"), "alpaa"),
    ],
)
def test_user_errors_end_with_exit_code_2(tune, words, message):
    code, out, err = tune("bert-large", FOUR, *words)
    assert (code, out) == (2, "")
    assert message in err


def test_the_best_layout_is_shown_in_the_arguments_of_a_framework(tune):
    words = (
        "llama3-8b",
        "hgx_h100(1)",
        "--gbs",
        "32",
        "--framework",
        "megatron",
        "--pp",
        "4",
        "--tp",
        "2",
        "--budget",
        "1",
    )
    code, out, _ = tune(*words, "--to", "megatron")
    assert code == 0
    assert "--pipeline-model-parallel-size 4" in out
    assert "--tensor-model-parallel-size 2" in out
    code, _, err = tune(*words, "--to", "megatrom")
    assert code == 2
    assert "megatrom" in err
