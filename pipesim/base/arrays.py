"""Names of array types, and ragged columns: many short lists of integers stored in two flat arrays.

rows      [[4, 7], [], [1]]
values    [4, 7, 1]
starts    [0, 2, 2, 3]        row i is values[starts[i] : starts[i + 1]]
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


def row_codes(*columns: Ints) -> Ints:
    """A number for each row of columns of numbers from 0 on, in the order of the rows; equal for equal rows."""
    code, most = np.zeros(len(columns[0]), np.int64), 1
    for column in columns:
        size = int(column.max(initial=0)) + 1
        if most > np.iinfo(np.int64).max // size:  # the numbers that occur are fewer
            _, code = np.unique(code, return_inverse=True)
            most = int(code.max(initial=0)) + 1
        code, most = code * size + column, most * size
    return code


@dataclass(frozen=True, slots=True, eq=False)
class Ragged:
    """Many short lists of integers, read by row."""

    starts: Ints
    values: Ints

    @classmethod
    def of(cls, rows: Sequence[Sequence[int]]) -> Self:
        """From a list of lists."""
        lengths = np.fromiter((len(row) for row in rows), np.int64, len(rows))
        values = np.fromiter((value for row in rows for value in row), np.int64, int(lengths.sum()))
        return cls.of_lengths(lengths, values)

    @classmethod
    def of_lengths(cls, lengths: Ints, values: Ints) -> Self:
        """From the length of every row and the concatenated values."""
        return cls(np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)]), values)

    @classmethod
    def of_pairs(cls, rows: int, row: Ints, value: Ints) -> Self:
        """From (row, value) pairs in any order; the values of a row keep their order."""
        order = np.argsort(row, kind="stable")
        return cls.of_lengths(np.bincount(row, minlength=rows).astype(np.int64), value[order])

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, row: int) -> Ints:
        return self.values[self.starts[row] : self.starts[row + 1]]

    def __iter__(self) -> Iterator[Ints]:
        return (self[row] for row in range(len(self)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Ragged):
            return NotImplemented
        return np.array_equal(self.starts, other.starts) and np.array_equal(self.values, other.values)

    __hash__ = None  # type: ignore[assignment]  # arrays are not hashable

    @property
    def lengths(self) -> Ints:
        """The length of each row."""
        return np.diff(self.starts)

    def row_of_value(self) -> Ints:
        """The row of every value."""
        return np.repeat(np.arange(len(self), dtype=np.int64), self.lengths)

    def take(self, rows: Ints) -> "Ragged":
        """These rows, in this order."""
        lengths = self.lengths[rows]
        begin = np.repeat(self.starts[rows] - np.cumsum(lengths) + lengths, lengths)
        return Ragged.of_lengths(lengths, self.values[begin + np.arange(len(begin))])

    def inverse(self, rows: int) -> "Ragged":
        """Value -> rows that contain it: dependencies become dependents."""
        return Ragged.of_pairs(rows, self.values, self.row_of_value())
