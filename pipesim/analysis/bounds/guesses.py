"""The greatest T that no plan reaches: guesses from below, each with what the guesses before it have left.

A guess that is reached leaves cells (states and places behind some layers) through which plans may go; all plans that
are faster go through these too, and they are few once T is near the bound. Where places are many, a coarser description
of them is asked first.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from pipesim.analysis.bounds.incoming import Incoming, incoming_of
from pipesim.analysis.bounds.layer_sums import LayerSums
from pipesim.analysis.bounds.moves import Moves
from pipesim.analysis.bounds.reach import reachable
from pipesim.analysis.bounds.tails import Cells, Tails, all_cells, no_tails, tails_of
from pipesim.base.arrays import Ints

TINY = 1e-12  # seconds


class Refinement(NamedTuple):
    """How T is searched: the first step, the precision, and the grain of `reach`; all relative."""

    step: float
    precision: float
    grain: float
    cells: float = np.inf  # for at most so many places behind some layers


# What a coarse grain leaves is little, so that a fine one then takes less time than the coarse one has taken.
COARSE = Refinement(0.01, 4e-3, 2.0)
SEARCHES = (COARSE, Refinement(4e-3, 2e-3, 0.1), Refinement(4e-3, 5e-5, 0.02), Refinement(4e-3, 1e-7, 0.002, 2000))
LONGEST = 0.08  # relative: the longest step up; a T that is far too great takes long to try
MOST_CELLS = 20_000_000  # states behind each layer: more take gigabytes and hours, and no plan is left out then
KEPT = 6  # what so many guesses have left: one of them suits a guess a little above the last one


class Guesses:
    """Guesses for one description of places; `before` is a coarser one."""

    def __init__(self, sums: LayerSums, build: Callable[[], Moves], before: "Guesses | None" = None) -> None:
        self._sums, self._build, self._before = sums, build, before
        self._left = list[tuple[float, Cells]]()  # what guesses that were reached have left, the least last

    @functools.cached_property
    def moves(self) -> Moves:
        """Built when a guess needs them."""
        return self._build()

    @functools.cached_property
    def _tails(self) -> Tails:
        return no_tails(self._sums, self.moves)

    def reaches(self, target: float, grain: float) -> bool:
        """Whether some plan breaks no inequality for T = target."""
        target = max(target, TINY)  # it is divided by
        near = [cells for most, cells in self._left if target <= most]
        if not near and self._before is not None and not self._before.reaches(target, COARSE.grain):
            return False
        if not self._fits:
            return True
        cells = near[-1] if near else self._first(target)
        tails, cells = tails_of(self._sums, self.moves, target, cells=cells, incoming=self._incoming, found=self._tails)
        found = reachable(self._sums, self.moves, self._incoming, tails, cells, target, grain)
        if found:
            self._left = [*[one for one in self._left if one[0] > target][1 - KEPT :], (target, cells)]
        return found

    @functools.cached_property
    def _incoming(self) -> Incoming:
        return incoming_of(self.moves)

    @functools.cached_property
    def _fits(self) -> bool:
        return len(self.moves.first) * len(self._sums.cut) <= MOST_CELLS

    def _first(self, target: float) -> Cells:
        """Those through which plans with T may go by the coarser description."""
        if self._before is not None and (coarser := self._before.left(target)) is not None:
            return projected(coarser, self._before.moves, self.moves, self._sums)
        return all_cells(self._sums, self.moves)

    def left(self, target: float) -> Cells | None:
        """What the last guess has left, which was reached; None where places are too many."""
        return next((cells for most, cells in self._left if most == target), None)

    def least(self, low: float, most: float) -> float:
        """The end of the last interval that no plan reaches, from `low` on; `most` is reached, or infinite.

        First with a coarse grain, and from there on with a fine one, which takes long for a T that is far too great.
        """
        if self._before is not None:
            low = self._before.least(low, most)
        high = low * (1 + COARSE.precision) + TINY
        for refinement in SEARCHES:
            if self._few(refinement.cells):
                low, high = self._between(low, high, most, refinement)
        return low

    def _between(self, low: float, high: float, most: float, refinement: Refinement) -> tuple[float, float]:
        """A T that no plan reaches, and one that is reached, or `most`; `high` is tried first."""
        step = refinement.step
        while high < most and not self.reaches(high, refinement.grain):
            low, high, step = high, high * (1 + step) + TINY, min(2 * step, LONGEST)
        high = min(high, most)
        while high - low > refinement.precision * high:
            middle = (low + high) / 2
            if self.reaches(middle, refinement.grain):
                high = middle
            else:
                low = middle
        return low, high

    def _few(self, cells: float) -> bool:
        """Whether the last guess that was reached has left no more."""
        return cells == np.inf or (bool(self._left) and int(self._left[-1][1].place.sum()) <= cells)


def projected(cells: Cells, coarse: Moves, fine: Moves, sums: LayerSums) -> Cells:
    """The cells of `fine` with as many layers, devices used, and devices of the stage, as one of these of `coarse`."""
    devices = sums.rest.shape[0] - 1
    (places, states), (fine_places, fine_states) = counts_of(coarse, devices), counts_of(fine, devices)
    place = np.zeros((cells.place.shape[0], (devices + 1) ** 2), bool)
    state = np.zeros(((devices + 1) ** 2, cells.state.shape[1]), bool)
    for layer, there in enumerate(cells.place):
        place[layer, places[there]] = True
    for s in np.flatnonzero(states):
        state[states[s]] |= cells.state[s]
    everywhere = all_cells(sums, fine)
    return Cells(place[:, fine_places] & everywhere.place, state[fine_states] & everywhere.state)


def counts_of(moves: Moves, devices: int) -> tuple[Ints, Ints]:
    """[place], [state]: one number for the devices used with the stage, and of the stage; 0 where no stage can be."""
    there = moves.left >= 0
    place = np.where(there, (devices - moves.left) * (devices + 1) + moves.size, 0)
    state = np.zeros(len(moves.first), np.int64)
    state[moves.next_state[there]] = place[there]
    return place, state
