"""The first seeds of the campaigns about the command line and its expressions, and what longer ones have found."""

import time

import pytest

from fuzz import commands, expressions
from pipesim.base import units
from pipesim.base.errors import InputError


@pytest.mark.parametrize("seed", range(60))
def test_a_drawn_command_line_gives_a_result_or_a_refusal(seed):
    name, _, code = commands.attempt(seed).partition(": exit ")
    assert name in commands.NAMES
    assert code in {"0", "2", "3"}


def test_spoilt_expressions_are_used_or_refused():
    found = {expressions.attempt(seed) for seed in range(300)}
    assert len({label.partition(":")[0] for label in found}) == len(expressions.POOLS), "every kind was drawn"


@pytest.mark.parametrize("expression", ["looped_bfs(chunks=-1)", "hanayo(waves=-1)", "interleaved(chunks=0)"])
def test_a_scheduler_is_not_asked_for_fewer_chunks_than_one(expression, run):
    """expressions, seeds 4285 and 13538: ValueError: negative dimensions are not allowed."""
    code, _, err = run("schedule", expression)
    assert code == 2
    assert "found; at least 1 was expected" in err


@pytest.mark.parametrize("expression", [f"gpt({10**15}, 64, 2)", f"gpt(2, 64, 2, vocabulary={10**18})"])
def test_an_architecture_has_no_size_beyond_all_models(expression, run, tmp_path):
    """expressions, seeds 624 and 13648: layers were made for ever, and an int was too large for a float."""
    code, _, err = run("trace", expression, "-d", "h100", "-o", tmp_path / "t")
    assert code == 2
    assert "a whole number from 1 to" in err


def test_a_sum_of_thousands_is_refused_as_any_other(run):
    """expressions, seed 37391: Python's RecursionError, from writing down what was found."""
    for count in (10, 300, 600, 900, 3000):
        code, _, err = run("show", f"flat({'1+' * count}1, bandwidth=1e9)")
        assert code == 2
        assert "is not a plain number" in err or "cannot be read" in err


@pytest.mark.parametrize("among", ["3", "[2]", "{'pe': 1}"])
def test_auto_is_told_names_of_schedulers(among, run):
    """expressions, seed 101292: TypeError: 'int' object is not iterable."""
    code, _, err = run("schedule", f"auto(among={among})")
    assert code == 2
    assert "names of schedulers were expected" in err


@pytest.mark.parametrize("planner", ["gpipe(balance={})", "hetpipe(allocation=['x'])"])
def test_an_option_with_a_few_words_takes_no_list(planner, run):
    """expressions, seeds 1056 and 5504: TypeError: unhashable type."""
    code, _, err = run("plan", "bert-large", 'flat(2, bandwidth="1GB/s")', "-p", planner)
    assert code == 2
    assert "found; one of '" in err


def test_a_number_of_many_digits_is_refused_at_once():
    """expressions, seed 5348: matching it took ten seconds."""
    began = time.perf_counter()
    with pytest.raises(InputError, match="is not a bandwidth"):
        units.bandwidth("9" * 200_000 + "x x")
    assert time.perf_counter() - began < 0.5
