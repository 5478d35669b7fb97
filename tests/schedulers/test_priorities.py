"""Keys of priority rules, on three stages and two microbatches."""

import numpy as np
import pytest

from pipesim.schedulers.abstract_pipeline import abstract_pipeline
from pipesim.schedulers.priorities import PRIORITIES
from pipesim.studies import equal_stages
from pipesim.studies.equal_stages import Times


def keys(name, stages=3, microbatches=2, scheduler="gpipe"):
    made = equal_stages.setup(scheduler, stages, microbatches, Times())
    return PRIORITIES[name](abstract_pipeline(made.plan, made.costs, made.cluster))


@pytest.mark.parametrize(
    ("name", "forward", "backward"),
    [
        ("cycle", [[0, 1], [1, 2], [2, 3]], [[5, 6], [4, 5], [3, 4]]),
        ("backward", [[1, 2]] * 3, [[0, 0]] * 3),
        ("microbatch", [[1, 3]] * 3, [[0, 2]] * 3),
        ("depth", [[6, 6], [5, 5], [4, 4]], [[-6, -6], [-5, -5], [-4, -4]]),
    ],
)
def test_keys_are_those_of_the_rule(name, forward, backward):
    found = keys(name)
    assert found[0].tolist() == forward
    assert found[1].tolist() == backward


@pytest.mark.parametrize("name", PRIORITIES)
def test_a_backward_of_a_stage_precedes_the_forwards_of_later_microbatches_or_follows_in_cycle_order(name):
    forward, backward = keys(name, 4, 8)
    last = len(forward) - 1
    assert (backward[last, :-2] <= forward[last, 2:]).all(), "on the last stage a backward waits for no later forward"
    assert (np.diff(forward, axis=1) >= 0).all(), "microbatches are taken in order"


def test_microbatches_on_two_routes_are_numbered_apart():
    """Chimera: even microbatches go down, odd ones up; each pair has the same keys."""
    forward, _ = keys("microbatch", 2, 4, "chimera")
    assert forward[0].tolist() == [1, 1, 3, 3]
