"""Schedules are validated against their plans; what is wrong with one is shown around its place."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers import strategies
from pipesim.base.errors import DeadlockError, ScheduleError
from pipesim.core import legality
from pipesim.core.plan import Plan, Stage
from pipesim.core.schedule import FORWARD, Schedule, parse
from pipesim.schedulers.gpipe import gpipe

PAIR = Plan("m", 2, 2, (Stage(0, 1, ("a",)), Stage(1, 2, ("b",))))
ONE_F_ONE_B = "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1"


@st.composite
def planned(draw, **options):
    plan = draw(strategies.plans(draw(st.integers(1, 4)), ["a", "b", "c", "d"][: draw(st.integers(1, 4))], **options))
    return plan, draw(strategies.schedules(plan))


def test_messages_stand_after_what_makes_them_and_before_what_needs_them():
    rows = legality.with_messages(parse(ONE_F_ONE_B), PAIR)
    assert rows == [
        "0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1 0REDUCE_GRAD".split(),  # noqa: SIM905 - as one reads it
        "1RECV_F0 1F0 1RECV_F1 1B0 1SEND_B0 1F1 1B1 1SEND_B1 1REDUCE_GRAD".split(),  # noqa: SIM905 - as one reads it
    ]
    assert parse("\n".join(map(",".join, rows))) == parse(ONE_F_ONE_B)


def test_what_is_received_next_is_not_waited_for_before_what_is_there_is_sent_on():
    """Where messages are taken in order, all receives before the first send would hold up all that follows."""
    plan = Plan("m", 3, 3, tuple(Stage(n, n + 1, (name,)) for n, name in enumerate("abc")))
    (_, middle, _) = legality.with_messages(gpipe(plan), plan)
    assert middle[:9] == "1RECV_F0 1F0 1SEND_F0 1RECV_F1 1F1 1SEND_F1 1RECV_F2 1F2 1SEND_F2".split()  # noqa: SIM905 - as one reads it


@given(planned())
def test_every_message_is_sent_and_received_once_around_its_actions(drawn):
    plan, schedule = drawn
    if plan.replicas == "split" and max(plan.replication) > 1:
        with pytest.raises(ScheduleError, match="do not split microbatches"):
            legality.with_messages(schedule, plan)
        return
    rows = legality.with_messages(schedule, plan)
    assert [[cell for cell in row if "_" not in cell] for row in rows] == schedule.cells
    sent, received = (sorted(cell for row in rows for cell in row if word in cell) for word in ("SEND", "RECV"))
    assert len(sent) == len(set(sent)) == len(received) == len(set(received))
    for row in rows:
        for at, cell in enumerate(row):
            stage, _, microbatch = cell.partition("SEND_")[0], *cell.partition("_")[1:]
            if "SEND_F" in cell:
                assert f"{stage}F{microbatch[1:]}" in row[:at]
            if "RECV_F" in cell:
                assert f"{cell.partition('RECV')[0]}F{microbatch[1:]}" in row[at:]


@given(planned(replicas=("whole",)))
def test_gradients_are_reduced_once_per_stage_and_rank_after_the_last_of_them(drawn):
    """Without that cell PyTorch leaves the sum over microbatches where the mean was asked for."""
    plan, schedule = drawn
    rows = legality.with_messages(schedule, plan)
    for row, held in zip(rows, plan.chunks, strict=True):
        last = {n: max((i for i, c in enumerate(row) if re.search(rf"\b{n}[BW]\d", c)), default=None) for n in held}
        reduced = {cell: at for at, cell in enumerate(row) if "REDUCE_GRAD" in cell}
        assert set(reduced) == {f"{n}REDUCE_GRAD" for n in held if last[n] is not None}
        assert all(reduced[f"{n}REDUCE_GRAD"] > at for n, at in last.items() if at is not None)
        assert len(reduced) == sum("REDUCE_GRAD" in cell for cell in row)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0F0,(0B0;0F1)OVERLAP_F_B,0B1", "rank 0, cell 2: 0B0 found; a pair must be a forward and then a backward"),
        (
            "0F0,(0F1;0F1)OVERLAP_F_B,0B0,0B1",
            "rank 0, cell 2: 0F1 found; a pair must be a forward and then a backward",
        ),
    ],
)
def test_only_a_forward_and_a_backward_can_be_one(text, message):
    with pytest.raises(ScheduleError, match=message):
        legality.check(parse(f"{text}\n1F0,1B0,1F1,1B1"), PAIR)


def test_a_backward_cannot_be_one_with_a_forward_that_must_come_before_it():
    """0F1 would have to be over before 1F1 begins, which must be over before 0B1."""
    with pytest.raises(DeadlockError, match=r">\(0F1;0B1\)OVERLAP_F_B<   waits for 0F1, which comes later"):
        legality.check(parse("0F0,0B0,(0F1;0B1)OVERLAP_F_B\n1F0,1B0,1F1,1B1"), PAIR)


def test_what_waits_is_shown_with_whole_pairs_around_it():
    """A pair that began three actions after the waiting one was cut in two, which ended in an IndexError."""
    plan = Plan("m", 2, 3, PAIR.stages)
    with pytest.raises(DeadlockError) as caught:
        legality.check(parse("0F0,0F1,0F2,0B0,0B1,0B2\n1B0,1F0,1F1,(1F2;1B1)OVERLAP_F_B,1B2"), plan)
    assert "rank 1: >1B0< 1F0 1F1 (1F2;1B1)OVERLAP_F_B   waits for 1F0" in str(caught.value)


def test_a_pair_without_its_second_half_is_refused():
    """Only arrays can say so; the text form has both halves in one cell."""
    rows = [[(0, 0, 0, 0), (0, 1, 0, 0), (0, 1, 1, 0), (0, 0, 1, 1)], [(1, 0, 0, 0)]]
    with pytest.raises(ScheduleError, match="rank 0, cell 4: 0F1 found; a pair must be a forward and then a backward"):
        legality.check(Schedule.of_arrays([np.array(row) for row in rows]), PAIR)


def test_what_is_missing_is_shown_with_whom_it_keeps_waiting():
    with pytest.raises(ScheduleError) as caught:
        legality.check(parse("0F0,0F1,0B0,0B1\n1B0,1F1,1B1"), PAIR)
    assert str(caught.value).split("\n") == [
        "rank 1 (b), stage 1, microbatch 0: 1 x 1B0 found; one 1F0 and one 1B0 (or one 1I0 and one 1W0) were expected",
        "so these wait:",
        "  rank 0: 0F0 0F1 >0B0< 0B1   waits for 1B0 of b",
        "  rank 1: >1B0< 1F1 1B1   waits for 1F0, which the rank never does",
    ]


def test_a_microbatch_that_is_none_is_shown_with_whom_it_keeps_waiting():
    """PyTorch 2.13's own 1F1B numbers the forwards of the last rank from 1: one too many, and one missing."""
    with pytest.raises(ScheduleError) as caught:
        legality.check(parse("0F0,0F1,0B0,0B1\n1F1,1B0,1F2,1B1"), PAIR)
    assert str(caught.value).split("\n") == [
        "rank 1, cell 3: 1F2 found; this microbatch does not pass through b (microbatches: 2)",
        "  rank 1: 1F1 1B0 >1F2< 1B1",
        "so these wait:",
        "  rank 0: 0F0 0F1 >0B0< 0B1   waits for 1B0 of b",
        "  rank 1: 1F1 >1B0< 1F2 1B1   waits for 1F0, which the rank never does",
    ]


def test_an_extra_microbatch_that_no_rank_waits_for_is_shown_alone():
    with pytest.raises(ScheduleError, match=r"\n  rank 0: 0F1 0B0 0B1 >0F2<$"):
        legality.check(parse("0F0,0F1,0B0,0B1,0F2\n1F0,1B0,1F1,1B1"), PAIR)


def test_a_wrong_rank_is_shown_in_its_row():
    with pytest.raises(ScheduleError, match=r"\n  rank 0: 0F1 0B0 0B1 >1F0<$"):
        legality.check(parse("0F0,0F1,0B0,0B1,1F0\n1F0,1B0,1F1,1B1"), PAIR)


@given(planned())
def test_every_order_that_can_be_kept_is_accepted(drawn):
    """Replicas that split or take whole microbatches, several stages per device, backwards in one or in two parts."""
    plan, schedule = drawn
    legality.check(schedule, plan)


@given(planned(), st.data())
def test_a_schedule_without_one_of_its_actions_or_with_one_twice_is_refused(drawn, data):
    plan, schedule = drawn
    rows = schedule.rows
    rank = data.draw(st.sampled_from([rank for rank, row in enumerate(rows) if row]))
    at = data.draw(st.integers(0, len(rows[rank]) - 1))
    cell = rows[rank][at]
    for spoilt in (rows[rank][:at] + rows[rank][at + 1 :], [*rows[rank], cell]):
        with pytest.raises(
            ScheduleError, match=rf"rank {rank} \({plan.devices[rank]}\), stage {cell.stage}|microbatch"
        ):
            legality.check(Schedule.of([*rows[:rank], spoilt, *rows[rank + 1 :]]), plan)


@given(planned(), st.data())
def test_a_backward_before_its_own_forward_is_a_deadlock(drawn, data):
    plan, schedule = drawn
    rows = schedule.rows
    rank = data.draw(st.sampled_from([rank for rank, row in enumerate(rows) if row]))
    row = rows[rank]
    forward = row[data.draw(st.sampled_from([i for i, cell in enumerate(row) if cell.kind == FORWARD]))]
    backward = next(cell for cell in row if cell[::2] == forward[::2] and cell.kind != FORWARD)
    swap = {forward: backward, backward: forward}
    rows[rank] = [swap.get(cell, cell) for cell in row]
    with pytest.raises(DeadlockError, match=f">{backward}<") as caught:
        legality.check(Schedule.of(rows), plan)
    assert f"waits for {forward}, which comes later on the same rank" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0F0,0F1,0B0,0B1", "1 ranks found; 2 were expected, one per device of the plan"),
        (
            "0F0,0F1,0B0\n1F0,1B0,1F1,1B1",
            r"rank 0 \(a\), stage 0, microbatch 1: 1 x 0F1 found; one 0F1 and one 0B1 \(or one 0I1 and one 0W1\)",
        ),
        ("0F0,0F1,0B0,0B1,0B1\n1F0,1B0,1F1,1B1", "microbatch 1: 1 x 0F1 and 2 x 0B1 found"),
        ("0F0,0F1,0B0,0B1\n1F0,1B0", r"rank 1 \(b\), stage 1, microbatch 1: nothing found; one 1F1 and one 1B1"),
        ("0F0,0F1,0B0,0I1\n1F0,1B0,1F1,1B1", "microbatch 1: 1 x 0F1 and 1 x 0I1 found"),
        ("0F0,0F1,0B0,0B1,0I1,0W1\n1F0,1B0,1F1,1B1", "1 x 0F1 and 1 x 0B1 and 1 x 0I1 and 1 x 0W1 found"),
        ("0F0,0F1,0B0,0B1,1F0\n1F0,1B0,1F1,1B1", "rank 0, cell 5: 1F0 found; a does not have this stage"),
        ("0F0,0F1,0B0,0B1,7F0\n1F0,1B0,1F1,1B1", "rank 0, cell 5: 7F0 found; a does not have this stage"),
        ("0F0,0F1,0F2,0B0,0B1\n1F0,1B0,1F1,1B1", "rank 0, cell 3: 0F2 found; this microbatch does not pass through a"),
    ],
)
def test_what_is_missing_doubled_or_foreign_is_named(text, message):
    with pytest.raises(ScheduleError, match=message):
        legality.check(parse(text), PAIR)


def test_whole_replicas_take_their_own_microbatches_only():
    plan = Plan("m", 2, 3, (Stage(0, 1, ("a", "b")), Stage(1, 2, ("c",))), "whole")
    last = "1F0,1B0,1F1,1B1,1F2,1B2"
    legality.check(parse(f"0F0,0F2,0B0,0B2\n0F1,0B1\n{last}"), plan)
    with pytest.raises(ScheduleError, match=r"rank 0, cell 1: 0F1 found; this microbatch does not pass through a"):
        legality.check(parse(f"0F1,0F2,0B1,0B2\n0F0,0B0\n{last}"), plan)


def test_a_rank_may_have_nothing_to_do():
    """With more whole replicas than microbatches some get none."""
    plan = Plan("m", 1, 1, (Stage(0, 1, ("a", "b")),), "whole")
    legality.check(parse("0F0,0B0\n,"), plan)


def test_both_parts_of_a_backward_stand_for_a_whole_one():
    legality.check(parse("0F0,0F1,0I0,0I1,0W0,0W1\n1F0,1I0,1F1,1I1,1W1,1W0"), PAIR)


def test_the_other_stages_wait_for_the_input_gradient_only():
    """1W0 may come after everything else, and 0B0 still goes on."""
    legality.check(parse("0F0,0B0,0F1,0B1\n1F0,1I0,1F1,1I1,1W0,1W1"), PAIR)


def test_ranks_that_wait_for_each_other_are_shown_with_what_they_wait_for():
    """Stage 0 wants the backward of microbatch 0 before it sends microbatch 1; stage 1 does both forwards first."""
    with pytest.raises(DeadlockError) as caught:
        legality.check(parse("0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1"), PAIR)
    assert str(caught.value) == (
        "the order is impossible: every rank below waits for another (>waiting cell<)\n"
        "  rank 0: 0F0 >0B0< 0F1 0B1   waits for 1B0 of b\n"
        "  rank 1: 1F0 >1F1< 1B0 1B1   waits for 0F1 of a"
    )


@pytest.mark.parametrize(
    ("rows", "awaited"),
    [
        ("0F0,0I0,0F1,0I1,0W0,0W1\n1F0,1F1,1I0,1I1,1W0,1W1", "1I0 of b"),
        ("0F0,0B0,0F1,0B1\n1F0,1F1,1I0,1I1,1W0,1W1", "1I0 of b"),
        ("0F0,0I0,0W0,0F1,0B1\n1F0,1F1,1B0,1I1,1W1", "1B0 of b"),
    ],
)
def test_what_a_rank_waits_for_is_named_as_the_other_rank_has_it(rows, awaited):
    """The table showed 1B0 although that backward is in two parts and the cell is 1I0."""
    with pytest.raises(DeadlockError, match=f"waits for {awaited}\n"):
        legality.check(parse(rows), PAIR)


def test_a_long_row_is_shown_around_the_cell_that_waits():
    plan = Plan("m", 2, 9, PAIR.stages)
    rows = gpipe(plan).rows
    rows[1] = [*rows[1][:-2], rows[1][-1], rows[1][-2]]
    rows[0] = [*rows[0][:8], rows[0][9], rows[0][8], *rows[0][10:]]
    with pytest.raises(DeadlockError) as caught:
        legality.check(Schedule.of(rows), plan)
    shown = str(caught.value).split("\n")[1]
    assert "0F5 0F6 0F7 >0B" in shown
    assert "0F4" not in shown


def test_a_plan_for_very_many_microbatches_asks_for_no_memory():
    """What is missing is found before a table of all that there should be is made."""
    huge = Plan("m", 2, 10**15, PAIR.stages)
    with pytest.raises(ScheduleError, match="microbatch 2: nothing found"):
        legality.check(parse(ONE_F_ONE_B), huge)
