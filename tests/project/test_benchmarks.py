"""What benchmarks compare comes to the same."""

import importlib
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers import strategies
from helpers.networks import LATE_BUT_FIRST, late_but_first
from helpers.places import ROOT
from pipesim.engines import compiled, event

BENCHMARKS = ROOT / "benchmarks"


@pytest.fixture(scope="module")
def bench_c():
    """The module as benchmarks/run.py imports it."""
    sys.path.insert(0, str(BENCHMARKS))
    yield importlib.import_module("bench_c")
    sys.path.remove(str(BENCHMARKS))


@pytest.fixture(scope="module")
def play(bench_c):
    if bench_c.compiler() is None:
        pytest.skip("the loop in C needs a C compiler (cc), and there is none here")
    with bench_c.loop() as played:
        yield played


queued = [made(sharings=("fifo", "channel"), **more).map(lambda job: job.program)
          for made, more in ((strategies.jobs, {"calm": True}), (strategies.even_jobs, {}))]  # fmt: skip


@settings(max_examples=40)
@given(program=st.one_of(*queued))
def test_the_loop_in_c_gives_the_times_of_the_reference(play, program):
    start, end = play(program)
    reference = event.run(program)
    assert np.array_equal(start, reference.start)
    assert np.array_equal(end, reference.end)


def test_in_the_loop_in_c_what_is_first_in_line_goes_at_once_even_if_it_came_last(play):
    start, _ = play(late_but_first())
    assert start[4:].tolist() == LATE_BUT_FIRST


@pytest.mark.parametrize("shape", [(16, 64), (128, 256)])
def test_both_engines_and_the_loop_in_c_agree_on_what_is_measured(bench_c, play, shape):
    program = bench_c.bench_event.program(*shape, "fifo")
    reference = event.run(program)
    for start, end in (columns(compiled.run(program)), play(program)):
        assert not np.count_nonzero(start - reference.start)
        assert not np.count_nonzero(end - reference.end)


def columns(timeline):
    return timeline.start, timeline.end


@settings(max_examples=20)
@given(program=strategies.jobs(sharings=("none", "fair"), calm=True).map(lambda job: job.program))
def test_the_loop_in_c_refuses_what_it_does_not_play(play, program):
    with pytest.raises(ValueError, match="plays sharing fifo or channel"):
        play(program)


def test_without_a_compiler_the_comparison_says_so_and_goes_on(bench_c, monkeypatch):
    monkeypatch.setenv("PATH", "")
    ((_, measured, _),) = bench_c.rows()
    assert "there is no C compiler" in measured


def test_times_of_a_loop_that_comes_to_something_else_are_not_compared(bench_c):
    program = bench_c.bench_event.program(2, 2, "fifo")
    reference = event.run(program)
    with pytest.raises(ValueError, match=r"loop\.c ends at"):
        bench_c._check(program, reference.start, reference.end + 1)


def test_tables_that_were_not_measured_again_are_kept(bench_c):  # noqa: ARG001 - makes the folder importable
    run = importlib.import_module("run")
    text = (BENCHMARKS / "README.md").read_text(encoding="utf-8")
    new = run.table("The planners", [("one planner", "1 s", "")])
    found = run.written(text, {"The planners": new}, "Measured here.\n")
    titles = [title for title in run.SECTIONS if f"### {title}\n" in text]
    assert [title for title in run.SECTIONS if f"### {title}\n" in found] == titles
    assert new in found
    for title in set(titles) - {"The planners"}:
        assert (
            found.partition(f"### {title}\n")[2].partition("###")[0].strip().partition("<!--")[0]
            == (text.partition(f"### {title}\n")[2].partition("###")[0].strip().partition("<!--")[0])
        )
    assert run.written(found, {}, "Measured here.\n") == found
