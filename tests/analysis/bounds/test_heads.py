"""Less behind a plan is never worse: what the merging of partial plans rests on (L2 of docs/certificate.md)."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pipesim.analysis.bounds.heads import (
    Heads,
    can_cross,
    can_stay,
    crossed,
    heads_at,
    keep,
    stayed,
    works_too_long,
)
from pipesim.analysis.bounds.tails import Tail
from pipesim.analysis.bounds.transition import ChannelStep, StageStep

seconds = st.integers(0, 40).map(float)
heads = st.tuples(*[seconds] * len(Heads._fields)).map(Heads._make)
tails = st.tuples(seconds, seconds, seconds).map(Tail._make)
channels = st.tuples(*[seconds] * len(ChannelStep._fields)).map(ChannelStep._make)
stages = st.tuples(*[seconds] * len(StageStep._fields)).map(StageStep._make)
larger = st.tuples(*[st.sampled_from([0.0, 0.0, 1.0, 7.0])] * len(Heads._fields))


def more(least, by):
    return Heads(*(x + y for x, y in zip(least, by, strict=True)))


@settings(max_examples=120)
@given(heads, larger, channels, tails, st.data())
def test_over_a_channel_less_stays_less_and_is_allowed_where_more_is(least, by, step, tail, data):
    before, k = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 4))
    most_before, most = data.draw(st.integers(1, before)), data.draw(st.integers(1, k))
    one, other = (crossed(start, step, before, k, most_before, most) for start in (least, more(least, by)))
    assert all(x <= y for x, y in zip(one, other, strict=True))
    for target in (20.0, 100.0, 300.0):
        assert can_cross(least, step, tail, target) >= can_cross(more(least, by), step, tail, target)


@settings(max_examples=120)
@given(heads, larger, stages, tails)
def test_with_a_stage_less_stays_less_and_is_allowed_where_more_is(least, by, step, tail):
    one, other = stayed(least, step), stayed(more(least, by), step)
    assert all(x <= y for x, y in zip(one, other, strict=True))
    for target in (20.0, 100.0, 300.0):
        assert can_stay(least, step, tail, target) >= can_stay(more(least, by), step, tail, target)
        assert works_too_long(least, step, target) <= works_too_long(more(least, by), step, target)


def pipeline(stage, channel, count):
    """What `count` equal stages with equal channels between them have behind them."""
    found = Heads(*[0.0] * len(Heads._fields))
    for n in range(count):
        if n:
            found = crossed(found, channel, 1, 1, 1, 1)
        found = stayed(found, stage)
    return found


def test_a_pipeline_of_equal_stages_has_the_closed_form_behind_it():
    """Three stages of 2 + 3 seconds, channels of 1 there and back, 5 microbatches: by hand."""
    stage = StageStep(25.0, 2.0, 3.0, 10.0, 15.0, 5.0, 17.0, 0.0, 0.0)
    channel = ChannelStep(1.0, 1.0, 1.0, 1.0, 2.0, 0.0, 5.0)
    found = pipeline(stage, channel, 3)
    assert found.forward_head == 3 * 2 + 2 * 1
    assert found.head == 3 * 5 + 2 * 2
    assert found.last_forward == 10 + 2 * (1 + 2), "the first stage's five forwards, then the way of the last"
    assert found.before_tail == 17 + 2 * (5 + 2), "a stage's forwards and one backward, and the way to it and back"
    assert found.spread == 2
    assert found.own_head == 0


def test_an_all_reduce_counts_where_it_ends_later_than_the_way_back():
    """40 seconds of all-reduce of the first stage, after one microbatch of 2 + 3."""
    stage = StageStep(5.0, 2.0, 3.0, 2.0, 3.0, 5.0, 5.0, 1.0, 40.0)
    nothing = Heads(*[0.0] * len(Heads._fields))
    assert stayed(nothing, stage).head == 45
    assert stayed(nothing, stage).forward_head == 2
    assert works_too_long(nothing, stage, 44.9)
    assert not works_too_long(nothing, stage, 45.0)


def test_a_row_keeps_what_it_is_given():
    table = np.zeros((2, len(Heads._fields) + 3))
    given_heads = Heads(*map(float, range(len(Heads._fields))))
    keep(table[1], given_heads)
    assert heads_at(table, 1) == given_heads
    assert table[1, len(Heads._fields) :].tolist() == [0, 0, 0]
