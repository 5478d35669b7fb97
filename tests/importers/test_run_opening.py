import pytest

from helpers.recorded_runs import pipelined
from pipesim.base import tables
from pipesim.base.errors import InputError
from pipesim.core.recorded_run import RunLayout
from pipesim.importers.operations.operation_table import table_of_run
from pipesim.importers.run_opening import open_run, run_format


def test_runs_are_recognised_by_what_files_hold_and_not_by_their_names(tmp_path):
    tables.write(tmp_path / "run.csv", table_of_run(pipelined(RunLayout(2), microbatches=2, steps=1)))
    (tmp_path / "run.csv").rename(tmp_path / "anything")
    assert run_format(tmp_path / "anything") == "table"
    assert open_run([tmp_path / "anything"]).layout == RunLayout(2)


@pytest.mark.parametrize("text", ["", "layer,forward_s\n0,1\n", '{"traceEvents": []}', "\0\1\2"])
def test_other_files_are_no_runs(text, tmp_path):
    (tmp_path / "other").write_text(text)
    assert run_format(tmp_path / "other") is None
    with pytest.raises(InputError, match="holds no recorded run of a known format"):
        open_run([tmp_path / "other"])


def test_without_files_or_with_an_unknown_format_nothing_is_read(tmp_path):
    assert run_format(tmp_path / "missing") is None
    with pytest.raises(InputError, match="no file to read"):
        open_run([])
    with pytest.raises(InputError, match="missing: no such file"):
        open_run([tmp_path / "missing"])
    with pytest.raises(InputError, match="unknown format of runs 'tables'"):
        open_run([tmp_path], "tables")
