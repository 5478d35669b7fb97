"""Lengths of sequences: as their distribution has them, as a file has them, and packed without loss."""

import numpy as np
import pytest

from pipesim.base.errors import PipesimError
from pipesim.core.sequence_lengths import SequenceLengths, packed


def drawn(text, count=20_000, longest=10**6):
    return SequenceLengths.of(text).draw(np.random.default_rng(0), count, longest)


def test_distributions_have_their_parameters():
    assert np.median(drawn("lognormal(2000, 1.0)")) == pytest.approx(2000, rel=0.03)
    assert np.log(drawn("lognormal(2000, 0.5)")).std() == pytest.approx(0.5, rel=0.03)
    assert drawn("exponential(mean=300)").mean() == pytest.approx(300, rel=0.03)
    even = drawn("uniform(10, 20)")
    assert (even.min(), even.max()) == (10, 20)


def test_lengths_are_cut_to_the_longest_and_have_at_least_one_token():
    found = drawn("lognormal(2000, 3.0)", longest=4096)
    assert found.max() == 4096
    assert found.min() >= 1


def test_lengths_in_a_file_are_drawn_as_often_as_they_are_there(tmp_path):
    file = tmp_path / "lengths.csv"
    file.write_text("tokens\n100\n100\n\n400\n")
    lengths = SequenceLengths.of(str(file))
    assert lengths.recorded == (100, 100, 400)
    found = lengths.draw(np.random.default_rng(0), 9000, 1000)
    assert set(found.tolist()) == {100, 400}
    assert (found == 100).mean() == pytest.approx(2 / 3, abs=0.02)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lognormal(0, 1)", "median = 0 found; 1 to"),
        ("lognormal(10, 11)", "sigma = 11 found; 0 to 10"),
        ("uniform(20, 10)", "least = 20 found"),
        ("lognormal(10)", "sigma"),
        ("normal(10, 2)", "distribution"),
        ("datetime:date(2020, 1, 1)", "a function"),
        ("missing.csv", "missing.csv: no such file"),
    ],
)
def test_what_is_no_distribution_is_refused(text, message):
    with pytest.raises(PipesimError, match=message):
        SequenceLengths.of(text)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "has no lengths"),
        ("tokens\n", "has no lengths"),
        ("10\nx\n", "line 2: 'x' found"),
        ("0\n", "line 1: 0 found"),
    ],
)
def test_files_without_lengths_are_refused(content, message, tmp_path):
    (tmp_path / "lengths.txt").write_text(content)
    with pytest.raises(PipesimError, match=message):
        SequenceLengths.load(tmp_path / "lengths.txt")


def test_packing_fills_samples_and_cuts_what_does_not_fit():
    found = packed(np.array([600, 700, 100]), 1000, 3)
    assert [parts.tolist() for parts in found] == [[600, 400], [100, 600, 300], [100, 600, 300]]
