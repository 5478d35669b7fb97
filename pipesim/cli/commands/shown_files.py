"""Files of pipesim's own formats, for `pipesim show`: plans, schedules, scenarios, sweeps, devices, models."""

import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from pipesim.base import files, serialisation
from pipesim.base.errors import InputError
from pipesim.cli import options
from pipesim.cli.table_outputs import ShownItem

_CELL = re.compile(r"\(?\d+[FBIW]\d+|\s*,")  # the beginning of a schedule's first line
_HEAD = 4096


def shown(path: Path) -> ShownItem | None:
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


def _plan(path: Path) -> ShownItem:
    from pipesim.display import text
    from pipesim.studies import loading

    plan = loading.load_plan(path)
    return ShownItem(lambda: text.plan(plan), _plain(plan), lambda: text.plan_stages(plan))


def _schedule(path: Path) -> ShownItem:
    from pipesim.core.schedule import Schedule
    from pipesim.display import text

    found = Schedule.load(path)
    rows = str(found).split("\n")
    head = {"format": Schedule.FORMAT, "version": Schedule.VERSION}
    return ShownItem(lambda: text.schedule_rows(rows), lambda: head | {"rows": rows})


def _scenario(path: Path) -> ShownItem:
    from pipesim.display import text
    from pipesim.studies import loading

    found = loading.load_scenario(path)
    return ShownItem(
        lambda: text.scenario(found, options.terminal()), _plain(found), lambda: text.scenario_parts(found)
    )


def _devices(path: Path) -> ShownItem:
    from pipesim.core.calibrations import Calibrations
    from pipesim.display import text

    found = serialisation.load(Calibrations, path)
    return ShownItem(lambda: text.calibrations(found), _plain(found), lambda: text.calibrated_devices(found))


def _model(path: Path) -> ShownItem:
    from pipesim.core.model import Model
    from pipesim.display import text

    found = serialisation.load(Model, path)
    return ShownItem(lambda: text.model(found), _plain(found), lambda: text.model_layers(found))


def _sweep(path: Path) -> ShownItem:
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
    return ShownItem(lambda: text.sweep_file(data, axes), lambda: data, lambda: text.sweep_axes(axes))


_READERS: dict[str, Callable[[Path], ShownItem]] = {
    "pipesim.devices": _devices,
    "pipesim.model": _model,
    "pipesim.plan": _plan,
    "pipesim.scenario": _scenario,
    "pipesim.schedule": _schedule,
    "pipesim.sweep": _sweep,
}
