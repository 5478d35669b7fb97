"""How a sweep runs: options of the command and keywords in Python are the same."""

import dataclasses

import pytest

from helpers import sweeps
from pipesim.base.errors import InputError
from pipesim.base.settings import settings_of
from pipesim.cli.commands.sweep_command import sweep as command
from pipesim.studies import sweep
from pipesim.studies.sweep_options import SweepOptions


def test_every_field_is_an_option_of_the_command():
    fields = {field.name for field in dataclasses.fields(SweepOptions)}
    assert fields == {*settings_of(SweepOptions), "allow_modules"}
    assert fields <= {parameter.name for parameter in command.params}


def test_a_misspelt_keyword_is_answered_with_a_suggestion(tmp_path):
    made = sweep.load(sweeps.write(tmp_path, sweeps.SMALL, 2))
    with pytest.raises(InputError, match="keyword 'worker' is unknown; did you mean 'workers'"):
        sweep.run(made, worker=1)
