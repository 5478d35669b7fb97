"""Profiles whose ranges name no actions, as of PyTorch's Schedule1F1B: actions found from operators and messages."""

import json

import numpy as np
import pytest

from helpers.unnamed_profiles import ORDERS, files, profile
from pipesim.base.errors import InputError
from pipesim.importers.kineto.layer_ranges import ITERATION
from pipesim.importers.kineto.pipelined import profiled, recording
from pipesim.importers.kineto.ranks import events_by_rank
from pipesim.importers.kineto.unnamed_actions import with_ranges


def cells(one):
    return list(
        zip(*(getattr(one, name).tolist() for name in ("iteration", "stage", "kind", "microbatch")), strict=True)
    )


def test_the_actions_of_1f1b_are_found_in_their_order(tmp_path):
    found = recording(files(tmp_path / "run"), clocks="recorded")
    for rank, order in enumerate(ORDERS):
        mine = found.rank == rank
        letters = [f"{'FB'[kind]}{n}" for kind, n in zip(found.kind[mine], found.microbatch[mine], strict=True)]
        assert letters == order.split()
        assert set(found.stage[mine].tolist()) == {rank}


def test_actions_are_as_long_as_those_of_ranges(tmp_path):
    without, having = (profiled(files(tmp_path / str(named), named=named)) for named in (False, True))
    for one, other in zip(without.actions, having.actions, strict=True):
        assert cells(one) == cells(other)
        assert np.abs(one.start - other.start).max() <= 1000
        assert np.abs(one.end - other.end).max() <= 6000  # of the last stage, whose backward follows at once


@pytest.mark.parametrize("how", [{"optimizer": False}, {"iterations": False}])
def test_iterations_are_told_apart_by_their_ranges_or_by_the_optimizer(tmp_path, how):
    found = profiled(files(tmp_path / "run", steps=3, **how))
    for one in found.actions:
        assert sorted(set(one.iteration.tolist())) == [0, 1, 2]
        assert len(set(cells(one))) == len(cells(one)) == 3 * 6


def test_details_of_messages_stay_with_their_rows(tmp_path):
    made = profile(0, ORDERS[0])
    for event in made.events:
        if event["name"].startswith("c10d::"):
            event["args"]["Process Group Name"] = "7"
    (tmp_path / "rank0.json").write_text(made.text(), encoding="utf-8")

    ((rank, events),) = events_by_rank(tmp_path / "rank0.json")
    found = with_ranges(events, ITERATION)
    assert rank == 0
    assert len(found) == len(events) + 2 * 6
    assert [found.text(row) for row in found.details] == [events.text(row) for row in events.details]
    order = np.lexsort((-found.end, found.start, found.thread))
    assert np.array_equal(found.start[order], found.start)


def test_training_without_messages_has_no_actions(tmp_path):
    made = profile(0, ORDERS[0])
    made.events = [event for event in made.events if not event["name"].startswith("c10d::")]
    made.write(tmp_path / "rank0.json")
    with pytest.raises(InputError, match="no range has the name of an action"):
        profiled(tmp_path / "rank0.json")


def test_a_regular_expression_that_matches_nothing_is_still_refused(tmp_path):
    folder = files(tmp_path / "run")
    with pytest.raises(InputError, match="no range has the name of an action"):
        profiled(folder, actions="(?P<kind>x)(?P<microbatch>y)")
    assert json.loads((folder / "rank0.json").read_text(encoding="utf-8"))
