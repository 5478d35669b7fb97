"""Busy neighbours need cores of their own; with PyTorch they are tested in with_torch."""

import os

import pytest

from pipesim.base.errors import InputError
from pipesim.recorders import neighbours, pinning


def test_without_neighbours_nothing_is_changed():
    before = pinning.allowed_cores()
    with neighbours.working("no_such:factory", 1, 0):
        assert pinning.allowed_cores() == before


def test_more_neighbours_than_cores_are_refused():
    count = len(pinning.allowed_cores())
    with (
        pytest.raises(InputError, match=f"{count} busy processes found; .* at most {max(0, count - 1)} were expected"),
        neighbours.working("no_such:factory", 1, max(count, 1)),
    ):
        pytest.fail("was entered")
    assert not hasattr(os, "sched_getaffinity") or len(os.sched_getaffinity(0)) == count
