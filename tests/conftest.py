"""What several files of tests ask for by name."""

import os

import pytest

from pipesim.cli import main

# Every timeline that a test makes, in this process or in one that it starts, is checked from scratch.
os.environ["PIPESIM_VERIFY"] = "1"


@pytest.fixture
def run(capsys):
    """Run a command in this process: (exit code, standard output, standard error)."""

    def call(*arguments):
        code = 0
        try:
            main([str(argument) for argument in arguments])
        except SystemExit as stop:
            code = stop.code or 0
        return code, *capsys.readouterr()

    return call
