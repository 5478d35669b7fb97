"""What varies in a sweep: axes, their products and zips, and which points of them are left out.

[grid]
gpus = { from = 8, to = 64, factor = 2 }        8 16 32 64        also step = 8, count = 4, or a list
planner = ["spp", "balanced"]                   every axis with every other: a product
where = "gpus <= 32 or planner == 'spp'"        one filter, or a list of them

[[grid.zip]]                                    axes that vary together; several zips make a product
size = ["0.35B", "1.3B"]
hidden = [1024, 2048]

gpus      planner     size, hidden      a point's number counts in mixed radix, the last axis fastest:
8         spp         0.35B, 1024       0
8         spp         1.3B,  2048       1
8         balanced    0.35B, 1024       2   ...
"""

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_FLOOR, Context, Decimal, localcontext
from operator import itemgetter
from typing import Any, TypeVar

import numpy as np

from pipesim.base import formulas
from pipesim.base.arrays import Ints
from pipesim.base.errors import InputError, shown, within
from pipesim.base.formulas import Formula

Scalar = int | float | str | bool
Axes = Mapping[str, tuple[Scalar, ...]]
Made = TypeVar("Made")

MOST_POINTS = 10**8  # of a product, before filters
_MOST_VALUES = 10**6  # of a range
_MOST_KEPT = 10**5  # combinations of places for which something is kept
_RESERVED = frozenset({"zip", "where"})
_DIGITS = Context(prec=15)  # of what is not exact: values of a range by count


@dataclass(frozen=True, slots=True)
class Grid:
    """Groups of axes: within a group they vary together, the groups make a product. Valid if it exists."""

    groups: tuple[dict[str, tuple[Scalar, ...]], ...]
    where: tuple[Formula, ...] = ()
    shape: tuple[int, ...] = field(init=False, repr=False, compare=False)
    """How many values each group has."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", tuple(len(next(iter(group.values()))) for group in self.groups))
        if self.size > MOST_POINTS:
            raise InputError(f"{self.size:,} points found; at most {MOST_POINTS:,} were expected")

    @property
    def axes(self) -> dict[str, tuple[Scalar, ...]]:
        """All axes with their values, in order."""
        return {name: values for group in self.groups for name, values in group.items()}

    @property
    def size(self) -> int:
        """How many points there are before filters."""
        return math.prod(self.shape)

    def values(self, number: int) -> dict[str, Scalar]:
        """The values of the axes at a point."""
        return self.at(self.places(number))

    def at(self, places: tuple[int, ...]) -> dict[str, Scalar]:
        """The values of the axes at these places in the groups."""
        found: dict[str, Scalar] = {}
        for group, place in zip(self.groups, places, strict=True):
            found |= {name: values[place] for name, values in group.items()}
        return found

    def some(self, names: frozenset[str]) -> Callable[[tuple[int, ...]], dict[str, Scalar]]:
        """As `at`, of those groups only in which an axis has one of these names."""
        groups = [(index, group.items()) for index, group in enumerate(self.groups) if names & group.keys()]
        return lambda places: {name: values[places[index]] for index, group in groups for name, values in group}

    def columns(self, numbers: Ints, names: Sequence[str]) -> list[list[Scalar | None]]:
        """The values of these axes at many points, axis by axis; None for an axis that this grid does not have."""
        found: dict[str, list[Scalar | None]] = {}
        places = np.unravel_index(numbers, self.shape) if self.shape else ()
        for group, place in zip(self.groups, places, strict=True):
            indices = place.tolist()
            found |= {name: [values[index] for index in indices] for name, values in group.items()}
        return [found.get(name) or [None] * len(numbers) for name in names]

    def places(self, number: int) -> tuple[int, ...]:
        """The index of a point in each group."""
        found = []
        for length in reversed(self.shape):
            number, place = divmod(number, length)
            found.append(place)
        return tuple(reversed(found))

    def kept(self, bound: Mapping[str, Any]) -> Iterator[tuple[int, tuple[int, ...]]]:
        """Number and places of every point that the filters keep; filters also see what is `bound`."""
        filters = [remembered(self, formula.names, self._kept_by(formula, bound)) for formula in self.where]
        for number, places in enumerate(itertools.product(*map(range, self.shape))):
            if all(keeps(places) for keeps in filters):
                yield number, places

    def _kept_by(self, formula: Formula, bound: Mapping[str, Any]) -> Callable[[tuple[int, ...]], bool]:
        return lambda places: bool(formula.value({**bound, **self.at(places)}))


def remembered(
    grid: Grid, names: frozenset[str], make: Callable[[tuple[int, ...]], Made]
) -> Callable[[tuple[int, ...]], Made]:
    """A function of places that depends on these axes only: what it made is kept, where that is not too much."""
    indices = [index for index, group in enumerate(grid.groups) if names & group.keys()]
    if math.prod(grid.shape[index] for index in indices) > _MOST_KEPT:
        return make
    known: dict[Any, Made] = {}
    pick: Callable[[Any], Any] = itemgetter(*indices) if indices else lambda _: None

    def found(places: tuple[int, ...]) -> Made:
        place = pick(places)
        if place not in known:
            known[place] = make(places)
        return known[place]

    return found


def read(data: Any, known: Sequence[str]) -> Grid:  # noqa: ANN401 - what a file holds is anything
    """The grid in a `[grid]` table; filters may speak of its axes and of `known` names."""
    if not isinstance(data, dict):
        raise InputError(f"{shown(data)} found; a table of axes was expected")
    groups = [{name: axis(value, name)} for name, value in data.items() if name not in _RESERVED]
    zips = data.get("zip", [])
    for index, group in enumerate(zips if isinstance(zips, list) else [zips]):
        with within(f"zip[{index}]"):
            groups.append(_zipped(group))
    names = [name for group in groups for name in group]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"duplicate axis {name}")
    return Grid(tuple(groups), filters(data.get("where", []), [*names, *known]))


def _zipped(data: Any) -> dict[str, tuple[Scalar, ...]]:  # noqa: ANN401 - as `read`
    if not isinstance(data, dict) or not data:
        raise InputError(f"{shown(data)} found; a table of axes that vary together was expected")
    group = {name: axis(value, name, repeats=True) for name, value in data.items()}
    lengths = {name: len(values) for name, values in group.items()}
    if len(set(lengths.values())) > 1:
        found = ", ".join(f"{name} has {length}" for name, length in lengths.items())
        raise InputError(f"{found}; axes that vary together need as many values each")
    first: dict[tuple[tuple[type, Scalar], ...], int] = {}
    for index, row in enumerate(zip(*group.values(), strict=True)):
        if first.setdefault(tuple((type(value), value) for value in row), index) != index:
            raise InputError(f"[{index}]: duplicate {shown(list(row))}")
    return group


def filters(data: Any, names: Sequence[str]) -> tuple[Formula, ...]:  # noqa: ANN401 - as `read`
    """One formula or a list of them, which may speak of these names."""
    texts = data if isinstance(data, list) else [data]
    found = []
    for index, text in enumerate(texts):
        with within(f"where[{index}]" if isinstance(data, list) else "where"):
            formula = formulas.parse(text)
            unknown = sorted(formula.names - set(names))
            if unknown:
                known = ", ".join(dict.fromkeys(names)) or "none"
                raise InputError(f"{text!r}: nothing is called {unknown[0]!r}; known are {known}")
            found.append(formula)
    return tuple(found)


def axis(data: Any, name: str, *, repeats: bool = False) -> tuple[Scalar, ...]:  # noqa: ANN401 - as `read`
    """The values of an axis, a list or a range; beside others that vary with it a value may repeat."""
    if not name.isidentifier() or not name.isascii():
        raise InputError(f"{shown(name)}: an axis needs a name of letters, digits and underscores")
    with within(name):
        values = _range(data) if isinstance(data, dict) else data
        if not isinstance(values, list | tuple) or not values:
            raise InputError(
                f"{shown(data)} found; a list of values, or a range such as {{ from = 4, to = 64, factor = 2 }}, "
                "was expected"
            )
        for index, value in enumerate(values):
            _check_scalar(value, index)
        if not repeats:
            _check_different(values)
        return tuple(values)


def _check_different(values: Sequence[Scalar]) -> None:
    """Refuse a value that repeats; 1, 1.0 and true are different ones."""
    if len(set(map(type, values))) == 1 and len(set(values)) == len(values):
        return  # most axes, at a fraction of the time and memory
    seen = set()
    for index, value in enumerate(values):
        if (type(value), value) in seen:
            raise InputError(f"[{index}]: duplicate {shown(value)}")
        seen.add((type(value), value))


def _check_scalar(value: Any, index: int) -> None:  # noqa: ANN401 - as `read`
    right = isinstance(value, bool | str | int | float) and not (isinstance(value, float) and not math.isfinite(value))
    if not right or (isinstance(value, int) and value.bit_length() > 63):
        raise InputError(f"[{index}]: {shown(value)} found; a number, text, or true or false was expected")


# --- ranges ----------------------------------------------------------------------------------------------------------

_ENDS = ("from", "to")
_WAYS = ("step", "factor", "count")


def _range(data: Mapping[str, Any]) -> list[Scalar]:
    """The values from `from` to `to`, in decimal: 0.1, 0.2, 0.3, and no 0.30000000000000004."""
    for key in data:
        if key not in {*_ENDS, *_WAYS, "scale"}:
            raise InputError(f"{key}: unknown key; known are {', '.join([*_ENDS, *_WAYS, 'scale'])}")
    ways = [key for key in _WAYS if key in data]
    if len(ways) != 1 or any(key not in data for key in _ENDS):
        raise InputError(f"{shown(dict(data))} found; from, to, and one of step, factor and count were expected")
    if "scale" in data and (ways != ["count"] or data["scale"] not in {"linear", "log"}):
        raise InputError("scale: goes with count, and is 'linear' or 'log'")
    start, stop, by = (_decimal(data[key], key) for key in (*_ENDS, *ways))
    whole = all(isinstance(data[key], int) for key in ("from", *ways) if key != "count") and ways != ["count"]
    with localcontext(Context(prec=40)):
        made = {"step": _by_step, "factor": _by_factor}[ways[0]](start, stop, by) if ways != ["count"] else None
        values = _by_count(start, stop, by, data.get("scale", "linear")) if made is None else made
        return [int(v) if whole else float(v) for v in values]


def _decimal(value: Any, key: str) -> Decimal:  # noqa: ANN401 - as `read`
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise InputError(f"{key}: {shown(value)} found; a number was expected")
    return Decimal(repr(value))


def _by_step(start: Decimal, stop: Decimal, by: Decimal) -> Iterable[Decimal]:
    if by == 0 or (stop - start) / by < 0:
        raise InputError(f"step: {by} found; from {start} that never comes to {stop}")
    count = int(((stop - start) / by).to_integral_value(ROUND_FLOOR)) + 1
    return (start + i * by for i in range(_checked(count)))


def _by_factor(start: Decimal, stop: Decimal, by: Decimal) -> Iterable[Decimal]:
    if not (start > 0 and stop > 0 and by > 0 and by != 1) or (stop - start) * (by - 1) < 0:
        raise InputError(f"factor: {by} found; from {start} that never comes to {stop}")
    values = [start]
    while (values[-1] * by - stop) * (by - 1) <= 0:
        values.append(values[-1] * by)
        _checked(len(values))
    return values


def _by_count(start: Decimal, stop: Decimal, by: Decimal, scale: str) -> Iterable[Decimal]:
    count = _checked(int(by)) if by == int(by) and by >= 2 else 0
    if not count or (scale == "log" and not (start > 0 and stop > 0)):
        what = "of at least 2 was expected" if not count else "on a log scale needs ends above 0"
        raise InputError(f"count: {by} found; a whole number {what}")
    inner = range(1, count - 1)
    if scale == "linear":
        values = (start + (stop - start) * i / (count - 1) for i in inner)
    else:
        values = ((start.ln() + (stop.ln() - start.ln()) * i / (count - 1)).exp() for i in inner)
    return itertools.chain([start], map(_DIGITS.plus, values), [stop])


def _checked(count: int) -> int:
    if count > _MOST_VALUES:
        raise InputError(f"a range of {count:,} or more values found; at most {_MOST_VALUES:,} were expected")
    return count
