"""The inverse of `needs`, compiled."""

import numpy as np
from hypothesis import given

from helpers import strategies
from pipesim.engines.compiled.dependents import dependents_of


@given(strategies.programs)
def test_the_dependents_are_those_of_the_inverse(program):
    first, found = dependents_of(program.needs.starts, program.needs.values, len(program))
    expected = program.needs.inverse(len(program))
    assert np.array_equal(first, expected.starts)
    assert np.array_equal(found, expected.values)
