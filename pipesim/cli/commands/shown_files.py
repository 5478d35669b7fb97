"""Files of pipesim's own formats, for `pipesim show`: plans, schedules, scenarios, sweeps, devices, models."""

import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from pipesim.base import files, serialisation
from pipesim.base.errors import InputError

_CELL = re.compile(r"\(?\d+[FBIW]\d+|\s*,")  # the beginning of a schedule's first line
_HEAD = 4096


class ShownFile(NamedTuple):
    """A file as text, and as data for --json."""

    text: Callable[[], str]
    data: Callable[[], dict[str, Any]]


def shown(path: Path) -> ShownFile | None:
    """What a file holds, if it is one of these formats."""
    if not files.is_file(path) or path.suffix not in {".toml", ".json", ".csv"}:
        return None
    if path.suffix == ".csv":
        return _schedule(path) if _CELL.match(_beginning(path)) else None
    found = None
    if "pipesim." in _beginning(path):
        with suppress(InputError):
            found = serialisation.read_data(path).get("format")
    reader = _READERS.get(found) if isinstance(found, str) else None
    return None if reader is None else reader(path)


def _beginning(path: Path) -> str:
    with suppress(OSError), path.open("rb") as file:
        return file.read(_HEAD).decode("utf-8", "replace")
    return ""


def _plain(value: Any) -> Callable[[], dict[str, Any]]:
    head = {"format": value.FORMAT, "version": value.VERSION}
    return lambda: head | serialisation.to_data(value)


def _plan(path: Path) -> ShownFile:
    from pipesim.display import text
    from pipesim.studies import loading

    plan = loading.load_plan(path)
    return ShownFile(lambda: text.plan(plan), _plain(plan))


def _schedule(path: Path) -> ShownFile:
    from pipesim.core.schedule import Schedule
    from pipesim.display import text

    found = Schedule.load(path)
    rows = str(found).split("\n")
    head = {"format": Schedule.FORMAT, "version": Schedule.VERSION}
    return ShownFile(lambda: text.schedule_rows(rows), lambda: head | {"rows": rows})


def _scenario(path: Path) -> ShownFile:
    from pipesim.display import text
    from pipesim.studies import loading

    found = loading.load_scenario(path)
    return ShownFile(lambda: text.scenario(found), _plain(found))


def _devices(path: Path) -> ShownFile:
    from pipesim.core.calibrations import Calibrations
    from pipesim.display import text

    found = serialisation.load(Calibrations, path)
    return ShownFile(lambda: text.calibrations(found), _plain(found))


def _model(path: Path) -> ShownFile:
    from pipesim.core.model import Model
    from pipesim.display import text

    found = serialisation.load(Model, path)
    return ShownFile(lambda: text.model(found), _plain(found))


def _sweep(path: Path) -> ShownFile:
    from pipesim.display import text
    from pipesim.studies import sweep as sweeps

    found = sweeps.load(path)
    axes = [(name, values) for grid in found.grids for name, values in grid.axes.items()]
    data = {
        "format": "pipesim.sweep", "version": 1, "name": found.name, "simulate": dict(found.bound),
        "axes": [{"name": name, "values": list(values)} for name, values in axes], "points": found.size,
        "filtered": any(grid.where for grid in found.grids), "metrics": list(found.metrics),
        "charts": list(found.charts),
    }  # fmt: skip
    return ShownFile(lambda: text.sweep_file(data, axes), lambda: data)


_READERS: dict[str, Callable[[Path], ShownFile]] = {
    "pipesim.devices": _devices,
    "pipesim.model": _model,
    "pipesim.plan": _plan,
    "pipesim.scenario": _scenario,
    "pipesim.schedule": _schedule,
    "pipesim.sweep": _sweep,
}
