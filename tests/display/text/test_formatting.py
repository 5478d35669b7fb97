"""Numbers with their units, and tables that line up."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipesim.display import text
from pipesim.display.text import formatting


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.0, "0 s"),
        (1.0, "1.000 s"),
        (123.456, "123.5 s"),
        (0.0385, "38.50 ms"),
        (2.5e-6, "2.500 us"),
        (17e-9, "17.00 ns"),
        (4000.0, "4000 s"),
        (None, "-"),
    ],
)
def test_seconds_have_four_digits_and_a_unit(value, shown):
    assert formatting.seconds(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.000 KiB"),
        (16 * 2**30, "16.00 GiB"),
        (-(2**20), "-1.000 MiB"),
        (None, "-"),
    ],
)
def test_sizes_are_powers_of_1024(value, shown):
    assert formatting.size(value) == shown


@pytest.mark.parametrize(("value", "shown"), [(12.5e9, "12.50 GB/s"), (999.0, "999.0 B/s"), (np.inf, "-")])
def test_rates_are_powers_of_1000(value, shown):
    assert formatting.rate(value) == shown


@pytest.mark.parametrize(("value", "shown"), [(0.1234, "12.3 %"), (None, "-")])
def test_shares_are_percentages(value, shown):
    assert formatting.percent(value) == shown


@given(st.floats(1e-9, 1e6))
def test_the_text_of_a_time_is_within_half_a_thousandth_of_it(value):
    number, unit = formatting.seconds(value).split()
    assert float(number) * {"s": 1, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}[unit] == pytest.approx(value, rel=1e-3)


def test_columns_line_up():
    shown = formatting.table(["name", "n"], [["a", "1"], ["longer", "1000"]])
    assert shown == "name       n\n──────  ────\na          1\nlonger  1000"


def test_values_line_up_beside_their_names():
    assert formatting.facts([("a", "1"), ("longer", "2")]) == "a       1\nlonger  2"


def test_long_names_are_shortened():
    assert formatting.shortened("conv", 4) == "conv"
    assert formatting.shortened("conv1", 4) == "con…"


def test_columns_are_left_out_from_the_right_until_a_table_fits_its_terminal():
    headers, rows = ["name", "a", "b", "c"], [["x" * 10, "1" * 10, "2" * 10, "3" * 10]]
    for width, kept in ((None, 4), (46, 4), (45, 3), (33, 2), (5, 2)):
        shown = text.table(headers, rows, on=text.Terminal(width))
        assert shown.splitlines()[0].split() == headers[:kept]
        left_out = f"left out, as the terminal is narrow: {', '.join(headers[kept:])}"
        assert " ".join(shown.split()).endswith(left_out) == (kept < 4)
    assert text.table(headers, rows, on=text.Terminal(40), drop=["a"]).splitlines()[0].split() == ["name", "b", "c"]


def test_long_values_go_on_below_where_they_begin_and_no_line_is_wider_than_the_terminal():
    pairs = [("time", "136.2 ms, by 365 measured runs of any kind"), ("idle", "3 %")]
    assert text.facts(pairs, text.Terminal(26)) == (
        "time  136.2 ms, by 365\n      measured runs of any\n      kind\nidle  3 %"
    )
    assert text.facts(pairs) == text.facts(pairs, text.Terminal(None))
    assert len(text.facts(pairs).splitlines()) == 2


def test_names_are_shortened_where_leaving_out_columns_does_not_suffice():
    lines = text.table(["name", "a"], [["x" * 40, "1"]], on=text.Terminal(20)).splitlines()
    assert lines[2] == f"{'x' * 16}…  1"
