"""The measured runs that come with pipesim: whole, of known tiers, read as they were written."""

from pipesim.studies import measured_runs
from pipesim.studies.measured_runs import shipped


def test_rows_come_back_as_they_were_written(tmp_path):
    measured_runs.write(shipped(), tmp_path / "again.csv")
    assert (tmp_path / "again.csv").read_bytes() == measured_runs.FILE.read_bytes()


def test_every_row_has_times_and_is_there_once():
    runs = shipped()
    assert all(run.measured_s > 0 and run.simulated_s > 0 for run in runs)
    assert {run.tier for run in runs} <= set(measured_runs.TIERS)
    assert len({(run.tier, run.data_set, run.id) for run in runs}) == len(runs) > 400
