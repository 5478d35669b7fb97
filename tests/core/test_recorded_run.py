from dataclasses import replace

import numpy as np
import pytest

from helpers.recorded_runs import run_of
from pipesim.base.errors import InputError
from pipesim.core.recorded_run import ClockQuality, RunLayout

# Two ranks, one microbatch: rank, kind, stage, microbatch, match, start, end.
ROWS = [
    (0, "forward", 0, 0, -1, 0, 10),
    (0, "send_activation", 0, 0, 0, 10, 14),
    (0, "receive_gradient", 0, 0, 1, 14, 45),
    (0, "backward", 0, 0, -1, 45, 65),
    (0, "collective", -1, -1, 2, 66, 80),
    (1, "receive_activation", 1, 0, 0, 1, 14),
    (1, "forward", 1, 0, -1, 14, 24),
    (1, "backward", 1, 0, -1, 24, 40),
    (1, "send_gradient", 1, 0, 1, 40, 44),
    (1, "collective", -1, -1, 2, 70, 81),
]


def changed(row, **values):
    """The rows with one of them changed."""
    names = ("rank", "kind", "stage", "microbatch", "match", "start", "end")
    return [
        tuple(values.get(name, cell) for name, cell in zip(names, cells, strict=True)) if at == row else cells
        for at, cells in enumerate(ROWS)
    ]


def test_a_step_lasts_from_its_first_start_to_its_last_end_on_any_rank():
    run = run_of(ROWS, ROWS[:4])
    assert run.step_ns.tolist() == [81, 65]
    assert (run.microbatches, len(run)) == (1, 14)


def test_communications_work_from_when_the_last_rank_has_posted_them():
    run = run_of(ROWS)
    assert run.arrival[run.is_communication].tolist() == [10, 40, 70, 10, 40, 70]
    assert run.working.tolist() == [10, 4, 5, 20, 10, 4, 10, 16, 4, 11]


def test_operations_are_labelled_as_actions_with_rank_and_step():
    run = run_of(ROWS)
    assert [run.label(row) for row in (0, 1, 4)] == [
        "0F0 on rank 0 in step 1", "0>0 on rank 0 in step 1", "collective on rank 0 in step 1",
    ]  # fmt: skip


def test_steps_are_selected_by_position_and_keep_their_numbers():
    run = run_of(ROWS, ROWS[:4], ROWS[:6])
    chosen = run.of_steps(np.array([2, 0]))
    assert chosen.steps == (1, 3)
    assert chosen.step_ns.tolist() == [81, 80]
    assert chosen.match.max() == 5
    assert len(chosen) == 16


def test_selected_operations_keep_the_positions_of_steps_and_ranks():
    run = run_of(ROWS)
    computed = run.select(run.is_computation)
    assert (len(computed), computed.ranks) == (4, (0, 1))
    assert run.select(run.match == 2).match.tolist() == [0, 0]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "no operations were recorded"),
        (changed(0, end=-1), "end: -1 found; 0 to"),
        (changed(3, end=44), "0B0 on rank 0 in step 1 ends 1 ns before it starts"),
        (changed(0, stage=-1), "a forward without stage or microbatch"),
        (changed(3, stage=2), "stage: 2 found; -1 to 1 was expected"),
        (changed(3, kind="forward"), "0F0 on rank 0 in step 1 was recorded twice"),
        (changed(3, match=3), "0B0 on rank 0 in step 1 has a match; only communications have one"),
        (changed(4, match=0), "have the same match"),
        (changed(5, kind="send_activation"), "have the same match"),
        (changed(8, match=0), "have the same match"),
        (changed(4, match=99), "match: 99 found; -1 to 9 was expected"),
    ],
)
def test_impossible_runs_are_refused(rows, message):
    with pytest.raises(InputError, match=message.replace("(", r"\(")):
        run_of(rows)


def test_columns_of_another_length_or_in_another_order_are_refused():
    run = run_of(ROWS)
    with pytest.raises(InputError, match="size: 1 rows found; 10 were expected, one per operation"):
        replace(run, size=np.ones(1))
    with pytest.raises(InputError, match="replica: 1 rows found; 2 were expected, one per rank"):
        replace(run, replica=np.zeros(1, np.int64))
    with pytest.raises(InputError, match="order of step, rank and start"):
        replace(run, start=run.start[::-1], end=run.start[::-1] + 1)
    with pytest.raises(InputError, match="ranks: rising numbers"):
        replace(run, ranks=(1, 0))
    with pytest.raises(InputError, match=r"size: -1\.0 found; bytes were expected"):
        replace(run, size=np.full(10, -1.0))


def test_layouts_and_clocks_are_checked():
    assert RunLayout(4, vpp=2).stages == 8
    with pytest.raises(InputError, match="pp = 0"):
        RunLayout(0)
    with pytest.raises(InputError, match="clock = 'own' found; one of shared, aligned, separate"):
        ClockQuality("own", np.zeros(1, np.int64), np.zeros(1))  # type: ignore[arg-type]
