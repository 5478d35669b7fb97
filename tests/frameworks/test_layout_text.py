"""The text of stages is that of Megatron-LM. What its parser makes of each text was written down from its own code."""

import random

import pytest

from helpers.layouts import spoilt
from pipesim.base.errors import InputError
from pipesim.frameworks.layout_text import stages_of, text_of


@pytest.mark.parametrize(
    ("text", "stages"),
    [
        ("Et*3|(tt|)*2,m|L", ("Ettt", "tt", "tt", "m", "L")),
        ("Ettt|(tt|)*3m|L", ("Ettt", "tt", "tt", "tt", "m", "L")),
        ("E|(t|)*3,m|m||L", ("E", "t", "t", "t", "m", "m", "", "L")),
        ("(Et|tL)*1", ("Et", "tL")),
        ("E(t|t)*2L", ("Et", "tt", "tL")),
        ("Et|*3tL", ("Et", "", "", "tL")),
        ("(t)*2*3", ("tttt",)),
        ("E(t*2|)*2,t*3L", ("Ett", "tt", "tttL")),
        ("t*0", ("",)),
        ("", ("",)),
    ],
)
def test_repetition_is_written_out(text, stages):
    assert stages_of(text) == stages


@pytest.mark.parametrize("text", ["Et x", "((t)*2|)*2", "E(t|L", "t*", "*3", "()*2", "Et|tL;", "t**2", "e|l"])
def test_text_that_is_no_layout_is_refused(text):
    with pytest.raises(InputError, match="E, t, m and L were expected"):
        stages_of(text)


@pytest.mark.parametrize("text", ["t*999999", "(t*9999|)*9999", "(ttttttttttttttttt|)*99999"])
def test_text_that_would_be_very_long_is_refused_before_it_is_made(text):
    with pytest.raises(InputError, match="letters found; 200000 at most"):
        stages_of(text)


def test_what_is_written_reads_back():
    rng = random.Random(0)
    for _ in range(500):
        each = ("".join(rng.choice("Etttm") for _ in range(rng.choice([0, 1, 2, 7]))) for _ in range(rng.randint(1, 6)))
        stages = tuple(stage for stage in each for _ in range(rng.choice([1, 1, 5])))
        assert stages_of(text_of(stages)) == stages


def test_damaged_text_is_a_layout_or_an_error():
    rng = random.Random(1)
    refused = 0
    for _ in range(500):
        text = spoilt(rng, "Et*3|(tt|)*29,m|L")
        try:
            assert all(set(stage) <= set("EtmL") for stage in stages_of(text))
        except InputError:
            refused += 1
    assert 100 < refused < 500
