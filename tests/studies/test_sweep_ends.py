"""How a sweep ends: with all points, or with a reason and an exit code that is not 0."""

import os
import signal
import subprocess
import sys
from concurrent.futures import Future
from contextlib import contextmanager

import pytest

from fuzz import stores
from helpers import sweeps
from helpers.places import ROOT
from pipesim.base.errors import InputError
from pipesim.studies import sweep
from pipesim.studies.store import Clock
from pipesim.studies.sweep import System
from pipesim.studies.sweep.worker import WorkerConfig
from pipesim.studies.sweep.workers import Crew, NotStartedError, first_done, processes


def crew_of(submit, remake=lambda: None, count=lambda: 1, wait=first_done):
    @contextmanager
    def crew(order, number):
        del order, number
        yield Crew(count, submit, remake, wait)

    return System(crew=crew)


def outcomes(chunk, metrics=("iteration_time_s",)):
    return [stores.outcome_of(key, WorkerConfig({}, metrics, "event"), 0.01) for key, _ in chunk]


def answered(chunk):
    answer = Future()
    answer.set_result(outcomes(chunk))
    return answer


@pytest.fixture
def file(tmp_path):
    text = sweeps.SMALL.partition("metrics =")[0] + 'metrics = ["iteration_time_s"]\n'
    return sweeps.write(tmp_path, text, 4)


def test_a_sweep_whose_name_another_takes_is_refused_and_loses_nothing(file, tmp_path):
    """The first of two sweeps of one name ended with exit code 0, and `rows` showed the points of the second."""
    other = sweeps.write(tmp_path, file.read_text().replace("[2, 3]", "[4]"), name="other")
    named = other.read_text().replace("version = 1", 'version = 1\nname = "experiment"')
    other.write_text(named)
    waited = []

    def submit(chunk):
        if not waited:
            waited.append(sweep.run(sweep.load(other), store=file.with_suffix(".sqlite"), system=crew_of(answered)))
        return answered(chunk)

    with pytest.raises(InputError, match="another sweep with the name 'experiment' and other points was started on"):
        sweep.run(sweep.load(file), system=crew_of(submit))
    with pytest.raises(InputError, match="holds results of another grid under the name 'experiment'"):
        sweep.rows(file)
    told = []
    assert sweep.run(sweep.load(file), system=crew_of(answered), watch=told.append).left == 0
    assert len(told) < 8, "results that the first run had are kept"
    assert len(sweep.rows(file)[1]) == 8


def test_rows_of_a_file_that_was_changed_since_are_refused_but_charts_may_change(file, run):
    sweep.run(sweep.load(file), system=crew_of(answered))
    file.write_text(file.read_text() + '[plot]\nx = { kind = "line", x = "gpus", y = "iteration_time_s" }\n')
    assert run("rows", file)[0] == run("sweep", file, "--status")[0] == 0
    file.write_text(file.read_text().replace("[2, 3]", "[2, 3, 4]"))
    for command in (["rows", file], ["plot", file], ["sweep", file, "--status"]):
        code, _, err = run(*command)
        assert code == 2
        assert "another grid under the name 'experiment'" in err
        assert "`pipesim sweep" in err
    assert run("rows", file.with_suffix(".sqlite"))[0] == 0


def test_points_that_only_leaves_out_are_said(file, run):
    code, _, err = run("sweep", file, "--workers", "1", "--only", "gpus > 2")
    assert code == 0
    assert "4 points are left for later: --only 'gpus > 2'" in err


def test_workers_that_cannot_be_started_are_started_again(file):
    """The process that forks workers was killed by the system: `interrupted`, exit code 130, and nobody had."""
    remade = []

    def submit(chunk):
        if len(remade) < 3:
            lost = Future()
            lost.set_exception(NotStartedError("EOFError"))
            return lost
        return answered(chunk)

    status = sweep.run(sweep.load(file), system=crew_of(submit, remake=lambda: remade.append(1)))
    assert (status.left, status.failed) == (0, len(sweep.rows(file, "error like 'failed%'")[1]))


def test_workers_that_can_never_be_started_are_said_and_no_point_is_blamed(file):
    def submit(chunk):
        del chunk
        lost = Future()
        lost.set_exception(NotStartedError("EOFError"))
        return lost

    with pytest.raises(InputError, match=r"workers cannot be started \(EOFError\): .* fewer --workers"):
        sweep.run(sweep.load(file), system=crew_of(submit))
    assert sweep.rows(file)[1] == []


def test_a_killed_server_of_workers_costs_nothing(file):
    """The same with the processes themselves: the server that forks them is killed before it forks any."""
    from multiprocessing import forkserver

    killed = []

    @contextmanager
    def crew(order, number):
        with processes(order, number) as made:
            inner = made.submit

            def submit(chunk):
                if not killed:
                    forkserver.ensure_running()
                    killed.append(forkserver._forkserver._forkserver_pid)
                    os.kill(killed[0], signal.SIGKILL)
                return inner(chunk)

            yield Crew(made.count, submit, made.remake, made.wait)

    status = sweep.run(sweep.load(file), workers=2, system=System(crew=crew))
    assert (status.left, status.failed, len(killed)) == (0, 0, 1)


def test_a_sweep_without_workers_says_so_and_goes_on_when_there_are_some(file):
    """All workers of a cluster were killed: it waited for new ones without a word."""
    silent, told, seconds = iter([True, True, True]), [], iter(range(0, 10**6, 5))

    def wait(waiting, timeout):
        assert timeout <= 5
        return set() if next(silent, False) else first_done(waiting, timeout)

    counts = iter([2, 2, 0, 0, 0, 2])
    system = crew_of(answered, count=lambda: next(counts, 2), wait=wait)
    clock = Clock(monotonic=lambda: next(seconds))
    assert sweep.run(sweep.load(file), system=System(clock, None, system.crew), tell=told.append).left == 0
    assert [line.partition(";")[0] for line in told] == ["no worker is left", "there are workers again"]


def test_a_whole_sweep_ends_well_though_its_server_of_workers_is_killed(tmp_path):
    """At the command line: exit code 0 and all points, where it was 130 and `interrupted`."""
    path = sweeps.write(tmp_path, sweeps.SMALL, 20)
    script = (
        "import os, signal, sys\n"
        "from multiprocessing import forkserver\n"
        "from pipesim.cli import main\n"
        "def killed_once(*args, inner=forkserver.ForkServer.connect_to_new_process, done=[]):\n"
        "    if not done:\n"
        "        args[0].ensure_running()\n"
        "        done.append(os.kill(args[0]._forkserver_pid, signal.SIGKILL))\n"
        "    return inner(*args)\n"
        "forkserver.ForkServer.connect_to_new_process = killed_once\n"
        "forkserver.connect_to_new_process = forkserver._forkserver.connect_to_new_process\n"
        f"main(['sweep', {str(path)!r}, '--workers', '2'])\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")])}
    found = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False)
    assert (found.returncode, found.stderr) == (0, "")
    assert len(sweep.rows(path)[1]) == 40
