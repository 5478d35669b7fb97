"""What people write as quantities, in seconds, bytes and bytes/s."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers import strategies  # noqa: F401 - registers the settings of Hypothesis
from pipesim.base import units
from pipesim.base.errors import InputError, shown


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("25 Gb/s", 25e9 / 8),
        ("25Gbps", 25e9 / 8),
        ("300GB/s", 300e9),
        ("1 GiB/s", 2.0**30),
        ("8 b/s", 1.0),
        ("1.5e3 kB/s", 1.5e6),
        (" 10 Mb/s ", 10e6 / 8),
        ("64", 64.0),
        (64, 64.0),
    ],
)
def test_a_bandwidth_is_bytes_per_second(text, expected):
    """A small b is a bit, eight of which make a byte."""
    assert units.bandwidth(text) == pytest.approx(expected, rel=1e-15)


@pytest.mark.parametrize(
    ("function", "text", "expected"),
    [
        (units.size, "16 GiB", 16 * 2.0**30),
        (units.size, "1.5MB", 1.5e6),
        (units.size, "3 KB", 3e3),
        (units.size, "0", 0.0),
        (units.duration, "5us", 5e-6),
        (units.duration, "5 µs", 5e-6),
        (units.duration, "2 ms", 2e-3),
        (units.duration, "7ns", 7e-9),
        (units.duration, ".5 s", 0.5),
        (units.duration, 0.25, 0.25),
    ],
)
def test_sizes_times_and_rates_of_work_in_base_units(function, text, expected):
    assert function(text) == pytest.approx(expected, rel=1e-15)


@pytest.mark.parametrize("function", [units.bandwidth, units.size, units.duration])
@pytest.mark.parametrize(
    "value", ["", "fast", "-1", -1, -0.1, "1e400", math.nan, math.inf, "nan", "5 parsec", "5 5", True, None, [1], "٣ x"]
)
def test_what_is_no_quantity_is_refused_with_an_example(function, value):
    with pytest.raises(InputError) as caught:
        function(value)
    assert shown(value) in str(caught.value)


@pytest.mark.parametrize("text", ["1e1000000 GB", "1e99999999999999999999 GB", "9" * 5000])
def test_numbers_beyond_all_measure_are_refused_like_others(text):
    with pytest.raises(InputError, match="is not a size"):
        units.size(text)


@pytest.mark.parametrize(
    ("function", "text"),
    [(units.bandwidth, "5 GB"), (units.size, "5 Gb/s"), (units.duration, "5 GB"), (units.size, "5 gb")],
)
def test_a_unit_of_another_sort_is_refused_by_name(function, text):
    with pytest.raises(InputError, match=f"unknown unit {text.split()[1]!r}"):
        function(text)


@given(st.floats(0, 1e12), st.sampled_from(["B", "kB", "MB", "GiB"]))
def test_a_number_with_a_unit_is_so_many_of_that_unit(number, unit):
    assert units.size(f"{number!r} {unit}") == pytest.approx(number * units.size(f"1 {unit}"), rel=1e-15)


def test_a_microsecond_is_the_number_that_one_writes():
    assert units.duration("5us") == 5e-6
    assert units.duration("601 ns") == 601e-9


@given(st.integers(0, 2**52))
def test_whole_nanoseconds_survive_being_seconds(nanoseconds):
    assert units.to_ns(np.array([units.to_s(nanoseconds)])).tolist() == [nanoseconds]


def test_seconds_become_the_nearest_nanosecond():
    assert units.to_ns(np.array([1.4e-9, 1.6e-9, 0.0, 3.0])).tolist() == [1, 2, 0, 3_000_000_000]


@given(st.floats(0, 146 * 365 * 86400.0))
def test_one_number_of_seconds_is_rounded_as_an_array_is(seconds):
    assert units.ns_of(seconds) == units.to_ns(np.array([seconds]))[0]


@pytest.mark.parametrize("seconds", [1e10, math.inf, math.nan])
def test_one_number_of_seconds_that_lasts_for_ever_is_refused_as_an_array_is(seconds):
    for convert in (units.ns_of, lambda one: units.to_ns(np.array([one]))):
        with pytest.raises(InputError, match="longest supported duration is 146 years"):
            convert(seconds)


@pytest.mark.parametrize(
    ("exact", "expected"), [(1000.0, 1000), (1000.0000000001, 1000), (1000.001, 1001), (0.0, 0), (0.5, 1)]
)
def test_a_completion_is_rounded_up_but_for_the_dust_of_a_division(exact, expected):
    assert units.ns_up(exact) == expected
    assert units.all_ns_up(np.array([exact, exact])).tolist() == [expected] * 2


def test_a_unit_of_ten_thousand_letters_is_shown_in_a_line():
    with pytest.raises(InputError, match="unknown unit") as caught:
        units.bandwidth("25 " + "x" * 10_000)
    assert len(str(caught.value)) < 300
