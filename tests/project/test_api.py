"""The public API: every name is there, every function shows an example, and what an example shows is what happens."""

import doctest
import inspect

import pytest

import pipesim as ps

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
NAMES = [name for name in ps.__all__ if name != "__version__"]
# What examples of sweeps find in the folder.
SWEEP = """
format = "pipesim.sweep"
version = 1
[simulate]
trace = "bert-large"
cluster = 'flat(2, bandwidth="1GB/s")'
[grid]
microbatches = [2, 4]
"""


def examples_of(name):
    """The examples in the docstring of a public name; of types also those of their methods."""
    found = doctest.DocTestFinder(exclude_empty=True).find(getattr(ps, name), f"ps.{name}", globs={"ps": ps})
    return [test for test in found if test.examples]


@pytest.mark.parametrize("name", [name for name in NAMES if inspect.isroutine(getattr(ps, name))])
def test_a_function_has_an_example(name):
    assert examples_of(name), f"the docstring of {getattr(ps, name).__module__}.{name} has no example"


@pytest.mark.parametrize("name", [name for name in NAMES if not inspect.ismodule(getattr(ps, name))])
def test_what_an_example_shows_is_what_happens(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "experiment.toml").write_text(SWEEP, encoding="utf-8")
    if name == "sweep_rows":
        ps.run_sweep(ps.load_sweep("experiment.toml"), workers=1)
    runner = doctest.DocTestRunner(optionflags=FLAGS, verbose=False)
    printed = []
    for test in examples_of(name):
        runner.run(test, out=printed.append)
    assert not runner.failures, "".join(printed)


def test_every_public_name_is_documented():
    assert [name for name in NAMES if not inspect.getdoc(getattr(ps, name))] == []
