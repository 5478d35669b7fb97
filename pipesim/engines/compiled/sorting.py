"""Sorting of what is mostly little, and often nearly in order: numba's own sort takes longer to compile than a loop."""

from pipesim.base.arrays import Ints
from pipesim.base.kernels import borrowing


@borrowing
def sort_first(values: Ints, count: int) -> None:
    """Sort the first `count` values, by Shell's method."""
    gap = 1
    while gap < count // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for n in range(gap, count):
            value, at = values[n], n
            while at >= gap and values[at - gap] > value:
                values[at] = values[at - gap]
                at -= gap
            values[at] = value
        gap //= 3
