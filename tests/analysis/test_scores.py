"""Scores: errors with and without sign, order with ties, what a choice loses."""

import numpy as np
import pytest

from pipesim.analysis import scores


def test_errors_keep_their_sign_only_in_the_bias():
    found = scores.errors([-0.1, 0.02, 0.03, 0.05])
    assert (found.rows, found.worst) == (4, 0.1)
    assert (found.mean, found.median, found.bias) == pytest.approx((0.05, 0.04, 0.0))


def test_there_are_no_errors_of_nothing():
    assert scores.errors([]) is None


def test_without_tolerance_the_correlation_is_that_of_ranks():
    rng = np.random.default_rng(1)
    one, other = rng.random(30), rng.random(30)
    ranks = [np.argsort(np.argsort(values)) for values in (one, other)]
    assert scores.spearman(one, other, [0.0] * 30) == pytest.approx(np.corrcoef(*ranks)[0, 1])


def test_equal_values_share_their_rank():
    # ranks 1, 2.5, 2.5, 4 against 1, 2, 3, 4: pairs tied in the measurement are tied in the simulation
    assert scores.spearman([1, 2, 2, 3], [1, 2, 3, 4], [0.0] * 4) == pytest.approx(1)
    assert scores.spearman([1, 2, 2, 3], [4, 2, 3, 1], [0.0] * 4) == pytest.approx(-1)


def test_the_order_of_pairs_closer_than_their_noise_costs_nothing():
    measured, swapped = [1.0, 2.0, 2.02, 3.0], [1.0, 2.1, 1.9, 3.0]
    assert scores.spearman(measured, swapped, [0.01] * 4) == pytest.approx(1)
    assert scores.spearman(measured, swapped, [0.001] * 4) < 1
    assert scores.ordered_pairs(measured, swapped, [0.01] * 4) == (5, 5)
    assert scores.ordered_pairs(measured, swapped, [0.001] * 4) == (5, 6)


def test_equal_simulations_of_unequal_runs_are_not_in_order():
    assert scores.ordered_pairs([1, 2], [5, 5], [0, 0]) == (0, 1)
    assert scores.spearman([1, 2], [5, 5], [0, 0]) == 0
    assert scores.spearman([1, 1], [5, 6], [0, 0]) is None


def test_regret_is_what_the_row_simulated_as_fastest_loses_against_the_fastest():
    assert scores.regrets(["x", "x", "y", "y"], [1.0, 1.2, 3.0, 2.0], [2.0, 1.0, 5.0, 4.0]) == pytest.approx([0.2, 0])


def test_of_rows_simulated_alike_the_slowest_is_chosen():
    assert scores.regrets("xxx", [1.0, 1.5, 2.0], [1.0, 1.0, 3.0]) == pytest.approx([0.5])


def test_without_a_difference_there_is_no_choice():
    assert scores.regrets("xxyz", [1.0, 2.0, 1.0, 1.0], [1.0, 1.0, 2.0, 3.0]) == []
