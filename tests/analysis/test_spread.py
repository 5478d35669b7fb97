"""How much times vary, and whether two recordings differ: against published tables and against chance itself."""

import numpy as np
import pytest

from helpers import strategies
from helpers.small_traces import sampled_trace
from pipesim.analysis import spread
from pipesim.analysis.spread import Moments
from pipesim.core.costs import costs_of


def moments(*layers):
    return spread.moments(costs_of(sampled_trace(*layers)), "forward", 0)


def test_noise_is_the_median_and_the_median_distance_from_it():
    found = spread.noise(costs_of(sampled_trace([1.0, 2.0, 3.0, 100.0], [5.0])), "forward", 0)
    assert found.count.tolist() == [4, 1]
    assert found.median.tolist() == [2.5, 5.0]
    assert found.mad.tolist() == [1.0, 0.0]


@pytest.mark.parametrize(
    ("freedom", "t"),
    [(1, 12.706205), (2, 4.302653), (3, 3.182446), (5, 2.570582), (10, 2.228139), (30, 2.042272), (1e9, 1.959964)],
)
def test_students_quantiles_are_those_of_the_tables(freedom, t):
    student = spread.Student.of(freedom)
    assert student.quantile(0.95) == pytest.approx(t, rel=1e-5)
    assert student.tail(t) == pytest.approx(0.05, rel=1e-4)


def test_the_interval_is_welchs():
    """By hand: variances 4 and 36 of 4 and 9 samples; 1 and 4 of the squared error, so 25 / (1/3 + 16/8) freedom."""
    a = Moments(np.array([4]), np.array([10.0]), np.array([4.0]))
    b = Moments(np.array([9]), np.array([17.0]), np.array([36.0]))
    found = spread.difference(a, b, [0], [0])
    reach = spread.Student.of(25 / (1 / 3 + 16 / 8)).quantile(0.95) * np.sqrt(5)
    assert found.change == 7.0
    assert (found.low, found.high) == (pytest.approx(7 - reach), pytest.approx(7 + reach))


@pytest.mark.parametrize("scale", [1.0, 1e-9, 1e3])
def test_an_interval_scales_with_the_unit(scale):
    rng = np.random.default_rng(1)
    a, b = rng.normal(5, 1, 8), rng.normal(6, 2, 5)
    one = spread.difference(moments(a), moments(b), [0], [0])
    other = spread.difference(moments(a * scale), moments(b * scale), [0], [0])
    assert (other.low, other.high, other.p) == pytest.approx((one.low * scale, one.high * scale, one.p))


def test_with_one_sample_there_is_no_confidence():
    found = spread.difference(moments([1.0]), moments([2.0, 3.0]), [0], [0])
    assert found == spread.Difference(1.5)


def test_times_that_do_not_vary_differ_for_sure_or_not_at_all():
    assert spread.difference(moments([1.0, 1.0]), moments([1.0, 1.0]), [0], [0]).p == 1.0
    assert spread.difference(moments([1.0, 1.0]), moments([2.0, 2.0]), [0], [0]) == spread.Difference(
        1.0, 1.0, 1.0, 0.0
    )


@pytest.mark.parametrize(("n", "m"), [(2, 2), (3, 12), (16, 16)])
def test_the_interval_covers_the_true_difference_19_times_of_20(n, m):
    """Of normal times with unequal variances: never much less often; of so few as two, more often."""
    rng, runs = np.random.default_rng(n), 400
    covered = 0
    for _ in range(runs):
        found = spread.difference(moments(rng.normal(30, 1, n)), moments(rng.normal(32, 3, m)), [0], [0])
        covered += found.low <= 2 <= found.high
    assert 0.93 <= covered / runs <= 1.0


def test_layers_together_vary_less_than_each():
    rng = np.random.default_rng(0)
    a, b = ([rng.normal(1, 0.1, 10) for _ in range(25)] for _ in range(2))
    together = spread.difference(moments(*a), moments(*b), range(25), range(25))
    alone = spread.difference(moments(*a), moments(*b), [0], [0])
    assert (together.high - together.low) < 0.5 * 25 * (alone.high - alone.low)


def test_holm_raises_the_least_most_and_keeps_the_order():
    assert spread.holm([0.01, None, 0.04, 0.03]) == pytest.approx([0.03, None, 0.06, 0.06])
    assert spread.holm([]) == []
    assert spread.holm([0.9, 0.8]) == [1.0, 1.0]


def test_samples_are_those_that_costs_summarise():
    costs = costs_of(strategies.even_trace(3))
    for phase in ("forward", "backward"):
        values = [float(np.median(layer)) for layer in spread.samples(costs, phase, 0)]
        assert values == pytest.approx(costs.seconds(phase, costs.kinds[0]).tolist())
