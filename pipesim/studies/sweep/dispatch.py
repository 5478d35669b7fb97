"""Handing out the points of a sweep: cut into chunks, given to workers, and kept as they come.

    pending    3 5 6 7 | 9 10 12 | 13 ...        neighbours share plans; a chunk takes as long as workers ask for
    waiting    [3 5 6 7] [9 10 12]               two chunks for each worker
    store      0 1 2 4 8 11                      committed chunk by chunk

A worker that dies takes its chunks with it: their points are tried again, one at a time, and the one during which a
worker dies again is a failure.
"""

import math
from array import array
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, CancelledError, Future
from dataclasses import dataclass
from typing import TypeAlias

from pipesim.base.errors import InputError
from pipesim.studies.simulation import Simulation
from pipesim.studies.store import Clock, Experiment, Result, Store
from pipesim.studies.sweep.keys import Keys
from pipesim.studies.sweep.sweep_file import Sweep
from pipesim.studies.sweep.worker import Outcome
from pipesim.studies.sweep.workers import Chunk, Crew, NotStartedError

_MOST = 1000  # points in a chunk
_LEAST = 0.1  # of the time of a chunk: no chunk is cut shorter, since handing it over has its price too
_WINDOW_S = 10.0  # the rate is that of so many seconds
_SILENCE_S = 5.0  # after so long without an answer it is looked whether there are workers at all
_STARTS, _PAUSE_S = 5, 0.2  # how often it is tried to start workers for one point; each time after a longer pause

Numbers: TypeAlias = "array[int]"
Tell = Callable[[str], None]


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


@dataclass(frozen=True, slots=True)
class Preparation:
    """How far a sweep is before its first point is simulated: the step, and how many of its points are through."""

    step: str
    done: int
    total: int


Prepare = Callable[[Preparation], None]


@dataclass(frozen=True, slots=True)
class Work:
    """What is to be computed: the points with these numbers, of an experiment with these keys."""

    experiment: Experiment
    keys: Keys
    numbers: Numbers


def check_listed(results: Store, experiment: Experiment) -> None:
    """Refuse to go on where another sweep has taken the name."""
    if not results.lists(experiment):
        raise InputError(
            f"{results.path}: another sweep with the name {experiment.name!r} and other points was started on this "
            "file meanwhile, and its points are listed there now; the results of this one are kept: give one of the "
            "two another name, or another --store, and run this one again"
        )


class Run:
    """One run of a sweep into a store."""

    def __init__(
        self, sweep: Sweep, store: Store, crew: Crew, work: Work, *, clock: Clock, watch: Watch | None, say: Tell
    ) -> None:
        status = store.status(sweep.name)
        self.sweep, self.store, self.crew, self.work, self.clock = sweep, store, crew, work, clock
        self.watch, self.say = watch, say
        self.begun = 0  # points that were handed out
        self.handed_back: deque[tuple[bytes, Simulation]] = deque()  # points of chunks that took too long
        self.again = self._there() if status.done else set()  # what failed and is tried again is not done
        self.total = status.total
        self.done, self.failed = status.done - len(self.again), status.failed - len(self.again)
        self.seconds: float | None = None  # of a point, lately
        self.recent = deque([(clock.monotonic(), 0)])  # (when, results since the beginning)
        self.came = 0
        self.alone = False  # whether it was reported that no worker is left

    def _there(self) -> set[bytes]:
        found: set[bytes] = set()
        for start in range(0, len(self.work.numbers), _MOST):
            keys = [self.work.keys.key(number) for number in self.work.numbers[start : start + _MOST]]
            found |= self.store.done_of(keys, self.sweep.columns)
        return found

    def go(self) -> None:
        """Hand out chunks and keep what comes back, until nothing is left."""
        waiting: dict[Future[list[Outcome]], Chunk] = {}
        while True:
            for chunk in self._chunks(2 * self.crew.size - len(waiting)):
                waiting[self.crew.submit(chunk)] = chunk
            if not waiting:
                return
            lost: list[Chunk] = []
            for future in self._first_done(waiting):
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

    def _first_done(self, waiting: dict[Future[list[Outcome]], Chunk]) -> list[Future[list[Outcome]]]:
        """The chunks that are done, in the order in which they were handed out; reports where no worker is left."""
        while not (done := self.crew.wait(waiting, _SILENCE_S)):
            if not self.crew.count() and not self.alone:
                self.alone = True
                self.say("no worker is left; waiting for others to come (what was done is kept: Ctrl-C ends this)")
        if self.alone:
            self.alone = False
            self.say("there are workers again")
        return [future for future in waiting if future in done]

    def _chunks(self, count: int) -> Iterator[Chunk]:
        """The next chunks, without what another sweep on the same file has done in the meantime."""
        while count > 0 and (self.handed_back or self.begun < len(self.work.numbers)):
            if self.handed_back:
                count -= 1
                yield [self.handed_back.popleft() for _ in range(min(self._size(), len(self.handed_back)))]
                continue
            numbers = self.work.numbers[self.begun : self.begun + self._size()]
            self.begun += len(numbers)
            part = [(number, self.work.keys.key(number)) for number in numbers]
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
        most, least = (int(seconds / self.seconds) for seconds in (self.crew.chunk_s, self.crew.chunk_s * _LEAST))
        fair = math.ceil((len(self.work.numbers) - self.begun + len(self.handed_back)) / (2 * self.crew.size))
        return max(1, min(max(fair, least), most, _MOST))

    def _keep(self, outcomes: list[Outcome]) -> None:
        took = sum(outcome.seconds for outcome in outcomes) / len(outcomes)
        self.seconds = took if self.seconds is None else (self.seconds + took) / 2
        self.store.commit(self.sweep.columns, [Result(*outcome) for outcome in outcomes])
        self._count(len(outcomes), sum(outcome.error is not None for outcome in outcomes))
        check_listed(self.store, self.work.experiment)

    def _count(self, done: int, failed: int) -> None:
        """Report the progress."""
        self.done, self.failed, self.came = self.done + done, self.failed + failed, self.came + done
        now = self.clock.monotonic()
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
            outcomes = self._alone(item)
            if outcomes is None:
                error = "the worker died while it simulated this point (was its memory too small?)"
                outcomes = [Outcome(item[0], [], error, refused=False, engine="", seconds=0.0)]
                self.crew.remake()
            self._keep(outcomes)

    def _alone(self, item: tuple[bytes, Simulation]) -> list[Outcome] | None:
        """What a point comes to while nothing else is handed out; None if the worker died."""
        reason = ""
        for start in range(_STARTS):
            try:
                future = self.crew.submit([item])
                self._first_done({future: [item]})
                return _outcomes(future, begun=True)
            except NotStartedError as error:
                reason = str(error)
                self.clock.sleep(start * _PAUSE_S)  # what was killed takes a moment to be gone
                self.crew.remake()
        raise InputError(
            f"workers cannot be started ({reason}): what starts them was ended, by the system perhaps, for lack of "
            "memory; what was done is kept, run again to go on, with fewer --workers for less memory"
        )


def _outcomes(future: "Future[list[Outcome]]", *, begun: bool = False) -> list[Outcome] | None:
    """What a chunk came to; None if the worker died. With `begun` a chunk that no worker began is an error."""
    try:
        return future.result()
    except NotStartedError:
        if begun:
            raise
        return None
    except BrokenExecutor:
        return None
    except CancelledError:
        raise InputError("the dask scheduler is gone; what was done is kept, run again to go on") from None
    except Exception as error:
        if type(error).__name__ == "KilledWorker":
            return None
        raise InputError(f"the workers cannot work: {type(error).__name__}: {error}") from error
