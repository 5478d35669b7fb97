"""The gate for measurements: work counts only if its thread had a core to itself.

    wall time    |─────────── 200 ms ───────────|─────────── 200 ms ───────────|
    thread CPU   |██████████████████████████████|██████████████·····███████████|
                  kept                           disturbed: another process had the core; measured again

Where wall time and the thread's CPU time differ by more than 2 % over a window of at least 200 ms, all that was
measured in it is discarded. The measured thread must never wait for anything. Two disturbances are not detected: use of
the memory's bandwidth by others, and a busy host of a virtual machine.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from pipesim.base.errors import RefusedError

T = TypeVar("T")

WINDOW_S = 0.2
LIMIT = 0.02
IN_A_ROW = 3
PAUSE_S = 0.5  # between attempts, without using a core


@dataclass(frozen=True, slots=True)
class Clocks:
    """Elapsed seconds, seconds of this thread on a core, and a function to sleep."""

    wall: Callable[[], float] = time.perf_counter
    cpu: Callable[[], float] = time.thread_time
    sleep: Callable[[float], None] = time.sleep


REAL = Clocks()


@dataclass(frozen=True, slots=True)
class Gathered(Generic[T]):
    """Results, None for those that were always disturbed; and for each window the share of time without a core."""

    results: list[T | None]
    lost: list[float]


class Window:
    """An interval of time, and the share of it in which the thread had no core."""

    def __init__(self, clocks: Clocks) -> None:
        self._clocks = clocks
        self._cpu, self._wall = clocks.cpu(), clocks.wall()

    def age(self) -> float:
        """Seconds since it began."""
        return self._clocks.wall() - self._wall

    def fill(self) -> None:
        """Be busy until the window is long enough to evaluate."""
        while self.age() < WINDOW_S:
            pass

    def lost(self) -> float:
        """The share of its time without a core."""
        wall = self.age()
        return max(0.0, 1 - (self._clocks.cpu() - self._cpu) / wall)


def wait_until_quiet(patience_s: float, clocks: Clocks = REAL) -> float:
    """Wait for three quiet windows in a row; returns the seconds."""
    began = clocks.wall()
    quiet, lost = 0, []
    while quiet < IN_A_ROW:
        window = Window(clocks)
        window.fill()
        lost.append(window.lost())
        quiet = quiet + 1 if lost[-1] <= LIMIT else 0
        if quiet < IN_A_ROW and clocks.wall() - began > patience_s:
            raise RefusedError(not_quiet(lost, patience_s))
        if not quiet:
            clocks.sleep(PAUSE_S)
    return clocks.wall() - began


def not_quiet(lost: Sequence[float], patience_s: float) -> str:
    """The reason why nothing was measured."""
    disturbed, worst = sum(share > LIMIT for share in lost), max(lost, default=0)
    return (
        f"the machine is not quiet: in {disturbed} of {len(lost)} windows of {1e3 * WINDOW_S:.0f} ms the measuring "
        f"thread was without its core for more than {LIMIT:.0%} of the time, at worst for {worst:.0%}; it was tried "
        f"again for {patience_s:g} s. Stop other processes, or wait longer for a quiet machine with --patience"
    )


def gather(
    units: Sequence[Callable[[], T]],
    patience_s: float,
    clocks: Clocks | None = REAL,
) -> Gathered[T]:
    """The results of all units, in order, each measured in a quiet window.

    Disturbed windows are measured again for at most `patience_s` seconds in total. Without `clocks` there is no gate,
    for work on other devices than the CPU.
    """
    if clocks is None:
        return Gathered([unit() for unit in units], [])
    left = patience_s
    results: list[T | None] = []
    shares: list[float] = []
    while len(results) < len(units):
        window = Window(clocks)
        taken = [units[len(results)]()]
        while window.age() < WINDOW_S and len(results) + len(taken) < len(units):
            taken.append(units[len(results) + len(taken)]())
        window.fill()
        shares.append(window.lost())
        if shares[-1] <= LIMIT:
            results += taken
        elif left > 0:
            clocks.sleep(min(PAUSE_S, left))
            left -= window.age()
        else:
            results += [None] * len(taken)
    return Gathered(results, shares)
