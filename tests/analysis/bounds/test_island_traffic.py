"""What leaves islands: a channel and an all-reduce by hand, and less is never worse."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pipesim.analysis.bounds.heads import Heads
from pipesim.analysis.bounds.island_traffic import SENT, Columns, Crossings, Rings, islands_crossed, islands_reduced
from pipesim.analysis.bounds.tails import Tail
from pipesim.analysis.bounds.transition import AHEAD, ANY, BACK, HERE, WAYS, ChannelStep, StageStep

LATE = np.array([0.0, 0.5])
PARTS, ISLANDS = len(LATE), 2
COLUMNS = Columns(PARTS, SENT + ISLANDS * PARTS, SENT + ISLANDS * (PARTS + WAYS))
WIDTH = COLUMNS.idle + ISLANDS * WAYS
HEADS = Heads(*[0.0] * SENT)._replace(head=10.0, forward_head=4.0, backward_head=8.0)
STEP = ChannelStep(forward=1.0, backward=1.0, forward_min=1.0, backward_min=1.0, round_trip=2.0, delay=0.0, load=1.0)
STAGE = StageStep(6.0, 1.0, 1.0, 3.0, 3.0, 2.0, 4.0, weights=5.0, reduce=2.0)
TAIL = Tail(5.0, 3.0, 100.0)
SAME, TURNED = np.array([[0, 1]]), np.array([[1, 0]])


def quiet():
    """A row with nothing that has left any island."""
    row = np.zeros((1, WIDTH))
    row[0, COLUMNS.begun : COLUMNS.idle] = np.inf
    return row


def over_channel(row, to=SAME, *, target=100.0, heads=HEADS):
    """Three seconds of forwards and two of backwards leave the first island."""
    label = np.zeros(WIDTH)
    crossings = Crossings(np.array([[[3.0, 2.0], [0.0, 0.0]]]), to, 1.0, target, COLUMNS)
    fits = islands_crossed(row, 0, label, heads, STEP, TAIL, crossings, 0)
    return fits, label


def with_ring(row, load=(1.0, 0.0), *, target=100.0):
    """A second per byte of five leaves the first island."""
    label = np.zeros(WIDTH)
    rings = Rings(np.array([load]), SAME, LATE, np.zeros(PARTS), target, COLUMNS)
    fits = islands_reduced(row, 0, label, HEADS, STAGE, TAIL, rings, 0)
    return fits, label


def begun(label, g, way):
    return label[COLUMNS.begun + g * WAYS + way]


def idle(label, g, way):
    return label[COLUMNS.idle + g * WAYS + way]


def test_the_first_messages_leave_when_what_is_before_them_has_passed():
    fits, label = over_channel(quiet())
    assert fits
    assert [begun(label, 0, way) for way in (AHEAD, BACK, HERE, ANY)] == [10 + 3, 8 + 2, 4 + 3, 4 + 5]
    assert all(idle(label, 0, way) == np.inf for way in range(WAYS))
    assert all(begun(label, 1, way) == np.inf for way in range(WAYS))
    assert all(idle(label, 1, way) == 0 for way in range(WAYS))


def test_later_messages_leave_after_the_earlier_ones():
    _, label = over_channel(quiet())
    _, again = over_channel(label[None], heads=HEADS._replace(head=50.0, backward_head=50.0, forward_head=50.0))
    assert [begun(again, 0, way) for way in (AHEAD, BACK, HERE, ANY)] == [16, 12, 10, 14]


def test_what_belongs_to_an_island_moves_with_its_number():
    plain, turned = (over_channel(quiet(), to)[1] for to in (SAME, TURNED))
    for way in range(WAYS):
        assert begun(turned, 1, way) == begun(plain, 0, way)
        assert idle(turned, 0, way) == idle(plain, 1, way)


def test_an_island_that_is_busy_too_long_is_refused():
    """Forwards: 10 before them, 3 of their own, 1 + 3 that follow; no less is enough."""
    assert over_channel(quiet(), target=17.0)[0]
    assert not over_channel(quiet(), target=16.9)[0]


def test_an_all_reduce_counts_where_it_cannot_start_before_a_part_of_the_time():
    """It starts after 4 + 4 + 5 seconds at the earliest: after half of 26, not after half of 27."""
    early, late = (with_ring(quiet(), target=target)[1] for target in (27.0, 26.0))
    assert early[SENT : SENT + 2].tolist() == [5, 0]
    assert late[SENT : SENT + 2].tolist() == [5, 10], "5 seconds in the half that is left"
    assert early[SENT + 2 : SENT + 4].tolist() == [0, 0]
    assert begun(early, 0, ANY) == 4 + 5
    assert begun(early, 0, AHEAD) == np.inf


def test_forwards_that_led_to_a_stage_are_followed_by_it_and_its_all_reduce():
    """Forwards ended to leave at 7; then 2 of the stage, 3 to the end and back, and 2 of the all-reduce."""
    _, row = over_channel(quiet())
    assert with_ring(row[None], target=40.0)[0]
    busy = row.copy()
    busy[[COLUMNS.begun + way for way in (AHEAD, BACK, ANY)]] = 0.0
    assert with_ring(busy[None], load=(0.0, 0.0), target=14.0)[0]
    assert not with_ring(busy[None], load=(0.0, 0.0), target=13.9)[0]


@settings(max_examples=80)
@given(st.lists(st.integers(0, 30).map(float), min_size=WIDTH - SENT, max_size=WIDTH - SENT), st.data())
def test_less_that_has_left_islands_stays_less_and_is_allowed_where_more_is(values, data):
    row = np.zeros((1, WIDTH))
    row[0, SENT:] = values
    more = row.copy()
    more[0, SENT:] += data.draw(st.lists(st.sampled_from([0.0, 4.0]), min_size=WIDTH - SENT, max_size=WIDTH - SENT))
    for extend in (over_channel, with_ring):
        for target in (15.0, 30.0, 60.0):
            (fits, label), (fits_more, label_more) = (extend(start, target=target) for start in (row, more))
            assert fits >= fits_more
            if fits_more:
                assert (label <= label_more).all()
