"""Repeated blocks on a V of chunks keep the limits that the schedules promise."""

import itertools
from functools import partial

import numpy as np
import pytest

from pipesim.schedulers import blocks, v_half, v_min


@pytest.mark.parametrize("p", range(1, 65))
def test_the_limits_on_a_v_allow_the_order_of_the_block(p):
    """So that no costs lead to a deadlock."""
    assert blocks.in_flight(v_half.block_of(p), p) <= p + 2
    assert blocks.in_flight(v_min.block_of(p), p) <= v_min.limit_of(p)


@pytest.mark.parametrize("p", v_min.ONE_MORE)
def test_no_block_keeps_p_chunks_where_v_min_keeps_one_more(p):
    """All ways in which the passes of a microbatch can wait are tried: on the first lane there are few.

    Its first chunk has 4p actions from F to I, its second two, and both W: they are in flight at least that long.
    """
    passes = [*range(p), *reversed(range(p))] * 2
    room = blocks.UNITS * p - (4 * p + 1) - 3
    waits = (np.bincount(at, minlength=4 * p - 1) for n in range(room + 1) for at in chosen(4 * p - 1, n))
    begins = (np.concatenate([[0], np.cumsum(1 + wait)]) for wait in waits)
    assert not any(
        all(keeps([begin[i] for i in range(4 * p) if passes[i] == lane], p) for lane in range(p)) for begin in begins
    )


def test_blocks_that_keep_p_chunks_pass_the_same_check():
    for p in (4, 6, 7):
        assert all(keeps(lane, p) for lane in blocks.starts(v_min.block_of(p), p).T.tolist())


def chosen(places, count):
    """All multisets of `count` places, as arrays."""
    return map(
        partial(np.array, dtype=np.int64), itertools.combinations_with_replacement(range(places), count)
    )  # fmt: skip


def keeps(begins, limit):
    """Whether F0, F1, I1, I0 of a lane leave units for both W so that no more than `limit` chunks are in flight."""
    units = blocks.UNITS
    free = sorted(set(range(units)) - {begin % units for begin in begins})
    if len(free) != 2:
        return False
    f0, f1, i1, i0 = begins
    for w0, w1 in (free, free[::-1]):
        spans = [(f, i + 1 + (w - i - 1) % units + 1) for f, i, w in ((f0, i0, w0), (f1, i1, w1))]
        if max(sum((u - a) // units - (u - b) // units for a, b in spans) for u in range(units)) <= limit:
            return True
    return False
