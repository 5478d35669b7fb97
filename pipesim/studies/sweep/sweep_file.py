"""An experiment as a file describes it: what all points have in common, what varies, what is kept, what is drawn.

format = "pipesim.sweep"
version = 1
name = "network"                 # of these results in their file; default: that of this file

[simulate]                       # as `pipesim simulate` takes it; {...} is computed at every point
trace = "bert-large"
cluster = 'servers({nodes}, 4, intra="25GB/s", inter="{rate} Gb/s")'

[grid]
nodes = [1, 2, 4]
rate = { from = 1, to = 100, factor = 10 }
planner = ["balanced", "spp"]
where = "nodes > 1 or rate == 1"

[output]
metrics = ["iteration_time_s", "fits_memory"]

[plot]
time = { kind = "line", x = "rate", y = "iteration_time_s", series = "planner", panels = "nodes", log = "x" }
"""

import hashlib
import json
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from pipesim.base import files, lookup, serialisation
from pipesim.base.errors import InputError, shown, within
from pipesim.core.limits import HostMemory
from pipesim.display.figures import Chart
from pipesim.engines import ENGINES
from pipesim.studies import store
from pipesim.studies.simulation import FIELDS as ALL_FIELDS
from pipesim.studies.simulation import Simulation, check_together
from pipesim.studies.store import Experiment
from pipesim.studies.sweep import grid as grids
from pipesim.studies.sweep import outputs
from pipesim.studies.sweep.functions import check_form, is_own
from pipesim.studies.sweep.grid import Grid, Scalar
from pipesim.studies.sweep.inputs import Inputs
from pipesim.studies.sweep.keys import Keys, keys_of
from pipesim.studies.sweep.points import FIELDS, Maker, check_value
from pipesim.studies.sweep.worker import UNPLANNED

FORMAT, VERSION = "pipesim.sweep", 1
_TABLES = ("simulate", "grid", "output", "plot")
_TOGETHER = 10_000  # points whose values are found together


@dataclass(frozen=True, slots=True)
class Output:
    """Where results go, and which numbers of each point are kept."""

    store: str = ""
    metrics: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Sweep:
    """An experiment, checked. Several grids make one sweep: their points follow each other."""

    name: str
    path: Path
    text: str
    bound: Mapping[str, Any]
    grids: tuple[Grid, ...]
    metrics: tuple[str, ...]
    store: Path
    charts: Mapping[str, Chart] = field(default_factory=dict)
    engine: str | None = None
    host_memory: HostMemory = None
    fold: str = "auto"

    def __repr__(self) -> str:
        over = f" over {', '.join(self.axes)}" if self.axes else ""
        return f"Sweep {self.name} of at most {self.size:,} points{over}; metrics {', '.join(self.metrics)}"

    def _repr_html_(self) -> str:
        from pipesim.display import notebook, text  # noqa: PLC0415 - workers of a sweep show nothing

        axes = text.sweep_axes([(name, values) for grid in self.grids for name, values in grid.axes.items()])
        return notebook.below(repr(self), notebook.records_table(*axes))

    @property
    def axes(self) -> tuple[str, ...]:
        """The names of all axes, in order."""
        return tuple(dict.fromkeys(name for grid in self.grids for name in grid.axes))

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the metrics."""
        return tuple(map(outputs.column, self.metrics))

    def point(self, number: int) -> Simulation:
        """The options of a point."""
        grid, place = self._place(number)
        return self._makers[self.grids.index(grid)].point(grid.values(place))

    @property
    def size(self) -> int:
        """How many points there are before filters."""
        return sum(grid.size for grid in self.grids)

    @cached_property
    def _makers(self) -> tuple[Maker, ...]:
        return tuple(Maker(self.bound, grid.axes) for grid in self.grids)

    def ordered(self, numbers: "array[int]") -> "array[int]":
        """These points, so that those which can share a plan are neighbours."""
        found, first = array("q"), 0
        everything = np.frombuffer(numbers, np.int64) if numbers else np.zeros(0, np.int64)
        for grid in self.grids:
            mine = everything[(everything >= first) & (everything < first + grid.size)]
            places = np.unravel_index(mine - first, grid.shape) if grid.shape else ()
            late = [not set(group) - UNPLANNED.keys() for group in grid.groups]
            early = [place for place, x in zip(places, late, strict=True) if not x]
            # `lexsort` takes the last key first; the number counts in mixed radix, as all places together do.
            found.frombytes(mine[np.lexsort((mine, *reversed(early)))].tobytes())
            first += grid.size
        return found

    def _place(self, number: int) -> tuple[Grid, int]:
        for grid in self.grids:
            if number < grid.size:
                return grid, number
            number -= grid.size
        raise InputError(f"point {number} is beyond the grid")

    def values(self, number: int) -> dict[str, Scalar]:
        """The values of the axes at a point."""
        grid, place = self._place(number)
        return grid.values(place)

    def experiment(self, keys: Iterable[tuple[int, bytes]]) -> Experiment:
        """The record of this sweep in a store: another one if any point or its inputs changed."""
        found = hashlib.sha256(json.dumps([self.text, self.axes, self.columns]).encode())
        for number, digest in keys:
            found.update(b"%d " % number + digest)
        return Experiment(self.name, found.hexdigest(), self.text, self.axes, self.columns)

    def keys(self, inputs: Inputs, *, as_0_1: bool = False) -> Iterator[tuple[int, bytes]]:
        """Number and key of every point, or the key of pipesim 0.1; reads what is not read yet."""
        functions, first = inputs.metrics(self.metrics), 0
        for grid, maker in zip(self.grids, self._makers, strict=True):
            for number, key in keys_of(grid, maker, self.bound, inputs, functions, as_0_1=as_0_1):
                yield first + number, key
            first += grid.size

    def listed(self, keys: Keys) -> Iterator[tuple[int, bytes, tuple[Any, ...]]]:
        """Number, key and values of the axes of points, as a store takes them."""
        first = 0
        for grid in self.grids:
            begin, end = (bisect_left(keys.numbers, number) for number in (first, first + grid.size))
            for start in range(begin, end, _TOGETHER):
                stop = min(start + _TOGETHER, end)
                numbers = keys.numbers[start:stop]
                columns = grid.columns(np.frombuffer(numbers, np.int64) - first, self.axes)
                values = zip(*columns, strict=True) if columns else [()] * len(numbers)
                yield from zip(numbers, keys.some(start, stop), values, strict=True)
            first += grid.size

    def same_grid(self, other: "Sweep") -> bool:
        """Whether another file has the same points and metrics as this one; charts do not count."""
        return self.described() == other.described()

    def described(self) -> str:
        """What determines points and metrics, as text: 1 and 1.0 differ in it."""
        grids = [(grid.groups, [formula.text for formula in grid.where]) for grid in self.grids]
        return repr((sorted(self.bound.items()), grids, self.metrics))


def load(path: Path | str) -> Sweep:
    """Read an experiment; unknown keys are refused with their path.

    >>> experiment = ps.load_sweep("experiment.toml")
    >>> experiment.name
    'experiment'
    """
    path = Path(path)
    text = files.read_text(path)
    with within(str(path)):
        return parse(text, path)


def loaded(sweep: Sweep | Path | str) -> Sweep:
    """An experiment, or the one in a file."""
    return sweep if isinstance(sweep, Sweep) else load(sweep)


def parse(text: str, path: Path) -> Sweep:
    """The experiment in TOML (or JSON) text of the file at `path`."""
    data = serialisation.parse_data(text, path.suffix)
    serialisation.check_header(data, FORMAT, VERSION)
    _check_keys(data)
    bound = _bound(data.get("simulate", {}))
    engine, host_memory, fold = (bound.pop(name, value) for name, value in _OF_ALL_POINTS.items())
    found = _grids(data.get("grid", {}), bound)
    output = serialisation.from_data(Output, data.get("output", {}), "output")
    replays = "iterations" in bound or all("iterations" in grid.axes for grid in found)
    metrics = output.metrics or (*outputs.USUAL, *(outputs.USUAL_OF_REPLAYS if replays else ()))
    with within("output.metrics"):
        outputs.check(metrics, replays=replays)
    for grid in found:
        _check_grid(grid, bound, metrics)
    name = data.get("name", path.stem)
    if not isinstance(name, str) or not name.isprintable() or not name or "/" in name:
        raise InputError(f"name: {shown(name)} found; a name for these results and their figure was expected")
    where = path.parent / output.store if output.store else path.with_suffix(store.SUFFIX)
    charts = _charts(data.get("plot", {}), name, [*bound, *(n for g in found for n in g.axes), *metrics, "error"])
    return Sweep(name, path, text, bound, found, tuple(metrics), where, charts, engine, host_memory, fold)


_OF_ALL_POINTS = {"engine": None, "host_memory": None, "fold": "auto"}  # what results do not depend on


def _check_keys(data: Mapping[str, Any]) -> None:
    known = [*sorted(serialisation.HEADER), "name", *_TABLES]
    for name in data:
        if name not in known:
            raise InputError(f"{shown(name)}: unknown key; {lookup.suggest(name, known)}")


def _bound(data: Any) -> dict[str, Any]:  # noqa: ANN401 - what a file holds is anything
    """The table `[simulate]`."""
    if not isinstance(data, dict):
        raise InputError(f"simulate: {shown(data)} found; a table was expected")
    for name, value in data.items():
        if name == "engine":
            with within("simulate.engine"):
                if is_own(str(value)):
                    check_form(str(value))
                else:
                    lookup.function_named(str(value), ENGINES, "engine")
        elif name not in ALL_FIELDS:
            raise InputError(f"simulate.{name}: unknown key; {lookup.suggest(name, list(ALL_FIELDS))}")
        else:
            with within("simulate"):
                check_value(name, value)
    return dict(data)


def _grids(data: Any, bound: Mapping[str, Any]) -> tuple[Grid, ...]:  # noqa: ANN401 - as `_bound`
    """The table `[grid]`, or several of them."""
    if not isinstance(data, list):
        with within("grid"):
            return (grids.read(data, list(bound)),)
    found = []
    for index, table in enumerate(data):
        with within(f"grid[{index}]"):
            found.append(grids.read(table, list(bound)))
    return tuple(found)


def _check_grid(grid: Grid, bound: Mapping[str, Any], metrics: Sequence[str]) -> None:
    """Refuse axes without effect, values that no option has, and names that something else has."""
    with within("grid"):
        where = " in [simulate], and no axis of [grid] has this name"
        traces = [bound.get("trace"), *grid.axes.get("trace", ())]
        check_together({*bound, *grid.axes}, where, traces)
        used = Maker(bound, grid.axes).used
        taken = {outputs.column(name) for name in metrics} | store.RESERVED
        for name, values in grid.axes.items():
            if name in ALL_FIELDS and name not in FIELDS:
                flag = name.replace("_", "-")
                raise InputError(f"{name}: results do not depend on it; set it with --{flag}, or in [simulate]")
            if name in bound:
                raise InputError(f"{name}: found in [simulate] too; one of them was expected")
            if name in taken or name.lower() in {other.lower() for other in grid.axes if other != name}:
                raise InputError(f"{name}: is the name of a column of results; choose another")
            for index, value in enumerate(values if name in FIELDS else ()):
                with within(f"{name}[{index}]"):
                    check_value(name, value)
        unknown = sorted(used - set(grid.axes) - set(bound))
        if unknown:
            known = lookup.suggest(unknown[0], [*grid.axes, *bound])
            raise InputError(f"{{{unknown[0]}}} is used in text, and is no axis; {known}")
        for group in grid.groups:
            _check_effect(group, used, grid, bound)


def _check_effect(group: Mapping[str, Any], used: frozenset[str], grid: Grid, bound: Mapping[str, Any]) -> None:
    """Of axes that vary together one must matter: the others may be names for the reader."""
    for name in group:
        drawn = name == "seed" and "iterations" in {*bound, *grid.axes}
        if name in used or (name in FIELDS and name != "seed") or drawn:
            return
    name = next(iter(group))
    what = "it goes with iterations, or into text" if name == "seed" else f"use it in text, as {{{name}}}"
    raise InputError(f"{name}: has no effect; {what}, or {lookup.suggest(name, list(FIELDS))}")


def _charts(data: Any, single: str, columns: Sequence[str]) -> dict[str, Chart]:  # noqa: ANN401 - as `_bound`
    """The table `[plot]`: one chart, or several by name."""
    if not isinstance(data, dict):
        raise InputError(f"plot: {shown(data)} found; a table was expected")
    if not data:
        return {}
    about = data.get("style")
    is_style = isinstance(about, dict) and "kind" not in about  # else it is a chart of this name
    shared = {"style": about} if is_style else {}
    data = {name: value for name, value in data.items() if not (is_style and name == "style")}
    if not data:
        raise InputError("plot: a style without a chart found; kind = ..., x = ... were expected")
    if not all(isinstance(table, dict) for table in data.values()):
        chart = serialisation.from_data(Chart, shared | data, "plot")
        with within("plot"):
            chart.check_columns([outputs.column(name) for name in columns])
        return {single: chart}
    found = {}
    for name, table in data.items():
        with within(f"plot.{name}"):
            both = {"style": about | table["style"]} if is_style and isinstance(table.get("style"), dict) else {}
            found[name] = serialisation.from_data(Chart, shared | table | both)
            found[name].check_columns([outputs.column(column) for column in columns])
    return found
