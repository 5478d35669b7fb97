"""How far simulated times are from measured ones: errors, order, and what counts as a tie.

error           simulated / measured - 1
tie             measured a and b with |a - b| <= a * tolerance of a + b * tolerance of b
rank of a row   half for each row that is tied with it, one for each that is smaller: the usual rank, less one half,
                where only equal values are ties
Spearman        correlation of ranks; pairs tied in the measurement are tied in the simulation too, so that their
                order there costs nothing
regret          of a choice between configurations, how much longer the one that is simulated as the fastest takes than
                the fastest; of several that are simulated alike, the slowest counts
"""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from pipesim.base.arrays import Ints


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
    median, p90, worst = (float(np.quantile(size, part)) for part in (0.5, 0.9, 1.0))
    return Errors(len(signed), float(size.mean()), median, p90, worst, bias=float(signed.mean()))


def order(values: Sequence[float], tolerances: Sequence[float] | None = None) -> Ints:
    """[row, other]: 1 where the row is larger than the other, -1 where it is smaller, 0 where they are tied."""
    column = np.array(values, float)
    slack = column * (0.0 if tolerances is None else np.array(tolerances, float))
    apart = column[:, None] - column[None, :]
    return np.asarray(np.sign(apart) * (np.abs(apart) > slack[:, None] + slack[None, :]), np.int64)


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


def _orders(measured: Sequence[float], simulated: Sequence[float], tolerances: Sequence[float]) -> tuple[Ints, Ints]:
    theirs = order(measured, tolerances)
    return np.where(theirs == 0, 0, order(simulated)), theirs


def regrets(choices: Sequence[Hashable], measured: Sequence[float], simulated: Sequence[float]) -> list[float]:
    """Of every choice between rows that are simulated differently, measured chosen / measured best - 1."""
    members: dict[Hashable, list[int]] = {}
    for row, choice in enumerate(choices):
        members.setdefault(choice, []).append(row)
    found = []
    for rows in members.values():
        least = min(simulated[row] for row in rows)
        if any(simulated[row] > least for row in rows):
            chosen = max(measured[row] for row in rows if simulated[row] == least)
            found.append(chosen / min(measured[row] for row in rows) - 1)
    return found
