"""Options of jobs are settings, as those of a simulation."""

from pipesim.base.settings import defaults_of, settings_of
from pipesim.studies.job_options import JobOptions
from pipesim.studies.simulation import Simulation


def test_no_option_of_jobs_is_named_as_one_of_a_simulation():
    assert not {*settings_of(JobOptions)} & {*settings_of(Simulation)}
    flags = {about.flag or name for name, about in settings_of(JobOptions).items()}
    assert flags == {"--with", "devices", "share_devices", "job_iterations"}


def test_without_options_there_are_no_other_jobs():
    assert JobOptions() == JobOptions(**defaults_of(JobOptions))
    assert JobOptions().beside == ()
