"""Teams, shards and every way of posting: engines agree, and no bound is above a time."""

import warnings
from collections import Counter

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded

from helpers.instances import check
from helpers.strategies import team_jobs
from oracle.judging import played
from pipesim.analysis import metrics
from pipesim.lowering import Setup, lower

JOBS = 5  # Hypothesis begins with the smallest


def attempt(seed: int) -> str:
    """Some drawn jobs. A warning is a fault too."""
    found = Counter()

    @seeded(seed)
    @settings(
        max_examples=JOBS, derandomize=False, database=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(team_jobs())
    def judge(job):
        found[judged(job)] += 1

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        judge()
    return "; ".join(sorted(found))


def judged(job) -> str:
    case = Setup(*job[:5], scenario=job.scenario)
    timelines = played(lower(case))
    if isinstance(timelines, str):
        return f"stuck: {job.options.transfers}"
    check(metrics.iteration_time(timelines[0]), case)
    return f"{job.options.sharing}, {job.options.transfers}, {job.options.sharding}"
