import pytest

from pipesim.base.errors import InputError
from pipesim.recorders import measuring
from pipesim.recorders.measuring import Settings


def test_a_way_that_was_disturbed_leaves_its_columns_empty_and_says_so():
    whole = {"forward_s": [1.0], "backward_s": [2.0]}
    taken = {
        "reference": [whole] * 2,
        "whole": [whole] * 2,
        "first": [{"backward_first_s": [2.0]}, None],
        "split": [{"backward_input_s": [1.0], "backward_weight_s": [1.0]}] * 2,
    }
    measured = measuring._arranged(taken, {"recompute": "it failed"}, [])
    assert set(measured.columns) == {"forward_s", "backward_s", "backward_input_s", "backward_weight_s"}
    assert measured.missing == {"backward_first_s": "the machine was not quiet", "recompute_s": "it failed"}
    assert measured.reference.tolist() == [3.0, 3.0]


@pytest.mark.parametrize(("name", "value"), [("microbatches", 7), ("passes", 1), ("warmup", 0), ("threads", 0)])
def test_too_few_measurements_are_refused(name, value):
    with pytest.raises(InputError, match=f"{name} = {value} found; at least {value + 1}"):
        Settings(**{name: value})
