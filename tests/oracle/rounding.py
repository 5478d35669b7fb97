"""Exact numbers, and the two places where they become whole nanoseconds.

pipesim computes in floating point, the oracle in fractions. Both round, so they agree unless an exact value lies closer
to a rounding boundary than floating point can resolve. Every rounding states a bound on that error; where a boundary is
within the bound, the value is in doubt, and a case with such a value decides nothing about pipesim.
"""

import math
from fractions import Fraction

ULP = Fraction(1, 2**53)  # relative error of one operation on doubles
SUMMED = 64  # operations: more than a sum of recorded seconds goes through before it is rounded
DERIVED = 8  # operations: more than a size, a time of a message or a stretch at one speed goes through
FORGIVEN = Fraction(1, 10**6)  # a completion this little after a whole nanosecond counts as on it
NS_PER_S = 10**9


class Refused(Exception):  # noqa: N818 - it is not a fault of the oracle
    """What is asked for has no meaning: no route, no times for a device, no link to degrade."""


class Rounding:
    """Rounds, and counts the values in doubt."""

    def __init__(self):
        self.doubts = 0

    def nearest(self, value: Fraction) -> int:
        """The nearest whole number, ties to even."""
        error = SUMMED * ULP * abs(value)
        if abs(value - math.floor(value) - Fraction(1, 2)) <= error:
            self.doubts += 1
        return round(value)

    def up(self, value: Fraction, error: Fraction | float | None = None) -> int:
        """The whole number at or after a completion; `error` is what floating point may be off by."""
        error = DERIVED * ULP * abs(value) if error is None else error
        boundary = value - FORGIVEN
        if abs(boundary - round(boundary)) <= error:
            self.doubts += 1
        return math.ceil(boundary)


def seconds(value: Fraction) -> Fraction:
    """Nanoseconds of seconds."""
    return value * NS_PER_S
