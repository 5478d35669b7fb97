"""Programs run on engines that are called by name, the user's own too."""

import numpy as np
import pytest

from helpers.changed_programs import resume_always
from helpers.small_programs import pair
from pipesim.base.errors import InputError, UnknownNameError
from pipesim.engines import ENGINES, by_name, event


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


def test_what_has_been_run_is_not_run_again_and_the_compiled_engine_resumes(monkeypatch):
    resume_always(monkeypatch)
    program = pair()
    last = int(event.run(program).start.argmax())
    other = program.with_durations(np.where(np.arange(len(program)) == last, 7_000_000, program.duration))
    for engine in ENGINES:
        first = by_name.run(program, engine)
        assert by_name.run_again(program, engine, first) is first
        assert by_name.run_again(other, engine, first).same_as(event.run(other))
        makespan = by_name.makespans(engine, first)
        assert [makespan(one) for one in (program, other, program)] == [
            event.run(one).makespan for one in (program, other, program)
        ]
