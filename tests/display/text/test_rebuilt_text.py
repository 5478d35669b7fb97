"""Recorded runs beside their simulations as text."""

import pytest

from pipesim.display import text

RANKS = [
    {"rank": 0, "clock_shift_s": 0.0, "recorded_s": {"forward": 1.0}, "replayed_s": {"forward": 1.1}},
    {"rank": 1, "clock_shift_s": 0.0025, "recorded_s": {"forward": 2.0}, "replayed_s": {"forward": 2.2}},
]
DATA = {
    "source": "run",
    "stages": 2,
    "microbatches": 4,
    "recorded_s": 2.0,
    "replayed_s": 2.1,
    "error": 0.05,
    "cluster": "flat(2)",
    "engine": "event",
    "ranks": RANKS,
}


def test_each_rank_has_a_recorded_and_a_simulated_row():
    lines = text.rebuilt(DATA).splitlines()
    assert [line.split()[-2:] for line in lines[-4:]] == [
        ["1.000", "s"],
        ["1.100", "s"],
        ["2.000", "s"],
        ["2.200", "s"],
    ]
    assert [line.startswith("rank") for line in lines[-4:]] == [True, False, True, False]


@pytest.mark.parametrize(("error", "shown"), [(0.05, "(+5.0 %)"), (None, "(-)")])
def test_the_error_is_a_share_of_the_recorded_time(error, shown):
    assert shown in text.rebuilt(DATA | {"error": error})


def test_only_shifted_clocks_are_shown():
    assert "rank 1 +2.500 ms" in text.rebuilt(DATA)
    assert "clocks" not in text.rebuilt(DATA | {"ranks": RANKS[:1]})
