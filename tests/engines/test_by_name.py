"""Programs run on engines that are called by name, the user's own too."""

import pytest

from helpers.small_programs import pair
from pipesim.base.errors import InputError, UnknownNameError
from pipesim.engines import ENGINES, by_name


def wrong_engine(program, watch):
    """An engine that returns something else."""
    return program, watch


@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_has_a_name(engine):
    assert by_name.run(pair(), engine).same_as(by_name.run(pair()))


def test_what_a_users_engine_returns_is_checked():
    with pytest.raises(InputError, match="returned a tuple; a Timeline was expected"):
        by_name.run(pair(), "engines.test_by_name:wrong_engine")


def test_an_unknown_engine_is_refused_with_a_suggestion():
    with pytest.raises(UnknownNameError, match="did you mean 'compiled'"):
        by_name.run(pair(), "compild")
