"""Columns under construction."""

import numpy as np

from pipesim.lowering.tasks import Tasks


def test_tasks_are_numbered_in_the_order_in_which_they_are_added():
    tasks = Tasks()
    assert tasks.add(2, kind=0, duration=np.array([5, 7])).tolist() == [0, 1]
    assert tasks.add(1, kind=3, size=1.5).tolist() == [2]
    assert tasks.count == 3


def test_what_is_not_stated_is_blank():
    tasks = Tasks()
    tasks.add(2, kind=0, duration=np.array([5, 7]))
    tasks.add(1, kind=3, size=1.5)
    columns = {name: column.tolist() for name, column in tasks.finished().items()}
    assert columns["kind"] == [0, 0, 3]
    assert columns["duration"] == [5, 7, 0]
    assert columns["size"] == [0.0, 0.0, 1.5]
    assert columns["limit"] == [np.inf] * 3
    assert columns["lane"] == [-1] * 3
