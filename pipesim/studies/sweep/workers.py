"""Who works: this process, processes of this machine, or a dask.distributed cluster; all take the same chunks.

parent          chunks of points, CHUNK_S or DASK_CHUNK_S each       workers
┌────────┐ ───────────────────────────────────────────────────────> ┌──────────┐
│ store  │        what all points share is sent once                 │ workshop │ x n
└────────┘ <─────────────────────────────────────────────────────── └──────────┘
                 outcomes of a chunk, committed at once
"""

import gc
import logging
import math
import os
import pickle
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    ProcessPoolExecutor,
    wait,
)
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from multiprocessing import connection, parent_process
from typing import Any

from pipesim.base import worker_server
from pipesim.base.errors import InputError, MissingExtraError
from pipesim.studies.simulation import Simulation
from pipesim.studies.sweep.worker import Outcome, Worker, WorkerConfig
from pipesim.studies.sweep_options import WORKER_MODULES

_NOISY = frozenset({"distributed", "tornado", "asyncio"})
# What a chunk should take: long beside handing it over, short beside losing it. Through dask that takes 6 ms of CPU, in
# client, scheduler and worker together, and a fifth of that through the pipes of a pool.
CHUNK_S, DASK_CHUNK_S = 0.15, 1.0
LONGEST = 2  # times that: what a chunk has not done by then is handed back, so that others can help
_WHILE_S = 5.0  # how long the number of a cluster's workers is taken to stay the same

Chunk = Sequence[tuple[bytes, Simulation]]
Answer = Future[list[Outcome]]
Submit = Callable[[Chunk], Answer]
Wait = Callable[[Iterable[Answer], float], set[Answer]]

# What this process was sent when it started, if it is a worker of a pool: it serves one sweep.
_WORKSHOP: ContextVar[Worker] = ContextVar("workshop")


class NotStartedError(BrokenExecutor):
    """No worker could be started, so that what was handed out was not begun."""


class Crew:
    """Workers who are given chunks. `count` is how many they are, `remake` starts others after some of them died.

    `chunk_s` is how many seconds a chunk should take.

    `wait` waits for the first of some chunks to be done, so many seconds at most, and returns which are.
    """

    def __init__(
        self,
        count: Callable[[], int],
        submit: Submit,
        remake: Callable[[], None],
        wait: Wait,
        chunk_s: float = CHUNK_S,
    ) -> None:
        self.chunk_s = chunk_s
        self.count = count
        self.submit = submit
        self.remake = remake
        self.wait = wait

    @property
    def size(self) -> int:
        """How many workers there are, at least one."""
        return max(1, self.count())


def first_done(waiting: Iterable[Answer], seconds: float) -> set[Answer]:
    """Those of some answers that are there, as soon as there is one."""
    return wait(waiting, timeout=seconds, return_when=FIRST_COMPLETED).done


@contextmanager
def here(order: WorkerConfig, worker: Worker | None = None) -> Iterator[Crew]:
    """This process alone, with a worker that has been used before, if one is given."""
    workshop = worker or Worker(order)

    def submit(chunk: Chunk) -> Answer:
        done: Answer = Future()
        done.set_result(workshop.work(chunk, LONGEST * CHUNK_S))
        return done

    yield Crew(lambda: 1, submit, _nothing, first_done)


@contextmanager
def processes(order: WorkerConfig, count: int) -> Iterator[Crew]:
    """Processes of this machine, forked from this one, or from a server that has imported all they need."""
    context = worker_server.context_of(*WORKER_MODULES)
    shared = pickle.dumps(order, protocol=pickle.HIGHEST_PROTOCOL)
    starting = nullcontext if b"__main__" in shared else worker_server.without_script  # has what it defines
    pools: list[Executor] = []

    def remake() -> None:
        for pool in pools:
            pool.shutdown(wait=True, cancel_futures=True)
        pools[:] = [ProcessPoolExecutor(count, context, _arrive, (shared,))]

    def submit(chunk: Chunk) -> Answer:
        try:
            with starting():
                return pools[0].submit(_work, chunk)
        except BrokenExecutor as error:  # a worker died since the last check: this chunk is lost too
            return _lost(error)
        except (EOFError, OSError) as error:  # the server that forks workers is gone; the next pool starts another
            return _lost(NotStartedError(str(error) or type(error).__name__))

    remake()
    try:
        yield Crew(lambda: count, submit, remake, first_done)
    finally:
        pools[0].shutdown(wait=True, cancel_futures=True)


def _lost(error: BrokenExecutor) -> Answer:
    lost: Answer = Future()
    lost.set_exception(error)
    return lost


def _arrive(shared: bytes) -> None:
    """Take what all points share; leave when the parent is gone, and leave interrupts to it."""
    gc.freeze()  # of a forked process: so that looking for garbage does not copy what it shares with its parent
    _WORKSHOP.set(Worker(pickle.loads(shared)))  # noqa: S301 - from the parent process
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_leave_with_parent, daemon=True).start()


def _leave_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)


def _work(chunk: Chunk) -> list[Outcome]:
    return _WORKSHOP.get().work(chunk, LONGEST * CHUNK_S)


# --- a cluster -------------------------------------------------------------------------------------------------------


@contextmanager
def dask(order: WorkerConfig, address: str, count: int) -> Iterator[Crew]:
    """The workers of a dask.distributed cluster; `local` starts one of so many processes on this machine."""
    library = _imported()
    with _quiet(), _forked(library):  # after the import, by which loggers come to be
        client = _client(library, address, count)
        try:
            executor = client.get_executor(pure=False)
            # A task and not scattered data: if the worker that holds it dies, it is made again.
            shared = client.submit(Worker, order, pure=False)
            count_now = _Lately(lambda: _threads(client))
            if not count_now():
                raise InputError(f"the dask scheduler at {address!r} has no workers; start some: dask worker {address}")

            def submit(chunk: Chunk) -> Answer:
                return executor.submit(_serve, shared, chunk, LONGEST * DASK_CHUNK_S)  # type: ignore[no-any-return]  # untyped

            yield Crew(count_now, submit, _nothing, first_done, DASK_CHUNK_S)
        finally:
            client.close()
            if client.cluster is not None:
                client.cluster.close()


@contextmanager
def _quiet() -> Iterator[None]:
    """Without dask's log of broken connections: the sweep reports what they mean for it."""
    noisy = [logging.getLogger(name) for name in logging.root.manager.loggerDict if name.split(".")[0] in _NOISY]
    levels = [logger.level for logger in noisy]
    for logger in noisy:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for logger, level in zip(noisy, levels, strict=True):
            logger.setLevel(level)


@contextmanager
def _forked(distributed: Any) -> Iterator[None]:  # noqa: ANN401 - as `_client`
    """Processes that dask starts here are forked from a server that has imported all they need, as those of a pool."""
    if not worker_server.is_possible():
        yield
        return
    from dask import config  # noqa: PLC0415 - as `_imported`

    with config.set({"distributed.worker.multiprocessing-method": worker_server.METHOD}):
        distributed.utils.get_mp_context()  # it chooses imports of its own, once
        worker_server.server_context("distributed.nanny", *WORKER_MODULES)
        yield


def _threads(client: Any) -> int:  # noqa: ANN401 - as `_client`
    """How many threads the cluster's workers have; none if its scheduler does not answer."""
    try:
        return sum(client.nthreads().values())
    except (OSError, RuntimeError, TimeoutError, CancelledError):
        return 0


class _Lately:
    """What a question was answered, asked again only after a while: workers come to a cluster, and leave it."""

    def __init__(self, ask: Callable[[], int]) -> None:
        self._ask = ask
        self._asked, self._answer = -math.inf, 0

    def __call__(self) -> int:
        if time.monotonic() > self._asked + _WHILE_S:
            self._asked, self._answer = time.monotonic(), self._ask()
        return self._answer


def _nothing() -> None:
    """Workers that dask replaces need not be started again."""


def _serve(workshop: Worker, chunk: Chunk, longest_s: float) -> list[Outcome]:
    return workshop.work(chunk, longest_s)


def _imported() -> Any:  # noqa: ANN401 - dask is optional and untyped
    try:
        import distributed  # noqa: PLC0415 - optional, and slow to import
    except ImportError:
        raise MissingExtraError("a sweep on dask workers", "dask") from None
    return distributed


def _client(distributed: Any, address: str, count: int) -> Any:  # noqa: ANN401 - as `_imported`
    try:
        if address == "local":
            cluster = distributed.LocalCluster(n_workers=count, threads_per_worker=1, dashboard_address=None)
            return distributed.Client(cluster)
        return distributed.Client(address, timeout=10)
    except (OSError, ValueError, TimeoutError) as error:
        reason = str(error) or type(error).__name__
        raise InputError(f"no dask scheduler answers at {address!r}: {reason}") from None
