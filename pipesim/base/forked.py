"""Functions called in processes that are forked from this one, so that they know what it knows, on its other cores.

What they return is pickled, what they change stays there. Where no process can be forked (another system than Linux,
one core, a process of a pool, or a thread), all is done here: results never depend on it.
"""

import gc
import multiprocessing
import os
import signal
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, TypeVar

from pipesim.base.cores import core_count

Result = TypeVar("Result")

between_forks = threading.RLock()
"""Held by a thread that shows progress whenever it does anything but wait, so that no process is forked meanwhile."""
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=between_forks.acquire, after_in_parent=between_forks.release, after_in_child=between_forks.release
    )
PROGRESS = "progress"  # the name of such a thread
_HARMLESS = ("kernels", PROGRESS)  # what names of threads begin with that hold no lock when a process is forked


def is_possible() -> bool:
    """Whether there is another core for a process, and nothing in the way of forking it.

    A lock that another thread holds is never released in a forked process.
    """
    others = [one for one in threading.enumerate() if not one.name.startswith(_HARMLESS)]
    alone = multiprocessing.parent_process() is None and others == [threading.main_thread()]
    mine = threading.current_thread() is threading.main_thread()
    return sys.platform == "linux" and alone and mine and core_count() > 1


def is_alone() -> bool:
    """Whether nothing else runs in this process, so that workers that live long can be forked from it."""
    return is_possible() and threading.active_count() == 1


def context() -> Any:  # noqa: ANN401 - a class that not every system has
    """How to start processes that are forked from this one."""
    return multiprocessing.get_context("fork")


def results_of(functions: Sequence[Callable[[], Result]], most: int) -> list[Result]:
    """What each of them returns; they are taken in this order by at most so many processes, this one among them."""
    count = min(most, core_count(), len(functions))
    if count < 2 or not is_possible():
        return [function() for function in functions]
    taken = context().Value("i", 0)

    def work() -> dict[int, Result]:
        done = dict[int, Result]()
        while True:
            with taken.get_lock():
                number, taken.value = taken.value, taken.value + 1
            if number >= len(functions):
                return done
            done[number] = functions[number]()

    others = [one for _ in range(count - 1) if (one := started(work)) is not None]
    try:
        for one in others:
            one.ask(0)
        known = work()
        for one in others:
            known |= one.answer(0) or {}  # of a process that has failed, its functions are called here
    finally:
        for one in others:
            one.end()
    return [known[number] if number in known else function() for number, function in enumerate(functions)]


def started(function: Callable[..., Any]) -> "Forked | None":
    """A process for this function; None where none can be forked now, such as for a limit of processes or memory."""
    if not is_possible():
        return None
    try:
        return Forked(function)
    except OSError:
        return None


class Forked:
    """A process that calls a function whenever it is asked to, until it is ended."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._connection, other = context().Pipe()
        self._process = context().Process(target=_serve, args=(function, other, self._connection), daemon=True)
        with warnings.catch_warnings():  # of Python 3.12, about threads: those that there may be hold no lock
            warnings.simplefilter("ignore", DeprecationWarning)
            self._process.start()
        other.close()
        self._asked = 0  # that have not been answered
        self.end = weakref.finalize(self, _end, self._connection, self._process)
        """End the process, whatever it does; it is ended, too, when this object is."""

    @property
    def is_idle(self) -> bool:
        """Whether it has answered all that it was asked; answers that the caller has not waited for are gone then."""
        with suppress(EOFError, OSError):
            while self._asked and self._connection.poll():
                self._connection.recv()
                self._asked -= 1
        return not self._asked

    def ask(self, number: int, *arguments: object) -> bool:
        """Have it called with these arguments; whether the process is there."""
        try:
            self._connection.send((number, arguments))
        except OSError:
            return False
        self._asked += 1
        return True

    def answer(self, number: int) -> Any:  # noqa: ANN401 - whatever the function returns
        """What it has returned, when it has; None where it has failed, or the process has."""
        try:
            while True:
                wait([self._connection, self._process.sentinel])
                found, result = self._connection.recv()
                self._asked -= 1
                if found == number:
                    return result
        except (EOFError, OSError):
            return None


def _end(connection: Connection, process: BaseProcess) -> None:
    connection.close()
    process.kill()
    process.join()


def _serve(function: Callable[..., Any], connection: Connection, callers: Connection) -> None:
    """Answer until the caller is gone."""
    callers.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the caller is interrupted, too, and ends this process
    gc.freeze()  # so that looking for garbage does not copy what both processes have
    with suppress(EOFError, OSError), Path(os.devnull).open("w", encoding="utf-8") as nothing:
        sys.stderr = nothing
        while True:
            number, arguments = connection.recv()
            result = None
            with suppress(Exception):  # it is called again by the caller, which then raises that
                result = function(*arguments)
            connection.send((number, result))
