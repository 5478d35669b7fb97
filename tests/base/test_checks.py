import numpy as np
import pytest

from pipesim.base.checks import MOST, check_at_least, check_not_negative, check_one_of, check_sequence, check_whole
from pipesim.base.errors import InputError, PlanError


@pytest.mark.parametrize(
    ("value", "expected"), [(0, "at least 1 was expected"), (MOST + 1, f"at most {MOST} was expected")]
)
def test_a_count_has_a_lower_limit_and_fits_64_bits(value, expected):
    check_at_least("stages", 1)
    check_at_least("seed", 0, 0)
    with pytest.raises(PlanError, match=f"stages = {value} found; {expected}"):
        check_at_least("stages", value, 1, PlanError)


@pytest.mark.parametrize("value", [True, 1.0, "1", None, np.float64(3), 0, 17])
def test_only_whole_numbers_within_the_limits_are_taken(value):
    with pytest.raises(InputError, match=r"n = .* found; a whole number from 1 to 16 was expected"):
        check_whole("n", value, 1, 16)


def test_whole_numbers_of_numpy_become_ints():
    found = check_whole("n", np.int32(16), 1, 16)
    assert (found, type(found)) == (16, int)


def test_without_an_upper_limit_the_error_names_the_lower_one():
    with pytest.raises(InputError, match="samples = 0 found; a whole number, at least 1, was expected"):
        check_whole("samples", 0)


@pytest.mark.parametrize("value", [-1, -1e-300, float("inf"), float("nan"), True, "2", None])
def test_a_factor_is_a_finite_number_and_not_negative(value):
    for fine in (0, 2.5, np.float32(1), 10**400):
        check_not_negative("factor", fine)
    with pytest.raises(InputError, match=r"factor = .* found; a finite number, not negative, was expected"):
        check_not_negative("factor", value)


@pytest.mark.parametrize("value", ["cubic", "", 3, ["linear"]])
def test_an_option_is_one_of_the_names_that_the_error_lists(value):
    check_one_of("scaling", "linear", ("recorded", "linear"))
    with pytest.raises(PlanError, match=r"scaling = .* found; one of recorded, linear was expected"):
        check_one_of("scaling", value, ("recorded", "linear"), PlanError)


@pytest.mark.parametrize(
    ("value", "of"), [(5, int), (1j, int), ("abc", str), ((1, 2.5), int), (("a", 1), str), (None, str)]
)
def test_a_sequence_has_values_of_one_type(value, of):
    check_sequence("blocks", (1, np.int64(2)), int)
    check_sequence("kinds", ["a100"], str)
    check_sequence("kinds", (), str)
    with pytest.raises(InputError, match=r"sizes = .* found; (whole numbers|texts) in brackets were expected"):
        check_sequence("sizes", value, of)
