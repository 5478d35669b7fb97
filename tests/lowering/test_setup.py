"""What is lowered: its options, and what the passes look up in it."""

import numpy as np
import pytest

from helpers.small_programs import star
from helpers.strategies import even_trace
from pipesim.base.errors import InputError
from pipesim.core.costs import costs_of
from pipesim.core.plan import Plan, Stage
from pipesim.core.program import BACKWARD, FORWARD
from pipesim.lowering import Options, Setup
from pipesim.schedulers.gpipe import gpipe


@pytest.mark.parametrize("bad", [{"sharing": "unfair"}, {"transfers": "lazy"}, {"optimizer_s_per_byte": -1.0}])
def test_unknown_options_are_refused(bad):
    with pytest.raises(InputError, match=next(iter(bad))):
        Options(**bad)


@pytest.mark.parametrize("options", [{"pair_overlap": 1.5}, {"pair_factor": -1.0}, {"recompute": "some"}])
def test_options_about_pairs_and_recomputation_are_checked(options):
    with pytest.raises(InputError, match="was expected"):
        Options(**options)


def setup(replicas="split", microbatches=4):
    """Two stages, both on g0 and g1."""
    plan = Plan("even", 2, microbatches, (Stage(0, 1, ("g0", "g1")), Stage(1, 2, ("g0", "g1"))), replicas)
    return Setup(plan, gpipe(plan), costs_of(even_trace(2, parameter_bytes=900)), star(2))


def test_a_slot_is_one_replica_of_one_stage():
    found = setup()
    assert found.slots == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert found.first_slot == [0, 2, 4]
    assert found.slot_of.tolist() == [[0, 1], [2, 3]]
    assert found.parameter_bytes(0) == 900
    assert found.sharing_rule.name == "fair"


@pytest.mark.parametrize("replicas", ["split", "whole"])
def test_actions_are_found_by_slot_and_microbatch(replicas):
    found = setup(replicas)
    schedule = found.schedule
    for action, (kind, m) in enumerate(zip(schedule.kind, schedule.microbatch, strict=True)):
        slot = found.slot_of[schedule.stage[action], schedule.rank[action]]
        side = 0 if kind == FORWARD else 1
        assert found.action_at(side, np.array([slot]), np.array([m])).tolist() == [action]


def test_the_last_backward_of_a_slot_completes_its_gradients():
    found = setup()
    schedule = found.schedule
    for slot, (stage, rank) in enumerate(found.slots):
        mine = (schedule.stage == stage) & (schedule.rank == rank) & (schedule.kind == BACKWARD)
        assert found.last_backward[slot] == np.flatnonzero(mine).max()


def test_what_depends_on_stage_and_kind_is_computed_once_for_each():
    asked = []
    found = setup().by_slot(lambda stage, kind: asked.append((stage, kind)) or stage)
    assert found == [0, 0, 1, 1]
    assert len(asked) == 2
