"""What each size of message took, in rounds that lie apart in time, and which sizes can be relied on.

    round 0    4 B  8 B  ...  64 MiB       every size once per round, a few samples each
    round 1    4 B  8 B  ...  64 MiB       of a round the lower quartile counts, of the rounds their median:
    round 2    4 B  8 B  ...  64 MiB       what disturbs makes longer, and disturbs one stretch of time, so one round

Left out of a table, by name, are sizes of which most rounds differ from one another, and those that took clearly longer
than larger messages. A table that lacks too many, or one of the largest, is refused.
"""

from dataclasses import dataclass
from statistics import median

import numpy as np
from numpy.typing import NDArray

from pipesim.base.arrays import Floats
from pipesim.base.errors import RefusedError
from pipesim.base.tables import Table
from pipesim.recorders.noise import mad

# Rounds repeat if half of them are no farther than this part from their median.
APART = 0.2
# A larger message may take this part less than a smaller one: so much is noise.
FALL = 0.2
# Of all sizes this part may be left out, but none that is at least so many times smaller than the largest.
LEFT_OUT = 0.25
LARGE = 16
QUARTILE = 0.25


@dataclass(frozen=True, slots=True)
class MessageTime:
    """What one size of message took: the median of its rounds, each round's quartile, and the noise of all samples."""

    bytes: int
    seconds: float
    mad_s: float
    samples: int
    rounds: tuple[float, ...]

    @property
    def repeats(self) -> bool:
        """Whether the rounds agree; of a single round it cannot be told."""
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
    """A point of each size, over all pairs of processes."""
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
            f"{name} links: {len(left_out)} of {len(recorded)} sizes cannot be relied on: "
            f"{'; '.join(one.why for one in left_out)}. At most {LEFT_OUT:.0%} of the sizes, and none from {least:.0f} "
            "bytes on, may be left out of a table. Stop what else is running, give every process a core of its "
            "own, and record again, perhaps with more --samples and --rounds"
        )
    return kept, left_out


def _why(point: MessageTime, kept: list[MessageTime]) -> str:
    if not point.repeats:
        return f"{point} does not repeat: half of the rounds within {APART:.0%} of their median was expected"
    faster = next((one for one in kept if one.bytes > point.bytes and _falls(point, one)), None)
    if faster:
        return f"{point} took longer than {faster}"
    slower = max((one for one in kept if one.bytes < point.bytes), key=lambda one: one.seconds)
    return f"{point} took less than {slower}"


def _falls(smaller: MessageTime, larger: MessageTime) -> bool:
    return larger.seconds < (1 - FALL) * smaller.seconds


def longest_rising(recorded: list[MessageTime]) -> list[MessageTime]:
    """As many points as can be kept so that none takes clearly less than the one before; of equals the latest ones."""
    best: list[list[MessageTime]] = []
    for point in recorded:
        before = [chain for chain in best if not _falls(chain[-1], point)]
        best.append([*max(before, key=len, default=[]), point])
    return max(reversed(best), key=len, default=[])


def rising(values: Floats) -> Floats:
    """The nearest values that never fall: where they would, neighbours are pooled into their median.

    The sum of the distances is least, not that of their squares: one disturbed point does not lift its neighbours.
    """
    pools: list[list[float]] = []
    for value in values.tolist():
        pools.append([value])
        while len(pools) > 1 and median(pools[-2]) > median(pools[-1]):
            pools[-2:] = [pools[-2] + pools[-1]]
    return np.repeat([median(pool) for pool in pools], [len(pool) for pool in pools])
