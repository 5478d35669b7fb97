"""The gate before numbers: work counts only if its thread had its core to itself.

    wall time    |─────────── 200 ms ───────────|─────────── 200 ms ───────────|
    thread CPU   |██████████████████████████████|██████████████·····███████████|
                  kept                           disturbed: another process had the core; measured again

Where wall time and the thread's CPU time differ by more than 2 % over a window of at least 200 ms, all that was
measured in it is thrown away. The measured thread must never wait for anything. Two things are not seen: whether
others use the memory's bandwidth, and whether the machine is a virtual one whose host is busy.
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
PAUSE_S = 0.5  # between attempts: who waits for quiet makes no noise


@dataclass(frozen=True, slots=True)
class Clocks:
    """Seconds that have passed, seconds that this thread had a core, and how to let some pass without one."""

    wall: Callable[[], float] = time.perf_counter
    cpu: Callable[[], float] = time.thread_time
    sleep: Callable[[float], None] = time.sleep


REAL = Clocks()


@dataclass(frozen=True, slots=True)
class Gathered(Generic[T]):
    """What was measured, None where it never was quiet; and, of each window, the share of time without a core."""

    results: list[T | None]
    lost: list[float]


class Window:
    """A stretch of time and the share of it that the thread went without its core."""

    def __init__(self, clocks: Clocks) -> None:
        self._clocks = clocks
        self._cpu, self._wall = clocks.cpu(), clocks.wall()

    def age(self) -> float:
        """Seconds since it began."""
        return self._clocks.wall() - self._wall

    def fill(self) -> None:
        """Be busy until the window is long enough to be judged."""
        while self.age() < WINDOW_S:
            pass

    def lost(self) -> float:
        """The share of its time without a core."""
        wall = self.age()
        return max(0.0, 1 - (self._clocks.cpu() - self._cpu) / wall)


def wait_until_quiet(patience_s: float, clocks: Clocks = REAL) -> float:
    """Wait for three quiet windows in a row; the seconds that it took."""
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
    """Why nothing was measured."""
    disturbed, worst = sum(share > LIMIT for share in lost), max(lost, default=0)
    return (
        f"the machine is not quiet: in {disturbed} of {len(lost)} windows of {1e3 * WINDOW_S:.0f} ms the measuring "
        f"thread went without its core for more than {LIMIT:.0%} of the time, at worst for {worst:.0%}; it was tried "
        f"again for {patience_s:g} s. Stop what else is running, or wait longer for a quiet moment with --patience"
    )


def gather(
    units: Sequence[Callable[[], T]],
    patience_s: float,
    clocks: Clocks | None = REAL,
) -> Gathered[T]:
    """The results of all units, in order, each measured in a quiet window.

    Disturbed windows are measured again while patience lasts: so many seconds in all. Without `clocks` there is no
    gate: for work on other devices than the CPU.
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
