"""The same chunks on a dask.distributed cluster: every row, even if a worker is killed in the middle."""

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from helpers import sweeps
from helpers.places import ROOT
from pipesim.base.errors import InputError, MissingExtraError
from pipesim.cli import main
from pipesim.studies import store, sweep

HAS_DASK = importlib.util.find_spec("distributed") is not None
needs_dask = pytest.mark.skipif(not HAS_DASK, reason="needs the extra 'dask': pip install 'pipesim[dask]'")


@contextmanager
def started(*command, said=os.devnull):
    """A process, with the modules of the tests, that is ended when it is not needed any more; errors go to `said`."""
    path = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    with Path(said).open("w", encoding="utf-8") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", *command], env={**os.environ, "PYTHONPATH": path},
            stdout=subprocess.DEVNULL, stderr=errors,
        )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def until(condition, seconds=60):
    """Wait for something."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)


def done(path):
    try:
        with store.Store.open(path.with_suffix(".sqlite")) as results:
            return results.status(path.stem).done
    except InputError:
        return 0


@needs_dask
def test_a_killed_worker_costs_no_row(tmp_path):
    path = sweeps.write(tmp_path, sweeps.SMALL, 60)
    place = tmp_path / "scheduler.json"
    worker = ("distributed.cli.dask_worker", "--scheduler-file", str(place), "--nthreads", "1", "--no-nanny")
    scheduler = ("distributed.cli.dask_scheduler", "--port", "0", "--no-dashboard", "--scheduler-file", str(place))
    with started(*scheduler):
        until(lambda: place.exists() and place.stat().st_size > 0)  # it is there before it is written
        address = json.loads(place.read_text())["address"]
        with (
            started(*worker, "--no-dashboard") as first,
            started(*worker, "--no-dashboard") as second,
            started("pipesim", "sweep", str(path), "--dask", address, said=tmp_path / "said.txt") as run,
        ):
            until(lambda: done(path) > 20 or run.poll() is not None)
            assert run.poll() is None, f"nothing is left to lose: {(tmp_path / 'said.txt').read_text()}"
            assert first.poll() is second.poll() is None
            before = done(path)
            assert before < 120
            second.send_signal(signal.SIGKILL)
            until(lambda: run.poll() is not None, 120)
            assert run.returncode == 0
            assert first.poll() is None
    (tmp_path / "here").mkdir()
    here = sweeps.write(tmp_path / "here", sweeps.SMALL, 60)
    sweeps.run(str(here), 1)
    assert sweeps.text_of(path) == sweeps.text_of(here)
    assert sweep.rows(path, "error is not null")[1] == []


@needs_dask
def test_a_scheduler_that_is_gone_is_said_in_one_line(tmp_path):
    """Twenty lines of traceback of dask's own stood before it."""
    path = sweeps.write(tmp_path, sweeps.SMALL, 1000)
    place = tmp_path / "scheduler.json"
    worker = ("distributed.cli.dask_worker", "--scheduler-file", str(place), "--nthreads", "1", "--no-nanny")
    command = ("distributed.cli.dask_scheduler", "--port", "0", "--no-dashboard", "--scheduler-file", str(place))
    with started(*command) as scheduler:
        until(lambda: place.exists() and place.stat().st_size > 0)
        address = json.loads(place.read_text())["address"]
        line = [sys.executable, "-m", "pipesim", "sweep", str(path), "--dask", address]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")])}
        with started(*worker, "--no-dashboard"):
            until(lambda: workers_of(address))
            with subprocess.Popen(line, env=environment, stderr=subprocess.PIPE, text=True) as run:
                until(lambda: done(path) > 20 or run.poll() is not None)
                scheduler.send_signal(signal.SIGKILL)
                _, said = run.communicate(timeout=60)
    assert run.returncode == 2
    assert said == "error: the dask scheduler is gone; what was done is kept, run again to go on\n"


def workers_of(address):
    from distributed import Client

    with Client(address) as client:
        return len(client.nthreads())


@needs_dask
def test_a_scheduler_that_is_not_there_is_said(tmp_path):
    path = sweeps.write(tmp_path, sweeps.SMALL, 2)
    command = [sys.executable, "-m", "pipesim", "sweep", str(path), "--dask", "nonsense://nowhere:1"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")])}
    found = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert found.returncode == 2
    assert "no dask scheduler answers at 'nonsense://nowhere:1'" in found.stderr


@needs_dask
def test_a_cluster_can_be_started_here(tmp_path):
    path = sweeps.write(tmp_path, sweeps.SMALL, 5)
    with started("pipesim", "sweep", str(path), "--dask", "local", "--workers", "1") as run:
        until(lambda: run.poll() is not None)
    assert run.returncode == 0
    assert done(path) == 10


def test_without_the_extra_it_is_said_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    path = sweeps.write(tmp_path, sweeps.SMALL, 2)
    with pytest.raises(MissingExtraError, match=r"pip install 'pipesim\[dask\]'"):
        sweep.run(sweep.load(path), dask="local")
    with pytest.raises(SystemExit, match="2"):
        main(["sweep", str(path), "--dask", "local"])
