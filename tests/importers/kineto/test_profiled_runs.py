"""Profiles of all ranks as recorded runs: actions, messages, collectives, optimizer steps, clocks."""

import numpy as np
import pytest

from helpers.profiles import pipelined
from pipesim.base.errors import InputError
from pipesim.core.recorded_run import COLLECTIVE, COMPUTATIONS, OPTIMIZER, POINT_TO_POINT, RunLayout
from pipesim.importers.kineto.pipelined import kineto_run
from pipesim.importers.run_opening import open_run
from pipesim.studies import run_replay

ONE_F_ONE_B = "0F0,0F1,0B0,0F2,0B1,0B2\n1F0,1B0,1F1,1B1,1F2,1B2"
CHUNKS = "0F0,0F1,2F0,2F1,2B0,2B1,0B0,0B1\n1F0,1F1,3F0,3B0,3F1,3B1,1B0,1B1"
WHOLE = "0F0,0F2,0B0,0B2\n0F1,0F3,0B1,0B3\n1F0,1F1,1B0,1B1,1F2,1F3,1B2,1B3"


def with_messages(schedule, *, steps=2, offsets=None, lose=0):
    """Profiles with NCCL kernels: a send of 8 us after each action whose output goes to the other rank, its receive,
    an all-reduce of all ranks and a step of the optimizer at the end.
    """
    files, span = pipelined(schedule, steps=steps, offsets=offsets, transfer=10)
    rows = [row.split(",") for row in schedule.split("\n")]
    holder = {cell[0]: rank for rank, row in enumerate(rows) for cell in row}
    group = {"Process Group Ranks": "[0, 1]", "Group size": 2, "dtype": "Float"}
    for step in range(steps):
        first = step * (span + 500) + 50
        for rank, (made, row) in enumerate(zip(files, rows, strict=True)):
            ends = [e["ts"] + e["dur"] for e in made.events if e["cat"] == "kernel" and e["name"] == "gemm"]
            for at, cell in enumerate(row):
                end = ends[step * len(row) + at]
                other = str(int(cell[0]) + (1 if cell[1] == "F" else -1))
                if other not in holder or holder[other] == rank or (lose and step == 0 and rank == 0 and at == lose):
                    continue
                ends_of = {"Src Rank": rank, "Dst Rank": holder[other], "In msg nelems": 256, "Out msg nelems": 256}
                made.kernel(end - 1, end, end + 8, stream=20, name="ncclDevKernel_SendRecv",
                            **group, **ends_of, **{"Collective name": "send"})  # fmt: skip
                files[holder[other]].kernel(end - 2, end - 3, end + 9, stream=20, name="ncclDevKernel_SendRecv",
                                            **group, **ends_of, **{"Collective name": "recv"})  # fmt: skip
            made.kernel(first + span, first + span + 5 + rank, first + span + 50, stream=21,
                        name="ncclDevKernel_AllReduce", **group,
                        **{"Collective name": "allreduce", "In msg nelems": 99, "Out msg nelems": 99})  # fmt: skip
            made.range("Optimizer.step#AdamW.step", first + span + 60, first + span + 70)
            made.kernel(first + span + 61, first + span + 62, first + span + 90)
    return files


def read(files, folder):
    return kineto_run([one.write(folder / f"rank{at}.json") for at, one in enumerate(files)])


@pytest.mark.parametrize(("schedule", "layout"), [(ONE_F_ONE_B, RunLayout(2)), (CHUNKS, RunLayout(2, vpp=2))])
def test_messages_have_the_stage_and_microbatch_of_the_action_that_makes_them(schedule, layout, tmp_path):
    run = read(with_messages(schedule), tmp_path)
    assert (run.layout, len(run.steps), run.clock.kind) == (layout, 2, "shared")
    messages = np.flatnonzero(np.isin(run.kind, POINT_TO_POINT))
    assert (run.match[messages] >= 0).all()
    assert (run.size[messages] == 1024).all()
    assert not run.notes
    for number in np.unique(run.match[messages]):
        send, receive = sorted(np.flatnonzero(run.match == number).tolist(), key=lambda row: run.kind[row])
        assert run.microbatch[send] == run.microbatch[receive]
        assert run.stage[receive] - run.stage[send] == (1 if run.kind[send] < run.kind[receive] <= 5 else -1)
        made = (run.rank == run.rank[send]) & (run.stage == run.stage[send]) & (run.step == run.step[send])
        made &= (run.microbatch == run.microbatch[send]) & np.isin(run.kind, COMPUTATIONS)
        assert run.start[send] in run.end[made]


def test_collectives_are_matched_and_the_optimizer_is_what_its_kernels_took(tmp_path):
    run = read(with_messages(ONE_F_ONE_B), tmp_path)
    reduced = np.flatnonzero(run.kind == COLLECTIVE)
    assert len(reduced) == 4
    assert len(set(run.match[reduced].tolist())) == 2
    assert {run.names[name] for name in run.name[reduced]} == {"all_reduce"}
    steps = np.flatnonzero(run.kind == OPTIMIZER)
    assert ((run.end - run.start)[steps] == 28_000).all()
    assert len(steps) == 4


def test_a_profiled_run_is_replayed_to_the_nanosecond(tmp_path):
    for schedule in (ONE_F_ONE_B, CHUNKS):
        made = run_replay.replayed(read(with_messages(schedule), tmp_path))
        assert all(step.simulated == step.recorded for step in made.steps)


def test_clocks_of_ranks_are_set_by_what_was_sent(tmp_path):
    run = read(with_messages(ONE_F_ONE_B, offsets=[0, 70_000]), tmp_path)
    true = read(with_messages(ONE_F_ONE_B), tmp_path)
    assert run.clock.kind == "aligned"
    assert np.abs(np.sort(run.start) - np.sort(true.start)).max() <= 2 * run.clock.doubt.max() <= 40_000


def test_messages_of_a_channel_with_one_too_few_are_left_out_and_noted(tmp_path):
    run = read(with_messages(ONE_F_ONE_B, lose=1), tmp_path)
    assert any("messages left out: not as many as actions" in note for note in run.notes)
    assert np.isin(run.kind, POINT_TO_POINT).any()


def test_stages_on_other_numbers_of_ranks_are_refused(tmp_path):
    files, _ = pipelined(WHOLE)
    with pytest.raises(InputError, match="as many ranks with each, the replicas of one pipeline, were expected"):
        read(files, tmp_path)


def test_a_run_of_profiles_is_opened_by_the_name_of_its_format(tmp_path):
    paths = [one.write(tmp_path / f"rank{at}.json") for at, one in enumerate(with_messages(ONE_F_ONE_B))]
    assert len(open_run(paths, "kineto").steps) == 2
