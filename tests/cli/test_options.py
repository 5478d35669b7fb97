"""What several commands take, and how they show what they do."""

import sys
import time

from pipesim.cli import options
from pipesim.core import costs, program
from pipesim.lowering.setup import RECOMPUTES
from pipesim.studies import simulation


def test_the_choices_of_the_options_are_those_of_the_program():
    assert simulation.SHARINGS == program.SHARINGS
    assert simulation.TRANSFERS == program.TRANSFERS
    assert simulation.RECOMPUTES == RECOMPUTES
    assert simulation.SCALINGS == costs.SCALINGS


def test_what_takes_long_says_so_to_a_terminal_and_leaves_no_trace_of_it(capsys, monkeypatch):
    monkeypatch.setattr(options, "PATIENCE", 0.01)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with options.busy("planning", quiet=False):
        time.sleep(0.1)
    with options.busy("planning", quiet=True):
        time.sleep(0.1)
    said = capsys.readouterr().err
    assert said.count("planning |") == 1
    assert said.endswith("\r" + " " * len("planning |") + "\r")
