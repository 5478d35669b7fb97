"""The error message for a program that cannot finish."""

from dataclasses import replace

import numpy as np
import pytest

from helpers.small_programs import pair
from pipesim.base.arrays import Ragged
from pipesim.base.errors import DeadlockError
from pipesim.engines import compiled, event
from pipesim.engines.unfinished import unfinished_tasks
from pipesim.lowering import lower
from pipesim.studies import equal_stages


def test_both_engines_give_the_same_message():
    program = lower(equal_stages.setup("one_f_one_b", 2, 2, equal_stages.Times()))
    last = len(program) - 1
    needs = Ragged.of(
        [[*need.tolist(), last] if task == 0 else need.tolist() for task, need in enumerate(program.needs)]
    )
    stuck = replace(program, needs=needs)
    messages = []
    for engine in (event, compiled):
        with pytest.raises(DeadlockError) as caught:
            engine.run(stuck)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]
    assert "can never start" in messages[0]


def test_each_lane_is_named_with_what_its_first_unfinished_task_waits_for():
    lines = unfinished_tasks(pair(), np.array([10, -1, -1, -1, -1, -1]).tolist()).split("\n")
    assert lines[0] == "5 of 6 tasks can never start; every lane below waits for another"
    assert lines[1:] == ["  0B0 on a waits for 1<0 from b to a", "  1F0 on b waits for 0>0 from a to b"]
    assert unfinished_tasks(pair(), [10, -1, -1, -1, -1, -1], shown=1).split("\n")[2:] == ["  and 1 more"]
