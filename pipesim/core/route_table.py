"""What routes between devices are like, in columns: each is found once, when it is first asked for."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from pipesim.base.arrays import Bools, Floats, Ints, Ragged

Pairs = list[tuple[int, int]]


class RouteRow(NamedTuple):
    """One route: delay in seconds, bottleneck in bytes/s, whether that gives the time of any message alone, media."""

    delay: float
    bandwidth: float
    is_plain: bool
    media: tuple[int, ...]


class RouteTable:
    """A row for each pair of devices that was asked for; devices by their place in the cluster."""

    def __init__(self, devices: int, find: Callable[[Pairs], Sequence[RouteRow]]) -> None:
        self._devices, self._find = devices, find
        self._codes: Ints = np.zeros(0, np.int64)  # of pairs, in order
        self._row: Ints = np.zeros(0, np.int64)  # of each code
        self.delay: Floats = np.zeros(0)
        self.bandwidth: Floats = np.zeros(0)
        self.is_plain: Bools = np.zeros(0, np.bool_)
        self.media = Ragged.of([])
        self.sorts: dict[tuple[tuple[str, ...], tuple[str, ...]], tuple[int, ...]] = {}
        """Between two groups of devices one pair of each sort of route, where it has been found."""

    def rows(self, source: Ints, target: Ints) -> Ints:
        """The rows of these pairs."""
        codes = source * self._devices + target
        at = np.searchsorted(self._codes, codes)
        known = at < len(self._codes)
        known[known] = self._codes[at[known]] == codes[known]
        if not known.all():
            self._add(np.unique(codes[~known]))
            at = np.searchsorted(self._codes, codes)
        found: Ints = self._row[at]
        return found

    def _add(self, codes: Ints) -> None:
        codes = codes[np.argsort(codes % self._devices, kind="stable")]  # routes to one target are found together
        found = self._find([divmod(code, self._devices) for code in codes.tolist()])
        row = np.arange(len(self.delay), len(self.delay) + len(found))
        self.delay = np.append(self.delay, [one.delay for one in found])
        self.bandwidth = np.append(self.bandwidth, [one.bandwidth for one in found])
        self.is_plain = np.append(self.is_plain, np.array([one.is_plain for one in found], np.bool_))
        media = Ragged.of([one.media for one in found])
        self.media = Ragged(
            np.concatenate([self.media.starts, media.starts[1:] + self.media.starts[-1]]),
            np.concatenate([self.media.values, media.values]),
        )
        every = np.concatenate([self._codes, codes])
        order = np.argsort(every, kind="stable")
        self._codes, self._row = every[order], np.concatenate([self._row, row])[order]
