"""Every engine before the one judge."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import strategies
from contracts import check_engine
from pipesim import lookup
from pipesim.engines import ENGINES


@pytest.mark.parametrize("name", ENGINES)
@settings(max_examples=200)
@given(program=st.one_of(strategies.programs, strategies.even_programs))
def test_every_engine_obeys_the_rules_and_agrees_with_the_reference(name, program):
    check_engine(lookup.function_named(ENGINES[name], {}, "engine"), program)
