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
from pipesim.analysis.bounds.tails import backwards, tail_at, tails_of
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
    found, layers = tails_of(sums, moves, LONG, backwards), len(sums.cut) - 1
    from_place, from_state = onwards(sums, moves)
    for l in range(layers):  # noqa: E741
        for p in range(len(moves.size)):
            tail = tail_at(found.place, l, p)
            if tail.room > -np.inf:
                assert (tail.seconds, tail.least) == pytest.approx(from_place(l, p))
        for s in range(len(moves.first)) if l else ():
            tail = tail_at(found.state, l, s)
            assert tail.least <= tail.seconds
            if tail.room > -np.inf:
                assert (tail.seconds, tail.least) == pytest.approx(from_state(l, s))
    assert (found.state[layers] == [0, 0, LONG]).all()
    assert (found.place[0, moves.can_be_first, 2] > -np.inf).any(), "some plan has any room"


@settings(max_examples=40)
@given(jobs(calm=True), st.sampled_from(["split", "whole"]), st.floats(0.2, 3))
def test_a_lesser_target_leaves_less_room_and_no_shorter_way(job, replicas, share):
    count, label = job.plan.microbatches, np.arange(len(job.cluster.devices)) % 2
    sums = layer_sums(job.costs, job.cluster, count, replicas)
    moves = by_island(island_model(Network(job.cluster), label), replicas, count)
    target = share * float(sums.area[0]) / len(job.cluster.devices) + 1e-9
    less, more = (tails_of(sums, moves, limit, backwards) for limit in (target, 1.5 * target))
    for tighter, wider in zip(less, more, strict=True):
        assert (tighter[..., :2] >= wider[..., :2]).all()
        assert (tighter[..., 2] <= wider[..., 2]).all()
