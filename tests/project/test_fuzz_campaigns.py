"""A few seeds of the campaigns of `make fuzz`, and that they would see what they look for."""

import pytest

from fuzz import bound, climb, importers, ledgers, rounding, teams
from pipesim.analysis import bounds

CAMPAIGNS = (bound, climb, importers, ledgers, rounding, teams)


@pytest.mark.parametrize("campaign", CAMPAIGNS, ids=lambda campaign: campaign.__name__)
def test_the_first_seeds_find_nothing_and_say_the_same_twice(campaign):
    first, _ = (campaign.attempt(seed) for seed in range(2))
    assert campaign.attempt(0) == first


def test_no_bound_is_above_a_time_of_a_few_nanoseconds():
    """Twenty instances, each with twenty changes; thousands in `make fuzz`."""
    for seed in range(20):
        rounding.attempt(seed)


@pytest.mark.parametrize("campaign", [bound, climb], ids=lambda campaign: campaign.__name__)
@pytest.mark.parametrize("function", ["plan_bound", "schedule_bound"])
def test_a_bound_too_high_by_half_a_per_cent_is_found(campaign, function, monkeypatch):
    """Among twelve instances there is one whose best plan comes that near to it."""
    right = getattr(bounds, function)
    monkeypatch.setattr(bounds, function, lambda *given, **named: 1.005 * right(*given, **named))
    with pytest.raises(AssertionError, match="lies above"):
        _ = [campaign.attempt(seed) for seed in range(12)]
