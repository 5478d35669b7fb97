"""What benchmarks compare comes to the same."""

import importlib
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers import strategies
from helpers.networks import LATE_BUT_FIRST, late_but_first, network
from helpers.places import ROOT
from pipesim.core.program import Bucket, Folded
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
        pytest.skip("the loops in C need a C compiler (cc), and there is none here")
    with bench_c.loop() as made:
        yield lambda program: made(program)()


played = [made(sharings=("fifo", "channel", "fair"), **more).map(lambda job: job.program)
          for made, more in ((strategies.jobs, {"calm": True}), (strategies.even_jobs, {}))]  # fmt: skip


@settings(max_examples=80)
@given(program=st.one_of(*played))
def test_the_loops_in_c_give_the_times_of_the_reference(play, program):
    start, end = play(program)
    reference = event.run(program)
    assert np.array_equal(start, reference.start)
    assert np.array_equal(end, reference.end)


def test_in_the_loop_in_c_what_is_first_in_line_goes_at_once_even_if_it_came_last(play):
    start, _ = play(late_but_first())
    assert start[4:].tolist() == LATE_BUT_FIRST


@st.composite
def joined_flows(draw):
    """Flows on a few links, some with limits, in bytes per ns; many begin and end at one time."""
    capacity = draw(st.lists(st.sampled_from([0.5, 1.0, 3.0, 7.3]), min_size=1, max_size=5))
    link = st.integers(0, len(capacity) - 1)
    route = st.lists(link, unique=True, min_size=1, max_size=4)
    limit = st.sampled_from([np.inf, 0.1, 0.5, 1.0])
    drawn = st.tuples(st.integers(0, 40), st.integers(0, 500), route, st.integers(0, 3), limit)
    flows = draw(st.lists(drawn, min_size=1, max_size=40))
    return network(capacity, [flow[:4] for flow in flows], "fair", [flow[4] for flow in flows])


@settings(max_examples=100)
@given(program=joined_flows())
def test_the_loop_in_c_shares_links_as_the_reference_does(play, program):
    start, end = play(program)
    reference = event.run(program)
    assert np.array_equal(start, reference.start)
    assert np.array_equal(end, reference.end)


@pytest.mark.parametrize(("shape", "sharing"), [((16, 64), "fifo"), ((128, 256), "fifo"), ((16, 64), "fair")])
def test_both_engines_and_the_loop_in_c_agree_on_what_is_measured(bench_c, play, shape, sharing):
    program = bench_c.bench_event.program(*shape, sharing)
    reference = event.run(program)
    for start, end in (columns(compiled.run(program)), play(program)):
        assert not np.count_nonzero(start - reference.start)
        assert not np.count_nonzero(end - reference.end)


def columns(timeline):
    return timeline.start, timeline.end


@settings(max_examples=20)
@given(program=strategies.jobs(sharings=("none",), calm=True).map(lambda job: job.program))
def test_the_loops_in_c_refuse_what_they_do_not_play(play, program):
    with pytest.raises(ValueError, match="play sharing fifo, channel, fair"):
        play(program)


def test_the_loops_in_c_refuse_transfers_that_stand_for_several(bench_c, play):
    program = bench_c.bench_event.program(2, 2, "fair")
    none, alike = np.zeros(0, np.int64), np.full(len(program.route.values), 2)
    with pytest.raises(ValueError, match="without folded transfers"):
        play(replace(program, folded=Folded(none, alike, none, none)))


def test_the_loops_in_c_refuse_links_with_bursts(bench_c, play):
    program = bench_c.bench_event.program(2, 2, "fair")
    with pytest.raises(ValueError, match="at steady speeds"):
        play(replace(program, buckets={0: Bucket(10.0, program.capacity[0] / 2)}))


def test_without_a_compiler_the_comparison_says_so_and_goes_on(bench_c, monkeypatch):
    monkeypatch.setenv("PATH", "")
    ((_, measured, _),) = bench_c.rows()
    assert "there is no C compiler" in measured


def test_without_simgrid_the_comparison_says_so_and_goes_on(bench_c, monkeypatch):  # noqa: ARG001 - as below
    bench_simgrid = importlib.import_module("bench_simgrid")
    monkeypatch.setattr(bench_simgrid, "PYTHON", "no-such-interpreter")
    ((_, measured, _),) = bench_simgrid.rows()
    assert "no-such-interpreter has no module simgrid" in measured


def test_times_of_a_loop_that_comes_to_something_else_are_not_compared(bench_c):
    program = bench_c.bench_event.program(2, 2, "fifo")
    reference = event.run(program)
    with pytest.raises(ValueError, match="the loop in C ends at"):
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
