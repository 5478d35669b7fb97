"""From a sweep to its rows: what is not there yet is cut into chunks, handed to workers, and kept as it comes.

    pending    3 5 6 7 | 9 10 12 | 13 ...        neighbours share plans; a chunk takes 50-100 ms
    waiting    [3 5 6 7] [9 10 12]               two chunks for each worker
    store      0 1 2 4 8 11                      committed chunk by chunk

A worker that dies takes its chunks with it: their points are tried again, one at a time, and the one during which a
worker dies again is a failure.
"""

import math
import os
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Future, wait
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from pipesim import limits, lookup
from pipesim.engines import ENGINES
from pipesim.errors import InputError, within
from pipesim.limits import HostMemory
from pipesim.store import Result, Status, Store
from pipesim.sweep import crew as crews
from pipesim.sweep import grid as grids
from pipesim.sweep.crew import Chunk, Crew
from pipesim.sweep.file import Keyed, Sweep
from pipesim.sweep.inputs import Inputs
from pipesim.sweep.points import Point
from pipesim.sweep.work import Order, Outcome

CHUNK_S = 0.075  # what a chunk should take: long beside handing it over, short beside losing it
_MOST = 1000  # points in a chunk
_WINDOW_S = 10.0  # the rate is that of so many seconds

Pending = list[tuple[int, bytes]]


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a sweep is: results that are there, failures among them, and how fast they come."""

    total: int
    done: int
    failed: int
    per_second: float

    @property
    def left_s(self) -> float | None:
        """Seconds until the end at this rate."""
        return (self.total - self.done) / self.per_second if self.per_second else None


Watch = Callable[[Progress], None]


def run(
    sweep: Sweep,
    *,
    store: Path | str | None = None,
    workers: int | None = None,
    dask: str | None = None,
    engine: str | None = None,
    only: str | None = None,
    retry: bool = False,
    watch: Watch | None = None,
    host_memory: HostMemory = None,
) -> Status:
    """Compute every point that has no result yet, on `workers` processes (default: one per core) or a dask cluster.

    `only` is a formula of axes: points for which it does not hold are left for later. With `retry` what failed is tried
    again. `watch` is told after every chunk how far things are. Returns how things stand in the end. A point that would
    take more than its share of `host_memory` fails: all workers here have equal shares of it, by default of half of the
    machine's memory; a worker on a dask cluster has all of it for itself, by default half of its machine's.
    """
    replayer = engine or sweep.engine or "auto"
    lookup.function_named(replayer, ENGINES, "engine")
    count = _checked(workers)
    inputs, keyed = read(sweep)
    with Store.open(store or sweep.store, create=True) as results:
        results.enlist(sweep.experiment(keyed), keyed)
        pending = _chosen(sweep, results.pending(sweep.name, replayer, retry=retry), only)
        several = min(count, max(len(pending), 1))
        share = host_memory if dask else limits.limit_of(host_memory).shared(several)
        order = Order(inputs.values, sweep.metrics, replayer, share)
        if pending:
            with _crew(order, several, dask) as crew:
                _Run(sweep, results, crew, pending, watch).go()
        return results.status(sweep.name)


def read(sweep: Sweep) -> tuple[Inputs, Keyed]:
    """All that the points name, and (number, key, values of the axes) of each."""
    inputs = Inputs(sweep.path.parent)
    keyed = list(sweep.keyed(inputs))
    if not keyed:
        raise InputError(f"{sweep.path}: the filters in 'where' leave no point")
    return inputs, keyed


def _checked(workers: int | None) -> int:
    count = _cores() if workers is None else workers
    if count < 1:
        raise InputError(f"workers = {count} found; at least 1 was expected")
    return count


def _cores() -> int:
    """How many cores this process may use; systems that cannot tell say how many there are."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _chosen(sweep: Sweep, pending: Pending, only: str | None) -> Pending:
    """What is to be computed now, points that share a plan beside each other."""
    if only is not None:
        with within("only"):
            (formula,) = grids.filters(only, [*sweep.bound, *sweep.axes])
            pending = [p for p in pending if formula.value({**sweep.bound, **sweep.values(p[0])})]
    return sorted(pending, key=lambda p: sweep.order(p[0]))


def _crew(order: Order, count: int, dask: str | None) -> AbstractContextManager[Crew]:
    if dask is not None:
        return crews.dask(order, dask, count)
    return crews.processes(order, count) if count > 1 else crews.here(order)


class _Run:
    """One run of a sweep into a store."""

    def __init__(self, sweep: Sweep, store: Store, crew: Crew, pending: Pending, watch: Watch | None) -> None:
        status = store.status(sweep.name)
        self.sweep, self.store, self.crew, self.watch = sweep, store, crew, watch
        self.pending = deque(pending)
        self.handed_back: deque[tuple[bytes, Point]] = deque()  # points of chunks that took too long
        # What failed and is tried again is not done.
        self.again = store.done_of([key for _, key in pending], sweep.columns)
        self.total = status.total
        self.done, self.failed = status.done - len(self.again), status.failed - len(self.again)
        self.seconds: float | None = None  # of a point, lately
        self.recent = deque([(time.monotonic(), 0)])  # (when, results since the beginning)
        self.came = 0

    def go(self) -> None:
        """Hand out chunks and keep what comes back, until nothing is left."""
        waiting: dict[Future[list[Outcome]], Chunk] = {}
        while True:
            for chunk in self._chunks(2 * self.crew.size - len(waiting)):
                waiting[self.crew.submit(chunk)] = chunk
            if not waiting:
                return
            lost: list[Chunk] = []
            for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                chunk = waiting.pop(future)
                outcomes = _outcomes(future)
                if outcomes is None:
                    lost.append(chunk)
                else:
                    self._keep(outcomes)
                    self.handed_back.extend(chunk[len(outcomes) :])
            if lost:
                self._one_by_one([*lost, *waiting.values()])
                waiting.clear()

    def _chunks(self, count: int) -> Iterator[Chunk]:
        """The next chunks, without what another sweep on the same file has done in the meantime."""
        while count > 0 and (self.handed_back or self.pending):
            if self.handed_back:
                count -= 1
                yield [self.handed_back.popleft() for _ in range(min(self._size(), len(self.handed_back)))]
                continue
            part = [self.pending.popleft() for _ in range(min(self._size(), len(self.pending)))]
            there = self.store.done_of([key for _, key in part], self.sweep.columns) - self.again
            self._count(len(there), 0)
            chunk = [(key, self.sweep.point(number)) for number, key in part if key not in there]
            if chunk:
                count -= 1
                yield chunk

    def _size(self) -> int:
        """How many points make a chunk; towards the end fewer, so that all workers end together."""
        if not self.seconds:
            return 1
        fair = math.ceil((len(self.pending) + len(self.handed_back)) / (2 * self.crew.size))
        return max(1, min(int(CHUNK_S / self.seconds), fair, _MOST))

    def _keep(self, outcomes: list[Outcome]) -> None:
        took = sum(outcome.seconds for outcome in outcomes) / len(outcomes)
        self.seconds = took if self.seconds is None else (self.seconds + took) / 2
        self.store.commit(self.sweep.columns, [Result(*outcome) for outcome in outcomes])
        self._count(len(outcomes), sum(outcome.error is not None for outcome in outcomes))

    def _count(self, done: int, failed: int) -> None:
        """Tell how far things are."""
        self.done, self.failed, self.came = self.done + done, self.failed + failed, self.came + done
        now = time.monotonic()
        self.recent.append((now, self.came))
        while len(self.recent) > 2 and self.recent[1][0] < now - _WINDOW_S:
            self.recent.popleft()
        if self.watch and done:
            (then, before), elapsed = self.recent[0], now - self.recent[0][0]
            rate = (self.came - before) / elapsed if elapsed and then else 0.0
            self.watch(Progress(self.total, self.done, self.failed, rate))

    def _one_by_one(self, chunks: list[Chunk]) -> None:
        """Try the points of lost chunks again, alone."""
        self.crew.remake()
        for item in (item for chunk in chunks for item in chunk):
            outcomes = _outcomes(self.crew.submit([item]))
            if outcomes is None:
                error = "the worker died while it simulated this point (was its memory too small?)"
                outcomes = [Outcome(item[0], [], error, refused=False, engine="", seconds=0.0)]
                self.crew.remake()
            self._keep(outcomes)


def _outcomes(future: "Future[list[Outcome]]") -> list[Outcome] | None:
    """What a chunk came to; None if the worker died."""
    try:
        return future.result()
    except BrokenExecutor:
        return None
    except CancelledError:
        raise InputError("the dask scheduler is gone; what was done is kept, run again to go on") from None
    except Exception as error:
        if type(error).__name__ == "KilledWorker":
            return None
        raise InputError(f"the workers cannot work: {type(error).__name__}: {error}") from error
