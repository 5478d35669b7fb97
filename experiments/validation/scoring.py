"""How far simulated times are from measured ones: errors, order, and what counts as a tie.

error           simulated / measured - 1
tie             measured a and b with |a - b| <= a * tolerance of a + b * tolerance of b
rank of a row   half for each row that is tied with it, one for each that is smaller: the usual rank, less one half,
                where only equal values are ties
Spearman        correlation of ranks; pairs tied in the measurement are tied in the simulation too, so that their
                order there costs nothing

Nothing here knows of pipesim.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Errors:
    """Of absolute errors their mean, median, 90th percentile and the worst; `bias` is the mean with signs."""

    rows: int
    mean: float
    median: float
    p90: float
    worst: float
    bias: float


def errors(found: Iterable[float]) -> Errors | None:
    """The statistics of errors; None of none."""
    signed = np.array(list(found), float)
    if not len(signed):
        return None
    size = np.abs(signed)
    quantiles = (float(np.quantile(size, part)) for part in (0.5, 0.9, 1.0))
    return Errors(len(signed), float(size.mean()), *quantiles, bias=float(signed.mean()))


def order(values: Sequence[float], tolerances: Sequence[float] | None = None) -> NDArray[np.int64]:
    """[row, other]: 1 where the row is larger than the other, -1 where it is smaller, 0 where they are tied."""
    column = np.array(values, float)
    slack = column * (0.0 if tolerances is None else np.array(tolerances, float))
    apart = column[:, None] - column[None, :]
    return (np.sign(apart) * (np.abs(apart) > slack[:, None] + slack[None, :])).astype(np.int64)


def spearman(measured: Sequence[float], simulated: Sequence[float], tolerances: Sequence[float]) -> float | None:
    """The rank correlation; None where all rows are tied."""
    ours, theirs = _orders(measured, simulated, tolerances)
    first, second = theirs.sum(axis=1).astype(float), ours.sum(axis=1).astype(float)
    if not np.ptp(first):
        return None
    if not np.ptp(second):
        return 0.0
    return float(np.corrcoef(first, second)[0, 1])


def ordered_pairs(
    measured: Sequence[float], simulated: Sequence[float], tolerances: Sequence[float]
) -> tuple[int, int]:
    """Pairs that are simulated in the measured order, and all pairs that are not ties."""
    ours, theirs = _orders(measured, simulated, tolerances)
    above = np.triu(theirs != 0, 1)
    return int((above & (ours == theirs)).sum()), int(above.sum())


def _orders(
    measured: Sequence[float], simulated: Sequence[float], tolerances: Sequence[float]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    theirs = order(measured, tolerances)
    return np.where(theirs == 0, 0, order(simulated)), theirs
