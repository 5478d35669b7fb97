"""What rounding to whole nanoseconds can take from a simulated time: docs/certificate.md, section 11."""

from typing import NamedTuple

NS = 1e-9  # seconds
MILLIONTH = 1e-6  # of a nanosecond, by which rounding up may fall short: units.ns_up


class LeastPart(NamedTuple):
    """The least parts of their times that tasks take."""

    slow: float = 1.0  # of all tasks of a device, rounded up
    paired: float = 1.0  # of a forward and a backward done as one, rounded to the nearest before that

    @property
    def product(self) -> float:
        """Both together."""
        return self.slow * self.paired


UNSCALED = LeastPart()


class Allowance(NamedTuple):
    """Nanoseconds that are subtracted from a bound, and how many rounding can take where it is compared."""

    subtracted: float
    lost: float  # half of one for each rounded duration, and one for floating point
    pairs: float  # that are rounded once more where they take less than their time
    tasks: float  # that are rounded up where a device is faster

    def scaled(self, bound: float, part: LeastPart) -> float:
        """A bound, without what is subtracted, where tasks take only a part of their times (R5)."""
        if part == UNSCALED:
            return bound
        again = self.pairs / 2 if part.paired < 1 else 0.0
        still = part.slow * (part.paired * (self.lost - self.subtracted) + again)
        still += self.tasks * MILLIONTH if part.slow < 1 else 0.0
        return max(0.0, part.product * bound - max(0.0, still) * NS)


def of_plans(microbatches: int, devices: int) -> Allowance:
    """For `plan_bound` (R2): chains of 2 M actions of one replica, and of 2 V others."""
    subtracted, chain = 2 * (2 * microbatches + 4 * devices), microbatches + 2 * devices
    return Allowance(subtracted, chain + 2, chain, 2 * chain)


def of_work(microbatches: int, devices: int, stages: int) -> Allowance:
    """For `total_work` (R3): three actions of each microbatch for each of so many stages on a device."""
    forwards = stages * microbatches
    lost = 1.5 * forwards + 1
    return Allowance(max(2 * microbatches + 4 * devices, lost), lost, forwards, 3 * forwards)


def of_schedules(passing: float, stages: int, chunks: int) -> Allowance:
    """For `schedule_bound` (R4), whose times are rounded: both actions of each microbatch, and of all other stages."""
    others = 2 * (stages - 1)
    return Allowance(0.0, 0.0, min(chunks, 2) * passing + others, 2 * passing + others)
