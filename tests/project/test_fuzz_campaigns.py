"""A few seeds of the campaigns of `make fuzz`, and that they would see what they look for."""

import pytest

from fuzz import bound, climb, framework_arguments, importers, ledgers, properties, rounding, teams
from pipesim.analysis import bounds

CAMPAIGNS = (bound, climb, framework_arguments, importers, ledgers, rounding, teams)


@pytest.mark.parametrize("campaign", CAMPAIGNS, ids=lambda campaign: campaign.__name__)
def test_the_first_seeds_find_nothing_and_say_the_same_twice(campaign):
    first, _ = (campaign.attempt(seed) for seed in range(2))
    assert campaign.attempt(0) == first


def test_a_property_that_does_not_hold_is_found_whatever_the_tests_draw(monkeypatch, tmp_path):
    path = tmp_path / "test_drawn.py"
    path.write_text(
        "from hypothesis import given, settings, strategies as st\n\n"
        "@settings(max_examples=1)\n@given(st.integers(0, 50))\n"
        "def test_all_are_small(x):\n    if x > 10:\n        raise ValueError('large')\n\n"
        "@given(x=st.integers(0, 50))\ndef test_with_a_fixture(tmp_path, x):\n    pass\n"
    )
    monkeypatch.setattr(properties, "files", lambda: [path])
    ((name, drawn),) = properties.properties_of(path)
    assert name == "test_drawn: test_all_are_small"
    drawn()  # the only example is 0
    with pytest.raises(ValueError, match="large"):
        properties.attempt(3)
    path.write_text(path.read_text().replace("x > 10", "x > 50"))
    properties.properties_of.cache_clear()
    assert properties.attempt(3) == name


def test_properties_are_in_many_files():
    assert len(properties.files()) > 50
    assert len(properties.properties_of(properties.TESTS / "base" / "test_intervals.py")) > 1


def test_no_bound_is_above_a_time_of_a_few_nanoseconds():
    """Ten instances, each with twenty changes; thousands in `make fuzz`."""
    for seed in range(10):
        rounding.attempt(seed)


@pytest.mark.parametrize("campaign", [bound, climb], ids=lambda campaign: campaign.__name__)
@pytest.mark.parametrize("function", ["plan_bound", "schedule_bound"])
def test_a_bound_too_high_by_half_a_per_cent_is_found(campaign, function, monkeypatch):
    """Among twelve instances there is one whose best plan comes that near to it."""
    right = getattr(bounds, function)
    monkeypatch.setattr(bounds, function, lambda *given, **named: 1.005 * right(*given, **named))
    with pytest.raises(AssertionError, match="lies above"):
        _ = [campaign.attempt(seed) for seed in range(12)]
