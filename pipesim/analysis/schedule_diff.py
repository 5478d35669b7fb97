"""Two schedules side by side: where each rank's order begins to differ, and which of its actions are elsewhere."""

from dataclasses import dataclass
from itertools import zip_longest

from pipesim.core.schedule import Schedule


@dataclass(frozen=True, slots=True)
class RankDifference:
    """A rank of two schedules; without a first difference its rows are the same."""

    rank: int
    first: int | None
    """The position of the first cell that differs."""
    here: str
    """What the first schedule has there; empty past its end."""
    there: str
    moved: int
    """Cells of both that are at other positions."""
    only_here: tuple[str, ...]
    only_there: tuple[str, ...]


def differences(here: Schedule, there: Schedule) -> list[RankDifference]:
    """What differs on each rank, also on those that only one of the schedules has."""
    none: list[str] = []
    rows = zip_longest(here.cells, there.cells, fillvalue=none)
    return [_of_rank(rank, one, other) for rank, (one, other) in enumerate(rows)]


def _of_rank(rank: int, one: list[str], other: list[str]) -> RankDifference:
    pairs = list(zip_longest(one, other, fillvalue=""))
    first = next((at for at, (a, b) in enumerate(pairs) if a != b), None)
    a, b = ("", "") if first is None else pairs[first]
    place = {cell: at for at, cell in enumerate(other)}
    return RankDifference(
        rank=rank,
        first=first,
        here=a,
        there=b,
        moved=sum(place.get(cell, at) != at for at, cell in enumerate(one)),
        only_here=tuple(cell for cell in one if cell not in place),
        only_there=tuple(cell for cell in other if cell not in set(one)),
    )
