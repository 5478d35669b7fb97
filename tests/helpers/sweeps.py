"""What tests of sweeps run in other processes, and the experiments they run."""

import os
import time
from dataclasses import replace
from pathlib import Path

from pipesim.base.errors import RefusedError
from pipesim.engines import event
from pipesim.studies import sweep

HEAD = 'format = "pipesim.sweep"\nversion = 1\n'
# Cheap points, all different: a few milliseconds each.
SMALL = f"""{HEAD}
[simulate]
trace = "bert-large"
cluster = 'flat({{gpus}}, bandwidth="1GB/s")'
planner = "uniform"

[grid]
gpus = [2, 3]
microbatches = {{ from = 1, to = COUNT, step = 1 }}

[output]
metrics = ["iteration_time_s", "bubble_idle_share", "fits_memory", "plan_replicas", "helpers.sweeps:counted"]
"""
COUNT_FILE = "PIPESIM_TEST_COUNT"


def counted(case, timeline):
    """A metric that leaves a line wherever it is asked for: how often was a point computed?"""
    del timeline
    if COUNT_FILE in os.environ:
        line = f"{len(case.plan.devices)} {case.plan.microbatches}\n".encode()
        handle = os.open(os.environ[COUNT_FILE], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(handle, line)
        os.close(handle)
    return len(case.plan.stages)


def failing(case, timeline):
    """A metric that cannot be taken of some points."""
    del timeline
    if case.plan.microbatches == 3:
        raise ZeroDivisionError("three is too many")
    return 1


def deadly(case, timeline):
    """A metric that takes its worker with it."""
    del timeline
    if case.plan.microbatches == 3:
        os._exit(9)
    return 1


def another_engine(program, *, watch=None):
    """An engine of another name."""
    return replace(event.run(program, watch=watch), engine="another")


def refusing_engine(program, *, watch=None):
    """An engine that cannot answer."""
    del program, watch
    raise RefusedError("this engine knows nothing")


def pipedream_like(model, cluster, costs, microbatches):
    """Somebody's planner."""
    from pipesim.planners.uniform import uniform

    return uniform(model, cluster, costs, microbatches, stages=2)


def write(folder: Path, text: str, count: int = 10, name: str = "experiment") -> Path:
    """An experiment's file."""
    path = folder / f"{name}.toml"
    path.write_text(text.replace("COUNT", str(count)), encoding="utf-8")
    return path


def run(path: str, workers: int = 1, count_file: str | None = None) -> None:
    """Run a sweep, in whatever process this is."""
    if count_file:
        os.environ[COUNT_FILE] = count_file
    sweep.run(sweep.load(path), workers=workers)


def text_of(path: Path, **more: object) -> str:
    """All rows as CSV."""
    return sweep.csv_text(*sweep.rows(path, **more))


def wait_for_more(log, seen, child):
    """Until a child computes more than so many points."""
    until = time.monotonic() + 20
    while time.monotonic() < until and child.is_alive():
        if log.exists() and log.read_text().count("\n") > seen:
            return
        time.sleep(0.002)
