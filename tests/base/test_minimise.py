import numpy as np
import pytest

from pipesim.base.minimise import nelder_mead


def test_the_least_of_a_curved_valley_is_found():
    """Rosenbrock's function, least at (1, 1)."""
    at, least = nelder_mead(lambda x: (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2, [-1.2, 1.0], evaluations=1000)
    assert at == pytest.approx([1, 1], abs=1e-4)
    assert least < 1e-8


def test_the_mean_error_without_sign_is_least_at_the_median():
    values = np.array([1.0, 2.0, 4.0, 9.0, 100.0])
    at, least = nelder_mead(lambda x: float(np.abs(values - x[0]).mean()), [3.0])
    assert at[0] == pytest.approx(4, abs=1e-3)
    assert least == pytest.approx(np.abs(values - 4).mean(), rel=1e-4)


def test_it_stops_after_the_evaluations_it_may_make():
    calls = []
    nelder_mead(lambda x: calls.append(1) or float(x @ x), [5.0, 5.0, 5.0], evaluations=50)
    assert 50 <= len(calls) <= 54
