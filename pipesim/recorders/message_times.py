"""The times of each message size, in rounds at different times, and which sizes are reliable.

    round 0    4 B  8 B  ...  64 MiB       every size once per round, a few samples each
    round 1    4 B  8 B  ...  64 MiB       the time is the median over rounds of the lower quartile of a round:
    round 2    4 B  8 B  ...  64 MiB       disturbances only lengthen times, and last for a part of the rounds

Sizes whose rounds differ, and those that took clearly longer than larger messages, are left out of a table, and listed.
A table without too many sizes, or without one of the largest, is refused.
"""

from dataclasses import dataclass
from statistics import median

import numpy as np
from numpy.typing import NDArray

from pipesim.base.arrays import Floats
from pipesim.base.errors import RefusedError
from pipesim.base.tables import Table
from pipesim.recorders.noise import mad

# Rounds agree if half of them are within this part of their median.
APART = 0.2
# A larger message can take less than a smaller one by this part, as noise.
FALL = 0.2
# At most this part of the sizes can be left out, and none that is larger than the largest / LARGE.
LEFT_OUT = 0.25
LARGE = 16
QUARTILE = 0.25


@dataclass(frozen=True, slots=True)
class MessageTime:
    """The time of one message size: the median of its rounds, each round's quartile, and the noise of all samples."""

    bytes: int
    seconds: float
    mad_s: float
    samples: int
    rounds: tuple[float, ...]

    @property
    def repeats(self) -> bool:
        """Whether the rounds agree; a single round always does."""
        distances = [abs(seconds - self.seconds) for seconds in self.rounds]
        return median(distances) <= APART * self.seconds

    def __str__(self) -> str:
        times = ", ".join(f"{1e3 * seconds:.4g}" for seconds in self.rounds)
        return f"{self.bytes} bytes ({times} ms in {len(self.rounds)} rounds)"


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A size that is not in the table, and why."""

    bytes: int
    why: str


def points(table: Table, rows: NDArray[np.bool_]) -> list[MessageTime]:
    """A point for each size, over all pairs of processes."""
    sizes, seconds, rounds = (table[name][rows] for name in ("bytes", "seconds", "round"))
    found = []
    for size in np.unique(sizes).tolist():
        taken, when = seconds[sizes == size], rounds[sizes == size]
        of_rounds = tuple(float(np.quantile(taken[when == number], QUARTILE)) for number in np.unique(when))
        found.append(MessageTime(size, median(of_rounds), float(mad(taken)), len(taken), of_rounds))
    return found


def reliable(name: str, recorded: list[MessageTime]) -> tuple[list[MessageTime], tuple[LeftOut, ...]]:
    """The points for a table, and those that are left out of it; refused if these are too many or among the largest."""
    steady = [point for point in recorded if point.repeats]
    kept = longest_rising(steady)
    left_out = tuple(LeftOut(point.bytes, _why(point, kept)) for point in recorded if point not in kept)
    least = recorded[-1].bytes / LARGE
    if len(left_out) > max(1, LEFT_OUT * len(recorded)) or any(one.bytes >= least for one in left_out):
        raise RefusedError(
            f"{name} links: {len(left_out)} of {len(recorded)} sizes are not reliable: "
            f"{'; '.join(one.why for one in left_out)}. At most {LEFT_OUT:.0%} of the sizes, and none from {least:.0f} "
            "bytes on, can be left out of a table. Stop other processes, give every process its own core, and "
            "record again, perhaps with more --samples and --rounds"
        )
    return kept, left_out


def _why(point: MessageTime, kept: list[MessageTime]) -> str:
    if not point.repeats:
        return f"{point} is not repeatable: half of the rounds within {APART:.0%} of their median was expected"
    faster = next((one for one in kept if one.bytes > point.bytes and _falls(point, one)), None)
    if faster:
        return f"{point} took longer than {faster}"
    slower = max((one for one in kept if one.bytes < point.bytes), key=lambda one: one.seconds)
    return f"{point} took less than {slower}"


def _falls(smaller: MessageTime, larger: MessageTime) -> bool:
    return larger.seconds < (1 - FALL) * smaller.seconds


def longest_rising(recorded: list[MessageTime]) -> list[MessageTime]:
    """The most points such that none takes clearly less than the one before; of equals the latest."""
    best: list[list[MessageTime]] = []
    for point in recorded:
        before = [chain for chain in best if not _falls(chain[-1], point)]
        best.append([*max(before, key=len, default=[]), point])
    return max(reversed(best), key=len, default=[])


def rising(values: Floats) -> Floats:
    """The nearest non-decreasing values: neighbours that fall are pooled into their median.

    The sum of the distances is least, not that of their squares: one disturbed point does not lift its neighbours.
    """
    pools: list[list[float]] = []
    for value in values.tolist():
        pools.append([value])
        while len(pools) > 1 and median(pools[-2]) > median(pools[-1]):
            pools[-2:] = [pools[-2] + pools[-1]]
    return np.repeat([median(pool) for pool in pools], [len(pool) for pool in pools])
