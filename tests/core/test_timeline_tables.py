"""A timeline's table reads back exactly, for the program that it was made from and no other."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings

from helpers import strategies
from helpers.small_programs import pair
from pipesim.base.errors import FormatError, InputError
from pipesim.core.timeline import Timeline
from pipesim.engines.event import run

SUFFIXES = (".csv", ".parquet")
calm = strategies.jobs(calm=True).map(lambda job: job.program)


def _folder(tmp_path_factory, suffix):
    if suffix == ".parquet":
        pytest.importorskip("pyarrow", reason="parquet needs pyarrow")
    return tmp_path_factory.mktemp("timeline") / f"t{suffix}"


@pytest.mark.parametrize("suffix", SUFFIXES)
@settings(max_examples=30)
@given(program=calm)
def test_a_saved_timeline_loads_as_it_was(tmp_path_factory, suffix, program):
    path = _folder(tmp_path_factory, suffix)
    timeline = run(program)
    timeline.save(path)
    again = Timeline.load(path, program)
    assert again.same_as(timeline)
    assert again.engine == timeline.engine
    assert again.makespan == timeline.makespan
    assert all(np.array_equal(again.table()[name], column) for name, column in timeline.table().items())


@pytest.mark.parametrize("suffix", SUFFIXES)
@settings(max_examples=10)
@given(program=calm)
def test_a_timeline_of_another_program_is_refused(tmp_path_factory, suffix, program):
    path = _folder(tmp_path_factory, suffix)
    run(program).save(path)
    other = dataclasses.replace(program, stage=program.stage + 1)
    with pytest.raises(InputError, match=r"row 0: stage: \S+ found; the program has"):
        Timeline.load(path, other)


def test_only_csv_and_parquet_are_written(tmp_path):
    with pytest.raises(InputError, match=r"cannot write a \.json; use \.csv or \.parquet"):
        run(pair()).save(tmp_path / "t.json")


def test_a_timeline_with_other_tasks_or_a_newer_one_is_refused(tmp_path):
    program = pair()
    path = tmp_path / "t.csv"
    run(program).save(path)
    text = path.read_text()
    path.write_text("\n".join(text.split("\n")[:-2]) + "\n")
    with pytest.raises(InputError, match=r"t\.csv: has 5 tasks; the program has 6"):
        Timeline.load(path, program)
    path.write_text(text.replace("version=1", "version=2"))
    with pytest.raises(FormatError, match=r"t\.csv: pipesim\.timeline version 2 is newer"):
        Timeline.load(path, program)
    path.write_text(text.replace("version=1", "version=²"))
    with pytest.raises(FormatError, match=r"t\.csv"):
        Timeline.load(path, program)
    path.write_text(text.partition("\n")[2])
    with pytest.raises(FormatError, match=r"pipesim\.timeline' was expected"):
        Timeline.load(path, program)
