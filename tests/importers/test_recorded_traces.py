"""Chakra's execution traces with start times as recorded runs."""

import functools
import random
from collections import Counter

import numpy as np
import pytest

from helpers import chakra_files as et
from helpers.spoiling import spoilt
from helpers.spoilt_files import judge
from pipesim.base.errors import InputError
from pipesim.core.recorded_run import COLLECTIVE, POINT_TO_POINT, RunLayout
from pipesim.display.execution_traces import export_execution_traces
from pipesim.importers.chakra.recorded_traces import chakra_run
from pipesim.importers.run_opening import open_run
from pipesim.studies import results, run_replay


def recorded(folder):
    """Two ranks, one microbatch: names as in schedules, starts and durations in microseconds."""
    ranks = [
        [
            et.compute(1, "0F0", 100, start=50),
            et.send(2, 0, 1, 500, needs=[1], start=150, micros=10),
            et.receive(3, 1, 0, 500, tag=1, start=151, micros=329),
            et.compute(4, "0B0", 200, needs=[3], start=481),
            et.collective(5, "all_reduce", 4096, needs=[4], start=700, micros=30),
        ],
        [
            et.receive(1, 0, 1, 500, start=20, micros=142),
            et.compute(2, "1F0", 100, needs=[1], start=163),
            et.compute(3, "1B0", 200, needs=[2], start=264),
            et.send(4, 1, 0, 500, tag=1, needs=[3], start=470, micros=10),
            et.collective(5, "all_reduce", 4096, needs=[3], start=690, micros=40),
        ],
    ]
    return et.ranks(folder, *ranks)


def test_nodes_named_as_actions_are_a_run_with_its_messages_and_collectives(tmp_path):
    run = open_run(recorded(tmp_path))
    assert (run.layout, run.microbatches, run.clock.kind) == (RunLayout(2), 1, "shared")
    assert [run.label(row).split()[0] for row in range(len(run)) if run.kind[row] < 4] == ["0F0", "0B0", "1F0", "1B0"]
    assert run.step_ns.tolist() == [710_000]
    messages = np.isin(run.kind, POINT_TO_POINT)
    assert (run.size[messages] == 500).all()
    assert Counter(run.match[run.match >= 0].tolist()) == dict.fromkeys(range(3), 2)
    assert (run.kind == COLLECTIVE).sum() == 2
    (step,) = run_replay.replayed(run).steps
    assert step.simulated == step.recorded


def test_execution_traces_are_rebuilt_on_the_command_line(tmp_path, run):
    code, out, _ = run("rebuild", *recorded(tmp_path))
    assert code == 0
    assert "PP 2, 1 microbatches per replica" in out
    assert "mean absolute error 0.000 %" in out


def test_what_a_simulation_exports_is_read_with_its_computations(tmp_path):
    made = results.simulate("bert-large", 'flat(4, bandwidth="1GB/s")', microbatches=6, planner="uniform",
                            scheduler="one_f_one_b")  # fmt: skip
    run = chakra_run(export_execution_traces(made.setup, made.timeline, tmp_path / "run.et"))
    program = made.timeline.program
    compute = program.is_compute & (program.microbatch >= 0)
    assert run.layout.pp == 4
    assert run.is_computation.sum() == compute.sum()
    assert run_replay.schedule_name(run, run_replay.order_of(run)) == "one_f_one_b"
    starts = np.sort(made.timeline.start[compute])
    assert np.abs(np.sort(run.start[run.is_computation]) - (starts - starts[0])).max() <= 2000  # whole microseconds


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([et.compute(1, "0F0", 100)], "has no start times"),
        ([et.compute(1, "aten::mm", 100, start=5)], "no node is named as an action of a schedule"),
        ([et.compute(1, "0F0", 100, start=2**60)], "microseconds of one run were expected"),
    ],
)
def test_traces_that_are_no_recorded_pipeline_are_refused(nodes, message, tmp_path):
    with pytest.raises(InputError, match=message):
        chakra_run(et.ranks(tmp_path, nodes))


def test_other_computations_are_left_out_and_counted(tmp_path):
    named = [("0F0", 5), ("0B0", 105), ("adam", 300)]
    nodes = [et.compute(number, name, 100, start=start) for number, (name, start) in enumerate(named)]
    run = chakra_run(et.ranks(tmp_path, nodes))
    assert len(run) == 2
    assert run.notes == ("1 computations without the name of an action are left out",)


def test_spoilt_traces_are_read_or_refused(tmp_path):
    paths = recorded(tmp_path)
    whole, rng, tally = {path: path.read_bytes() for path in paths}, random.Random(8), Counter()
    for turn in range(60):
        path = rng.choice(paths)
        data = spoilt(whole[path], rng)
        path.write_bytes(data)
        tally[judge(functools.partial(chakra_run, paths), paths[0], data, f"run {turn}")] += 1
        path.write_bytes(whole[path])
    assert min(tally["refused"], tally["read"]) > 5
