"""What several files of tests ask for by name."""

import gc
import itertools
import os

import pytest
from hypothesis import settings

from pipesim.cli import main

# Every timeline that a test makes, in this process or in one that it starts, is checked from scratch.
os.environ["PIPESIM_VERIFY"] = "1"

# A few examples of each property; `make fuzz` draws many more (tests/fuzz/properties.py).
settings.register_profile("few", max_examples=40)
settings.load_profile("few")


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


def pytest_collection_finish():
    """All cases stay to the end: the garbage collector need not look through them each time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20)


def pytest_terminal_summary(terminalreporter):
    """How many test functions ran, beside how many cases of them: one function with many parameters is one test."""
    reports = itertools.chain(
        *(terminalreporter.stats.get(kind, []) for kind in ("passed", "failed", "skipped", "error"))
    )
    cases = {report.nodeid for report in reports if hasattr(report, "nodeid")}
    functions = {case.partition("[")[0] for case in cases}
    if cases:
        terminalreporter.write_line(f"{len(functions):,} test functions, {len(cases):,} cases")
