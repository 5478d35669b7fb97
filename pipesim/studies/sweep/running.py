"""From an experiment to its rows: what is not in the store yet is computed, by whatever workers there are."""

from array import array
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

from pipesim.base import lookup, worker_server
from pipesim.base.checks import check_at_least
from pipesim.base.cores import core_count
from pipesim.base.errors import InputError, shown, within
from pipesim.base.settings import check_names
from pipesim.core import limits
from pipesim.engines import ENGINES
from pipesim.studies.store import Clock, Connect, Status, Store
from pipesim.studies.sweep import grid as grids
from pipesim.studies.sweep import workers as crews
from pipesim.studies.sweep.dispatch import Numbers, Preparation, Prepare, Run, Tell, Watch, Work, check_listed
from pipesim.studies.sweep.functions import Functions
from pipesim.studies.sweep.inputs import Inputs
from pipesim.studies.sweep.keys import Keys
from pipesim.studies.sweep.sweep_file import Sweep, loaded
from pipesim.studies.sweep.worker import WorkerConfig
from pipesim.studies.sweep.workers import Crew
from pipesim.studies.sweep_options import WORKER_MODULES, SweepOptions

_OFTEN = 10_000  # points between two calls of who watches them being read
_NAMED = 5  # damaged points that are named

Made = TypeVar("Made")
CrewOf = Callable[[WorkerConfig, int], AbstractContextManager[Crew]]


@dataclass(frozen=True, slots=True)
class System:
    """What a sweep takes from the machine: time, connections to a file, workers; None: the usual ones."""

    clock: Clock = field(default_factory=Clock)
    connect: Connect | None = None
    crew: CrewOf | None = None


def run(
    sweep: Sweep | Path | str,
    *,
    watch: Watch | None = None,
    tell: Tell | None = None,
    watch_preparation: Prepare | None = None,
    system: System | None = None,
    **options: Any,  # noqa: ANN401 - fields of SweepOptions
) -> Status:
    """Compute every point that has no result yet, on `workers` processes (default: one per core) or a dask cluster.

    `sweep` is an experiment or its file. `options` are the fields of `SweepOptions`. `only` is a formula of axes:
    points for which it does not hold are left for later. With `retry` what failed is tried again. `allow_modules`
    are those whose functions the file may name (None: any; they are imported and run). `watch` is called with the
    progress after every chunk, `watch_preparation` while points are hashed and written, before the first is
    simulated; `tell` with messages for the user. Returns the status in the end. A point that would take more than
    its share of `host_memory` fails: all workers here have equal shares of it, by default of half of the machine's
    memory; a worker on a dask cluster has all of it for itself, by default half of its machine's.

    >>> status = ps.run_sweep("experiment.toml", workers=1)
    >>> status.done, status.failed
    (2, 0)
    """
    check_names(options, [field.name for field in fields(SweepOptions)], "keyword")
    how, system, say, sweep = SweepOptions(**options), system or System(), tell or _ignore, loaded(sweep)
    steps = PreparationWatch(watch_preparation, sweep.size)
    replayer = how.engine or sweep.engine or "auto"
    functions = Functions(allowed=how.allow_modules)
    functions.check(sweep.engine or "auto", ENGINES, "engine")
    lookup.function_named(replayer, ENGINES, "engine")
    count = _checked(how.workers)
    if count > 1 and how.dask is None and system.crew is None:
        worker_server.start(*WORKER_MODULES)  # it imports while points are read here
    inputs, keys = read(sweep, functions, steps.counting("hashing"))
    with Store.open(how.store or sweep.store, create=True, connect=system.connect, clock=system.clock) as results:
        steps.begin("checking results", len(keys))
        _repair(results, sweep, keys, say)
        experiment = sweep.experiment(keys)
        results.enlist(experiment, steps.counted("writing", sweep.listed(keys)))
        if results.has_others(sweep.name):  # perhaps under the keys of pipesim 0.1
            old = steps.counted("looking for results of pipesim 0.1", sweep.keys(inputs, as_0_1=True))
            results.copy_results((before, now) for (_, before), (_, now) in zip(old, keys, strict=True))
        steps.begin("looking for what is left")
        numbers = _chosen(sweep, results.pending(sweep.name, replayer, retry=how.retry), how.only)
        several = min(count, max(len(numbers), 1))
        host_memory = sweep.host_memory if how.host_memory is None else how.host_memory
        share = host_memory if how.dask else limits.limit_of(host_memory).shared(several)
        order = WorkerConfig(inputs.values, sweep.metrics, replayer, share, sweep.fold)
        if numbers:
            crew_of = system.crew or (lambda order, count: _crew(order, count, how.dask))
            with crew_of(order, several) as crew:
                Run(
                    sweep, results, crew, Work(experiment, keys, numbers), clock=system.clock, watch=watch, say=say
                ).go()
        check_listed(results, experiment)
        status = results.status(sweep.name)
    _check_end(status, how.only, say)
    return status


def read(
    sweep: Sweep, functions: Functions | None = None, watch: Callable[[int], None] | None = None
) -> tuple[Inputs, Keys]:
    """All that the points name, and number and key of each. `watch` is called with how many were read so far."""
    inputs, keys = Inputs(sweep.path, functions or Functions()), Keys()
    if watch:
        watch(0)
    for number, key in sweep.keys(inputs):
        keys.append(number, key)
        if watch and not len(keys) % _OFTEN:
            watch(len(keys))
    if not len(keys):
        raise InputError(f"{sweep.path}: the filters in 'where' leave no point")
    return inputs, keys


class PreparationWatch:
    """Reports the steps before the first point to the function that was given for it, if one was."""

    def __init__(self, watch: Prepare | None, total: int) -> None:
        self._watch, self._total = watch, total

    def begin(self, step: str, total: int | None = None) -> None:
        """Report that a step begins, and how many points the next ones have."""
        self._total = self._total if total is None else total
        self.counting(step)(0)

    def counting(self, step: str) -> Callable[[int], None]:
        """A function that reports how many points are through a step."""
        return lambda done: self._watch(Preparation(step, done, self._total)) if self._watch else None

    def counted(self, step: str, points: Iterable[Made]) -> Iterator[Made]:
        """These points, reported as they come."""
        report = self.counting(step)
        for done, point in enumerate(points):
            if not done % _OFTEN:
                report(done)
            yield point


def _ignore(text: str) -> None:
    """Drop a message."""


def _repair(results: Store, sweep: Sweep, keys: Keys, say: Tell) -> None:
    """Take damaged rows out of a store, and say which points are computed again for that."""
    damage = results.repair()
    if damage.keys:
        lost = set(damage.keys)
        points = [number for number, key in keys if key in lost]
        named = "; ".join(f"point {n} ({_values(sweep, n)})" for n in points[:_NAMED])
        more = f" and {len(points) - _NAMED:,} more" if len(points) > _NAMED else ""
        what = f"computed again: {named}{more}" if points else "none is of a point of this experiment"
        say(f"{results.path}: {len(damage.keys):,} results do not agree with their digests and were removed; {what}")
    for name in damage.names:
        again = "" if name == sweep.name else "; sweep it again to list them (its results are kept)"
        say(f"{results.path}: the list of points of {shown(name)} was damaged and removed{again}")


def _values(sweep: Sweep, number: int) -> str:
    return ", ".join(f"{name} = {shown(value)}" for name, value in sweep.values(number).items())


def _check_end(status: Status, only: str | None, say: Tell) -> None:
    """Report why points are left, if there are any."""
    if status.left and only is not None:
        say(f"{status.left:,} points are left for later: --only {only!r}")
    elif status.left:
        raise InputError(
            f"{status.name}: {status.left:,} points have no result: they were taken out of the file while the sweep "
            "ran; run it again to compute them"
        )


def _checked(workers: int | None) -> int:
    count = core_count() if workers is None else workers
    check_at_least("workers", count)
    return count


def _chosen(sweep: Sweep, pending: Iterator[tuple[int, bytes]], only: str | None) -> Numbers:
    """What is to be computed now, points that share a plan beside each other."""
    numbers = (number for number, _ in pending)
    if only is not None:
        with within("only"):
            (formula,) = grids.filters(only, [*sweep.bound, *sweep.axes])
            return sweep.ordered(array("q", (n for n in numbers if formula.value({**sweep.bound, **sweep.values(n)}))))
    return sweep.ordered(array("q", numbers))


def _crew(order: WorkerConfig, count: int, dask: str | None) -> AbstractContextManager[Crew]:
    if dask is not None:
        return crews.dask(order, dask, count)
    return crews.processes(order, count) if count > 1 else crews.here(order)
