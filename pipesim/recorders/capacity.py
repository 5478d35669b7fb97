"""The capacity that messages share on a link, and whether the two directions share it.

seconds                                   capacity = bytes / seconds of the slope at the large end: the cost of each
   │                     .·'              further byte. A small message can be faster (it fits into a buffer) or
   │               .·''                   slower (it is mostly delay); neither is a property of shared links.
   │   . . .·''
   └───────────|─────────────| bytes      half duplex if both directions at once take HALF_FROM times as long as one
        largest / 16      largest         or longer, at the large end; ideal are 2, and 1 for full duplex
"""

from dataclasses import dataclass
from itertools import combinations
from statistics import median
from typing import Literal

from pipesim.base.errors import RefusedError
from pipesim.recorders.message_times import LARGE, MessageTime

HALF_FROM = 1.5
MARGIN = 0.15  # a ratio nearer to HALF_FROM is not clear
# The largest message must spend at least this part of its time on its bytes.
LEAST_BYTES = 0.5


@dataclass(frozen=True, slots=True)
class Duplex:
    """The ratio of both directions at once to one alone, for each round; empty if it was not timed."""

    rounds: tuple[float, ...]

    @property
    def ratio(self) -> float:
        """The median of the rounds."""
        return median(self.rounds)

    @property
    def kind(self) -> Literal["full", "half"]:
        """Whether two directions share the capacity; "full" if that is unknown."""
        return "half" if self.rounds and self.ratio >= HALF_FROM else "full"

    @property
    def is_clear(self) -> bool:
        """Whether all rounds agree, and the ratio is not near the threshold."""
        sides = {ratio >= HALF_FROM for ratio in self.rounds}
        return len(sides) == 1 and abs(self.ratio - HALF_FROM) >= MARGIN


def large(recorded: list[MessageTime]) -> list[MessageTime]:
    """The points of at least a sixteenth of the largest size; at least two."""
    found = [point for point in recorded if point.bytes >= recorded[-1].bytes / LARGE]
    return found if len(found) > 1 else recorded[-2:]


def capacity(name: str, recorded: list[MessageTime]) -> float:
    """Bytes/s by the median of all slopes between two points of the large end (Theil and Sen)."""
    ends = large(recorded)
    slope = median((b.seconds - a.seconds) / (b.bytes - a.bytes) for a, b in combinations(ends, 2))
    last = ends[-1]
    if slope * last.bytes < LEAST_BYTES * last.seconds:
        raise RefusedError(
            f"{name} links: the bandwidth is not clear: the largest size, {last}, takes hardly longer than {ends[0]}; "
            f"at least {LEAST_BYTES:.0%} of the largest one's time for its bytes was expected. Record larger ones with "
            "--largest"
        )
    return 1 / slope


def duplex(one_way: list[MessageTime], both_ways: list[MessageTime]) -> Duplex:
    """Compare, round by round, the times of the sizes that were sent both one way and both ways at once."""
    alone = {point.bytes: point for point in one_way}
    pairs = [
        (alone[both.bytes].rounds, both.rounds)
        for both in both_ways
        if both.bytes in alone and len(alone[both.bytes].rounds) == len(both.rounds)
    ]
    counts = range(min((len(both) for _, both in pairs), default=0))
    return Duplex(tuple(median(both[n] / one[n] for one, both in pairs) for n in counts))
