from dataclasses import replace

import numpy as np
import pytest

from helpers import strategies
from pipesim.base.errors import InputError
from pipesim.core.recording import Recording, dependencies, on_one_clock


def recorded(*rows, ranks=(0, 1), offsets=(0, 0)):
    """Rows of (rank, stage, kind, microbatch, start, end), kinds 0 forward and 1 backward, on clocks that are off."""
    rank, stage, kind, microbatch, start, end = np.array(rows, np.int64).T
    stages = int(stage.max()) + 1
    off = np.array(offsets, np.int64)[rank]
    none = np.zeros(len(ranks), np.int64)
    return Recording(
        source="made up", ranks=ranks, rank=rank, stage=stage, kind=kind, microbatch=microbatch, start=start + off,
        end=end + off, cut_bytes=np.full(stages - 1, 8.0), step=none, trace=strategies.even_trace(stages),
        stops=tuple(range(1, stages + 1)), shift=none, doubt=none,
    )  # fmt: skip


ROWS = [(0, 0, 0, 0, 0, 10), (1, 1, 0, 0, 12, 22), (1, 1, 1, 0, 22, 42), (0, 0, 1, 0, 44, 64)]


def test_actions_are_written_as_in_schedules():
    found = recorded(*ROWS)
    assert [str(found.action(row)) for row in range(4)] == ["0F0", "1F0", "1B0", "0B0"]
    assert (found.stages, found.microbatches, found.rank_of(1, 0), found.rank_of(1, 7)) == (2, 1, 1, -1)


def test_forwards_read_the_stage_before_and_backwards_the_stage_after():
    assert sorted(dependencies(recorded(*ROWS))) == [(0, 1), (2, 3)]


@pytest.mark.parametrize("offset", [0, 2, 3, 500, -500])
def test_clocks_that_cannot_be_right_are_shifted_until_no_output_comes_too_late(offset):
    found = on_one_clock(recorded(*ROWS, offsets=(0, offset)))
    for made, read in dependencies(found):
        assert found.end[made] <= found.start[read]
    assert found.start.min() == 0
    assert bool(found.shift.any()) == (abs(offset) > 2)


def test_aligned_clocks_are_in_the_middle_of_what_is_possible():
    found = on_one_clock(recorded(*ROWS, offsets=(0, 1)), "aligned")
    assert found.start.tolist() == [0, 12, 22, 44]
    assert found.doubt.tolist() == [0, 2]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([(0, 1, 0, 0, 0, 10)], "stage 0 has no actions"),
        ([(0, 0, 0, 0, 10, 0)], "0F0 ends 10 ns before it starts"),
        ([(0, 0, 0, 0, 0, 10), (1, 0, 0, 0, 0, 10)], "0F0 was recorded 2 times, on rank 0 and rank 1"),
    ],
)
def test_impossible_recordings_are_refused(rows, message):
    with pytest.raises(InputError, match=message):
        recorded(*rows)


def test_unknown_ways_to_set_clocks_are_refused():
    with pytest.raises(InputError, match="clocks = 'ntp' found; one of auto, recorded, aligned"):
        on_one_clock(recorded(*ROWS), "ntp")
    assert replace(recorded(*ROWS), source="other").source == "other"
