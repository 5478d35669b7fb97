"""Sorting the first of many values."""

import numpy as np
import pytest

from pipesim.base.kernels import compiled
from pipesim.engines.compiled.sorting import sort_first


@pytest.mark.parametrize("count", [0, 1, 2, 5, 60, 200])
def test_the_first_values_are_sorted_and_the_others_are_left(count):
    values = np.random.default_rng(count).integers(0, 99, 210)
    before = values.copy()
    compiled(sort_first)(values, count)
    assert values[:count].tolist() == sorted(before[:count].tolist())
    assert values[count:].tolist() == before[count:].tolist()
