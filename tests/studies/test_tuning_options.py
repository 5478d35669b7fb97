"""How a search for the best layout runs."""

import pytest

from pipesim.base.errors import InputError
from pipesim.studies.tuning_options import TuningOptions, prices_of


def test_prices_are_one_for_all_or_by_kind_of_device():
    assert prices_of("2.5") == {"": 2.5}
    assert prices_of(3) == {"": 3.0}
    assert prices_of("h100-80gb=2.5; v100-32gb=0.9") == {"h100-80gb": 2.5, "v100-32gb": 0.9}
    assert prices_of(None) is None


@pytest.mark.parametrize("text", ["", "a100", "a100=", "a100=x", "-1", "a100=nan"])
def test_what_is_no_price_is_refused(text):
    with pytest.raises(InputError, match="a price"):
        prices_of(text)


def test_a_price_without_its_objective_has_no_effect():
    with pytest.raises(InputError, match="price has no effect without objective = cost"):
        TuningOptions(price={"": 1.0}).check()
    with pytest.raises(InputError, match="objective 'speed' found; one of time"):
        TuningOptions(objective="speed").check()
