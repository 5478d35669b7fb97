"""Spread of recorded times over samples, and whether two recordings differ by more than that.

noise         median, and median absolute deviation (MAD), which are robust to outliers
difference    of two means, with its 95 % confidence interval (Welch: each recording has its own variance); there is no
              interval if a recording has one sample
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from pipesim.base.arrays import Floats, Ints
from pipesim.core.costs import Costs, Phase

CONFIDENCE = 0.95
# With more degrees of freedom, Student's distribution is practically normal.
_MOST_FREEDOM = 1e6


@dataclass(frozen=True, slots=True, eq=False)
class Noise:
    """Per layer: the number of samples, their median, and their median absolute deviation; in seconds."""

    count: Ints
    median: Floats
    mad: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Moments:
    """Per layer: the number of samples, their mean, and their variance (NaN of a single sample)."""

    count: Ints
    mean: Floats
    variance: Floats


@dataclass(frozen=True, slots=True)
class Difference:
    """The difference of two means, b - a, in seconds; interval and p are None if a recording has one sample."""

    change: float
    low: float | None = None
    high: float | None = None
    p: float | None = None


def samples(costs: Costs, phase: Phase, group: int) -> list[Floats]:
    """The recorded seconds of each layer."""
    first, count = costs.first[group].tolist(), costs.count[group].tolist()
    return [costs.samples[phase][a : a + n] for a, n in zip(first, count, strict=True)]


def noise(costs: Costs, phase: Phase, group: int) -> Noise:
    """The noise of each layer."""
    values = samples(costs, phase, group)
    median = np.array([np.median(layer) for layer in values])
    mad = np.array([np.median(np.abs(layer - middle)) for layer, middle in zip(values, median, strict=True)])
    return Noise(np.array([len(layer) for layer in values]), median, mad)


def noise_data(costs: Costs) -> list[dict[str, Any]]:
    """The noise of every layer, for each device kind and microbatch size, as plain lists."""
    found = []
    for group, (kind, size) in enumerate(costs.groups):
        row: dict[str, Any] = {"device_kind": kind, "microbatch_size": size}
        for phase in ("forward", "backward"):
            of_phase = noise(costs, phase, group)
            row |= {
                "samples": of_phase.count.tolist(),
                f"{phase}_median_s": of_phase.median.tolist(),
                f"{phase}_mad_s": of_phase.mad.tolist(),
            }
        found.append(row)
    return found


def moments(costs: Costs, phase: Phase, group: int) -> Moments:
    """The mean and the variance of each layer."""
    values = samples(costs, phase, group)
    return Moments(
        np.array([len(layer) for layer in values]),
        np.array([layer.mean() for layer in values]),
        np.array([layer.var(ddof=1) if len(layer) > 1 else np.nan for layer in values]),
    )


def difference(a: Moments, b: Moments, rows: Sequence[int], other: Sequence[int]) -> Difference:
    """The difference of the sums of these layers in b and in a, if layers vary independently."""
    change = float(b.mean[list(other)].sum() - a.mean[list(rows)].sum())
    count = np.concatenate([a.count[list(rows)], b.count[list(other)]])
    if not len(count) or (count < 2).any():
        return Difference(change)
    part = np.concatenate([a.variance[list(rows)], b.variance[list(other)]]) / count
    error = float(np.sqrt(part.sum()))
    if not error:
        return Difference(change, change, change, 0.0 if change else 1.0)
    # Scaled before squaring, since variances of nanoseconds are very small numbers.
    weight = part / part.sum()
    freedom = float(1 / (weight**2 / (count - 1)).sum())
    student = Student.of(freedom)
    reach = student.quantile(CONFIDENCE) * error
    return Difference(change, change - reach, change + reach, student.tail(abs(change) / error))


@dataclass(frozen=True, slots=True, eq=False)
class Student:
    """Student's distribution: values of t from 0 on, and the probability of the interval from -t to t.

    With t = sqrt(freedom) tan(angle), the density is proportional to cos(angle) ** (freedom - 1) over the angle, from
    -90 to 90 degrees: a bounded interval, over which it is integrated.
    """

    t: Floats
    inside: Floats

    @classmethod
    def of(cls, freedom: float) -> Self:
        """With so many degrees of freedom, at least 1."""
        freedom = min(max(freedom, 1.0), _MOST_FREEDOM)
        widest = min(np.pi / 2, 40 / np.sqrt(freedom))  # the rest is less than the last bit
        angle = np.linspace(0, widest, 8_001)
        density = np.cos(angle) ** (freedom - 1)
        inside = np.concatenate([[0.0], np.cumsum(density[1:] + density[:-1])])
        return cls(np.sqrt(freedom) * np.tan(angle), inside / inside[-1])

    def quantile(self, confidence: float) -> float:
        """The t such that the interval from -t to t has this probability."""
        at = int(np.searchsorted(self.inside, confidence))
        return float(np.interp(confidence, self.inside[at - 1 : at + 1], self.t[at - 1 : at + 1]))

    def tail(self, t: float) -> float:
        """The probability outside of the interval from -t to t."""
        return float(1 - np.interp(t, self.t, self.inside))


def holm(p: Sequence[float | None]) -> list[float | None]:
    """Probabilities adjusted for multiple tests (Holm): with 95 % confidence, all below 5 % are significant."""
    known = sorted((value, index) for index, value in enumerate(p) if value is not None)
    raised: list[float | None] = [None] * len(p)
    least = 0.0
    for rank, (value, index) in enumerate(known):
        least = max(least, min(1.0, value * (len(known) - rank)))
        raised[index] = least
    return raised
