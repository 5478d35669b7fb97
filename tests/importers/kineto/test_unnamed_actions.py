"""Profiles whose ranges name no actions, as of PyTorch's Schedule1F1B: actions found from operators and messages."""

import json

import numpy as np
import pytest

from helpers.profiles import Profile
from pipesim.base.errors import InputError
from pipesim.importers.kineto.layer_ranges import ITERATION
from pipesim.importers.kineto.pipelined import profiled, recording
from pipesim.importers.kineto.ranks import events_by_rank
from pipesim.importers.kineto.unnamed_actions import with_ranges

ORDERS = ("F0 F1 B0 F2 B1 B2", "F0 B0 F1 B1 F2 B2")  # 1F1B of two stages, three microbatches
NODES = 3  # of each forward, and operators


def profile(rank, order, *, steps=2, named=False, optimizer=True, iterations=True):
    """A rank of so many steps.

    As PyTorch does, operators that make no node carry the number of the next one, and the first operators of a step
    (gradients scaled, a batch cut) carry that of its first forward.
    """
    made = Profile(rank, len(ORDERS), base_ns=10**18)
    time, sequence = 0, 100
    for step in range(steps):
        begin, numbers = time, {}
        made.op("aten::slice", time + 1, time + 2, sequence)
        for cell in order.split():
            microbatch = int(cell[1:])
            if cell[0] == "F":
                numbers[microbatch] = sequence
                time, sequence = forward(made, rank, time, sequence)
            else:
                time = backward(made, rank, time, numbers[microbatch])
            if named:
                start = time - (38 if cell[0] == "F" else 66)
                made.range(f"{'Forward' if cell[0] == 'F' else 'Backward'} {microbatch}", start, time - 6)
        made.op("aten::div_", time + 10, time + 12, sequence)
        if optimizer:
            made.range("Optimizer.step#SGD.step", time + 20, time + 30)
        time += 40
        if iterations:
            made.step(step, begin, time)
    return made


def forward(made, rank, time, sequence):
    """Operators of 30 us, behind a receive and before a send; the time after it, and the next number."""
    if rank:
        made.op("c10d::recv_", time + 10, time + 14, sequence)
    time += 50
    for n in range(NODES):
        made.op("aten::linear", time + 10 * n, time + 10 * n + 9, sequence + n)
    made.op("aten::detach", time + 30, time + 31, sequence + NODES)
    if rank < len(ORDERS) - 1:
        made.op("c10d::send", time + 32, time + 37, sequence + NODES)
    return time + 38, sequence + NODES


def backward(made, rank, time, numbers):
    """Nodes of 60 us, behind a receive and before a send; the time after it."""
    if rank < len(ORDERS) - 1:
        made.op("c10d::recv_", time + 6, time + 9, numbers + 50)
        time += 50
    for n in range(NODES):
        made.node("AddmmBackward0", time + 20 * n, time + 20 * n + 18, numbers + NODES - 1 - n)
        made.node("torch::autograd::AccumulateGrad", time + 20 * n + 18, time + 20 * n + 20)
    if rank:
        made.op("c10d::send", time + 60, time + 65, numbers + 50)
    return time + 66


def files(folder, **how):
    folder.mkdir()
    for rank, order in enumerate(ORDERS):
        profile(rank, order, **how).write(folder / f"rank{rank}.json")
    return folder


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
