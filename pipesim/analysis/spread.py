"""How much recorded times vary from sample to sample, and whether two recordings differ by more than that.

noise         median, and the median distance from it (MAD): what a single outlier does not move
difference    of two means, with the interval that covers the true one 19 times of 20 (Welch: each recording has a
              variance of its own); where a recording has one sample there is no interval
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from pipesim.base.arrays import Floats, Ints
from pipesim.core.costs import Costs, Phase

CONFIDENCE = 0.95
# More degrees of freedom make no difference that one could see.
_MOST_FREEDOM = 1e6


@dataclass(frozen=True, slots=True, eq=False)
class Noise:
    """Per layer: how many samples, their median, and the median of their distances from it; seconds."""

    count: Ints
    median: Floats
    mad: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Moments:
    """Per layer: how many samples, their mean, and their variance (NaN of a single one)."""

    count: Ints
    mean: Floats
    variance: Floats


@dataclass(frozen=True, slots=True)
class Difference:
    """Of two means, b - a, in seconds; interval and p are None where a recording has but one sample."""

    change: float
    low: float | None = None
    high: float | None = None
    p: float | None = None


def samples(costs: Costs, phase: Phase, group: int) -> list[Floats]:
    """The recorded seconds of each layer."""
    first, count = costs.first[group].tolist(), costs.count[group].tolist()
    return [costs.samples[phase][a : a + n] for a, n in zip(first, count, strict=True)]


def noise(costs: Costs, phase: Phase, group: int) -> Noise:
    """How much each layer varies."""
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
    """How much longer all these layers of b take together than those of a, if layers vary independently."""
    change = float(b.mean[list(other)].sum() - a.mean[list(rows)].sum())
    count = np.concatenate([a.count[list(rows)], b.count[list(other)]])
    if not len(count) or (count < 2).any():
        return Difference(change)
    part = np.concatenate([a.variance[list(rows)], b.variance[list(other)]]) / count
    error = float(np.sqrt(part.sum()))
    if not error:
        return Difference(change, change, change, 0.0 if change else 1.0)
    # Scaled before they are squared: variances of nanoseconds are very small numbers.
    weight = part / part.sum()
    freedom = float(1 / (weight**2 / (count - 1)).sum())
    student = Student.of(freedom)
    reach = student.quantile(CONFIDENCE) * error
    return Difference(change, change - reach, change + reach, student.tail(abs(change) / error))


@dataclass(frozen=True, slots=True, eq=False)
class Student:
    """Student's distribution: values of t from 0 on, and how likely it is to lie between them and their negatives.

    With t = sqrt(freedom) tan(angle), its density in t is in proportion to cos(angle) ** (freedom - 1) in the angle,
    from -90 to 90 degrees: a bounded interval, over which it is added up.
    """

    t: Floats
    inside: Floats

    @classmethod
    def of(cls, freedom: float) -> Self:
        """With so many degrees of freedom, at least 1."""
        freedom = min(max(freedom, 1.0), _MOST_FREEDOM)
        widest = min(np.pi / 2, 40 / np.sqrt(freedom))  # beyond lies less than the last bit
        angle = np.linspace(0, widest, 8_001)
        density = np.cos(angle) ** (freedom - 1)
        inside = np.concatenate([[0.0], np.cumsum(density[1:] + density[:-1])])
        return cls(np.sqrt(freedom) * np.tan(angle), inside / inside[-1])

    def quantile(self, confidence: float) -> float:
        """The t between which and its negative it lies with this confidence."""
        at = int(np.searchsorted(self.inside, confidence))
        return float(np.interp(confidence, self.inside[at - 1 : at + 1], self.t[at - 1 : at + 1]))

    def tail(self, t: float) -> float:
        """How likely it is that it lies further from 0 than this."""
        return float(1 - np.interp(t, self.t, self.inside))


def holm(p: Sequence[float | None]) -> list[float | None]:
    """The same probabilities, raised (Holm): all that stay below 5 % are right together 19 times of 20."""
    known = sorted((value, index) for index, value in enumerate(p) if value is not None)
    raised: list[float | None] = [None] * len(p)
    least = 0.0
    for rank, (value, index) in enumerate(known):
        least = max(least, min(1.0, value * (len(known) - rank)))
        raised[index] = least
    return raised
