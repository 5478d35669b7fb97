"""The keys of all points of an experiment, many at a time: the same as `points.key` gives, at a fraction of the time.

A key is a hash of text such as [7,{"cluster":"flat(2)","planner":"uniform"}]. Between the points of a grid few
fields differ, and each takes few values, by the places of the axes that it speaks of:

    gpus  rate  microbatches        cluster: gpus, rate        microbatches: itself       all else: the same
    0     0     0                   made and kept              made and kept              made once
    0     0     1                   found                      made and kept              found
    1     0     1                   made and kept              found                      found
"""

import json
import math
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from pipesim.base.errors import PipesimError, shown, within
from pipesim.studies.simulation import idle_fields
from pipesim.studies.sweep.grid import Grid, remembered
from pipesim.studies.sweep.inputs import NAMED, Inputs
from pipesim.studies.sweep.points import DEFAULTS_0_1, FIELDS, Maker, hashed, is_default, scheme

_LENGTH = 16  # bytes of a key

Places = tuple[int, ...]


class Keys:
    """Number and key of every point in the order of numbers: 24 bytes each, and no object."""

    def __init__(self) -> None:
        self.numbers = array("q")
        self._keys = bytearray()

    def append(self, number: int, key: bytes) -> None:
        """Add a point of a greater number."""
        self.numbers.append(number)
        self._keys += key

    def __len__(self) -> int:
        return len(self.numbers)

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        yield from zip(self.numbers, self.some(0, len(self.numbers)), strict=True)

    def some(self, start: int, stop: int) -> Iterator[bytes]:
        """The keys from one place in this list to another."""
        for begin in range(_LENGTH * start, _LENGTH * stop, _LENGTH):
            yield bytes(self._keys[begin : begin + _LENGTH])

    def key(self, number: int) -> bytes:
        """The key of a point."""
        index = bisect_left(self.numbers, number)
        return bytes(self._keys[_LENGTH * index : _LENGTH * (index + 1)])

    @property
    def different(self) -> int:
        """How many keys there are that differ."""
        halves = np.frombuffer(bytes(self._keys), np.uint64).reshape(-1, 2)
        ordered = halves[np.lexsort((halves[:, 1], halves[:, 0]))]
        return 1 + int((ordered[1:] != ordered[:-1]).any(axis=1).sum()) if len(ordered) else 0


def keys_of(
    grid: Grid, maker: Maker, bound: Mapping[str, Any], inputs: Inputs, functions: list[str], *, as_0_1: bool = False
) -> Iterator[tuple[int, bytes]]:
    """Number and key of every point of a grid; reads what the points name and was not read yet.

    `as_0_1`: the keys that pipesim 0.1 gave the points.
    """
    parts: list[Callable[[Places], str]] = []
    end = f"}}{''.join(',' + json.dumps(text) for text in functions)}]"
    begin = f"[{','.join(map(json.dumps, scheme(as_0_1=as_0_1)))},{{"
    for number, places in grid.kept(bound):
        parts = parts or _parts(grid, maker, inputs, number, as_0_1=as_0_1)
        text = "".join([part(places) for part in parts])
        yield number, hashed(begin + text[:-1] + end)


def _parts(grid: Grid, maker: Maker, inputs: Inputs, number: int, *, as_0_1: bool) -> list[Callable[[Places], str]]:
    """For each field in the order of their names what it adds to the text, by the places of the axes."""
    with within(_where(grid.values(number))):
        idle = idle_fields(maker.point(grid.values(number)))  # what has no effect at one point has none at the others
    return [
        remembered(grid, maker.names(name), _piece(grid, maker, inputs, name, counts=name not in idle, as_0_1=as_0_1))
        for name in sorted(FIELDS)
        if maker.has(name) or (as_0_1 and name in DEFAULTS_0_1)  # left out, it has another meaning now
    ]


def _piece(
    grid: Grid, maker: Maker, inputs: Inputs, name: str, *, counts: bool, as_0_1: bool
) -> Callable[[Places], str]:
    """What a field adds to the text where the axes are at these places, a comma after it."""
    label, of_files = f"{json.dumps(name)}:", name in NAMED
    values_at = grid.some(maker.names(name))

    def piece(places: Places) -> str:
        try:
            value = maker.field(name, values_at(places))
        except PipesimError as error:  # no `within`, which takes longer than all else here
            error.within(_where(grid.at(places)))
            raise
        content = value
        if of_files:
            inputs.gather(name, value)
            content = inputs.contents.get(f"{name} {value}", value)
        if not counts or is_default(name, value, as_0_1=as_0_1):
            return ""
        return f"{label}{_json(content)},"

    return piece


def _json(value: Any) -> str:  # noqa: ANN401 - of any field
    """As `json.dumps`, and numbers at a fraction of the time."""
    is_plain = type(value) is int or (type(value) is float and math.isfinite(value))
    return repr(value) if is_plain else json.dumps(value)


def _where(values: Mapping[str, Any]) -> str:
    return "the point " + ", ".join(f"{name} = {shown(value)}" for name, value in values.items())
