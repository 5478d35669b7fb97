"""What a person reads: numbers with their units, tables that line up, and nothing hidden."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.networks import pipeline
from helpers.strategies import even_trace
from pipesim.display import report
from pipesim.engines.event import run
from pipesim.studies import comparison
from pipesim.studies.experiment import load_cluster


@pytest.mark.parametrize(
    ("value", "text"),
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
def test_seconds_have_four_digits_and_a_unit(value, text):
    assert report.seconds(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.000 KiB"),
        (16 * 2**30, "16.00 GiB"),
        (-(2**20), "-1.000 MiB"),
        (None, "-"),
    ],
)
def test_sizes_are_powers_of_1024(value, text):
    assert report.size(value) == text


@pytest.mark.parametrize(("value", "text"), [(12.5e9, "12.50 GB/s"), (999.0, "999.0 B/s"), (np.inf, "-")])
def test_rates_are_powers_of_1000(value, text):
    assert report.rate(value) == text


@given(st.floats(1e-9, 1e6))
def test_what_is_shown_is_what_is_meant_to_four_digits(value):
    number, unit = report.seconds(value).split()
    assert float(number) * {"s": 1, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}[unit] == pytest.approx(value, rel=1e-3)


def test_columns_line_up():
    text = report.table(["name", "n"], [["a", "1"], ["longer", "1000"]])
    assert text == "name       n\n──────  ────\na          1\nlonger  1000"


def test_a_text_gantt_shows_who_does_what_in_each_slot():
    timeline = run(pipeline([1, 2], [2, 1], 2, "gpipe", sharing="none"))
    assert report.gantt(timeline, slot_ns=1).split("\n") == [
        "g0  F0 F1 .  .  .  .  B0 B0 B1 B1",
        "g1  .  F0 F0 F1 F1 B0 B1 .  .  .",
        "one column: 1.000 ns",
    ]


def test_a_cluster_is_shown_with_its_bandwidths():
    text = report.cluster(load_cluster('servers(2, 2, intra="25GB/s", inter="1GB/s")'))
    assert "4 x v100-16gb" in text
    assert "1.000 GB/s to 25.00 GB/s" in text
    rows = {line.split()[0]: line.split()[1:] for line in text.splitlines() if line.startswith("node")}
    assert rows["node0.gpu0"] == ["·", "25", "1", "1"]


def test_a_large_cluster_says_how_much_is_not_shown():
    assert "... 4 more devices" in report.cluster(load_cluster('flat(20, bandwidth="1GB/s")'))


def test_failures_are_shown_with_their_reason_and_the_best_is_starred():
    rows = list(
        comparison.compare(even_trace(4), 'flat(2, bandwidth="1GB/s")', ["uniform(stages=3)", "balanced"], ["gpipe"])
    )
    data, best = [row.as_data() for row in rows], rows.index(comparison.best(rows))
    text = report.comparison(data, best)
    assert "uniform(stages=3) + gpipe: planner 'uniform(stages=3)': stages = 3 found; 1 to 2 was expected" in text
    assert next(line for line in text.splitlines() if "*" in line).startswith("balanced")
