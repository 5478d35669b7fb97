"""What is still to come, against every way to go on."""

import functools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.strategies import jobs
from pipesim.analysis.bounds.forms import by_form
from pipesim.analysis.bounds.islands import Network, island_model
from pipesim.analysis.bounds.layer_sums import layer_sums
from pipesim.analysis.bounds.moves import by_island
from pipesim.analysis.bounds.tails import Cells, all_cells, backwards, tail_at, tails_of
from pipesim.analysis.bounds.transition import channel_step, place_step, stage_step

LONG = 1e9  # seconds: no plan takes as long, so that every way to go on is allowed


def onwards(sums, moves):
    """The least way from a place and a state to the end and back, for any and for one late replica, recursively."""
    layers = len(sums.cut) - 1

    @functools.cache
    def from_place(l, p):  # noqa: E741 - the letter of the formulas
        if moves.left[p] < 0 or sums.rest.shape[0] - 1 < moves.left[p] + moves.size[p]:
            return np.inf, np.inf
        found = [(np.inf, np.inf)]
        for end in range(l + 1, layers + 1):
            both = stage_step(sums.seconds, sums.parameters, place_step(sums, moves, p), l, end).both
            found.append(tuple(both + after for after in from_state(end, int(moves.next_state[p]))))
        return tuple(min(column) for column in zip(*found, strict=True))

    @functools.cache
    def from_state(l, s):  # noqa: E741
        if l == layers:
            return 0.0, 0.0
        found = [(np.inf, np.inf)]
        for m in range(moves.first[s], moves.stop[s]):
            step = channel_step(moves.channel, m, sums.cut[l])
            after, _ = from_place(l, int(moves.shift[s] + moves.place[m]))
            back = 2 * step.delay + step.backward + after
            found.append((step.forward + back, step.forward_min + back))
        return tuple(min(column) for column in zip(*found, strict=True))

    return from_place, from_state


@settings(max_examples=40)
@given(jobs(calm=True), st.sampled_from(["split", "whole"]), st.sampled_from([by_island, by_form]))
def test_without_a_limit_tails_are_the_least_over_all_ways_to_go_on(job, replicas, build):
    count, label = job.plan.microbatches, np.arange(len(job.cluster.devices)) % 2
    sums = layer_sums(job.costs, job.cluster, count, replicas)
    moves = build(island_model(Network(job.cluster), label), replicas, count)
    (found, cells), layers = tails_of(sums, moves, LONG, backwards), len(sums.cut) - 1
    from_place, from_state = onwards(sums, moves)
    for l in range(layers):  # noqa: E741
        for p in range(len(moves.size)):
            if cells.place[l, p]:
                tail = tail_at(found.place, l, p)
                assert (tail.seconds, tail.least) == pytest.approx(from_place(l, p))
        for s in range(len(moves.first)) if l else ():
            if cells.state[s, l]:
                tail = tail_at(found.state, s, l)
                assert tail.least <= tail.seconds
                assert (tail.seconds, tail.least) == pytest.approx(from_state(l, s))
    assert (found.state[:, layers] == [0, 0, LONG]).all()
    assert cells.place[0, moves.can_be_first].any(), "some plan has any room"


@settings(max_examples=40)
@given(jobs(calm=True), st.sampled_from(["split", "whole"]), st.floats(0.2, 3))
def test_a_lesser_target_leaves_less_room_and_no_shorter_way(job, replicas, share):
    count, label = job.plan.microbatches, np.arange(len(job.cluster.devices)) % 2
    sums = layer_sums(job.costs, job.cluster, count, replicas)
    moves = by_island(island_model(Network(job.cluster), label), replicas, count)
    target = share * float(sums.area[0]) / len(job.cluster.devices) + 1e-9
    (less, few), (more, many) = (tails_of(sums, moves, limit, backwards) for limit in (target, 1.5 * target))
    for tighter, wider, left, before in zip(less, more, few, many, strict=True):
        assert not (left & ~before).any()
        assert (tighter[left][:, :2] >= wider[left][:, :2]).all()
        assert (tighter[left][:, 2] <= wider[left][:, 2]).all()


@settings(max_examples=40)
@given(jobs(calm=True), st.sampled_from(["split", "whole"]), st.floats(0.2, 3), st.randoms())
def test_only_the_cells_that_are_given_are_gone_through(job, replicas, share, random):
    """Without some of them there are no more ways to go on, and those that are left take no less."""
    count, label = job.plan.microbatches, np.arange(len(job.cluster.devices)) % 2
    sums = layer_sums(job.costs, job.cluster, count, replicas)
    moves = by_island(island_model(Network(job.cluster), label), replicas, count)
    target = share * float(sums.area[0]) / len(job.cluster.devices) + 1e-9
    everything = all_cells(sums, moves)
    rng = np.random.default_rng(random.randrange(1000))
    some = Cells(*(cells & (rng.random(cells.shape) < 0.8) for cells in everything))
    (all_tails, all_left), (tails, left) = (tails_of(sums, moves, target, backwards, one) for one in (everything, some))
    for cells, given_cells, before, least, most in zip(left, some, all_left, all_tails, tails, strict=True):
        assert not (cells & ~(given_cells & before)).any()
        assert (most[cells][:, :2] >= least[cells][:, :2]).all()
