"""Modules and names of pipesim 0.1 that are somewhere else now: their old names work for one release."""

import importlib
import importlib.util
import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_NOW_IN = {
    "base": "errors units files lookup formulas tables kernels chains",
    "core": "devices trace model cluster costs plan schedule scenario background legality limits rates "
    "recording program timeline widths",
    "analysis": "metrics curves channels spread trace_diff bounds",
    "studies": "pricing ordering comparison whatif rebuilding store sweep",
}
_RENAMED = {
    "documents": "studies.results",
    "experiment": "studies.results",
    "export": "display.timeline_files",
    "keeping": "core.completion",
    "plot": "display.figures",
    "ragged": "base.arrays",
    "report": "display.text",
    "serial": "base.serialisation",
    "stepping": "core.progress",
    "tracks": "base.intervals",
    "trace_report": "display.text",
    "trees": "base.widest_paths",
    "workbench": "studies.equal_stages",
}
# Modules in packages that scripts name, and that are called otherwise now.
_INSIDE = {
    "engines.auto": "engines.selection",
    "lowering.job": "lowering.setup",
    "recorders.guest": "recorders.torch_extra",
    "recorders.layers": "recorders.layer_recording",
    "recorders.machine": "recorders.machine_info",
    "recorders.points": "recorders.message_times",
    "recorders.sizes": "recorders.model_sizes",
    "schedulers.shapes": "schedulers.layouts",
    "store.file": "studies.store.store_file",
    "sweep.crew": "studies.sweep.workers",
    "sweep.file": "studies.sweep.sweep_file",
    "sweep.work": "studies.sweep.worker",
    "topologies.dgx1_v100": "topologies.nvidia_machines",
    "topologies.dgx_a100": "topologies.nvidia_machines",
    "topologies.hgx_h100": "topologies.nvidia_machines",
}
MOVED = {name: f"pipesim.{package}.{name}" for package, names in _NOW_IN.items() for name in names.split()}
MOVED |= {old: f"pipesim.{new}" for old, new in (_RENAMED | _INSIDE).items()}


def moved(name: str, depth: int) -> ModuleType:
    """The module that was `pipesim.name`, with a warning at the caller `depth` frames up that names its place."""
    now = _place_of(name)
    _warn(f"pipesim.{name}", now, depth)
    return importlib.import_module(now)


def renamed(module: str, names: Mapping[str, str], depth: int = 2) -> Callable[[str], Any]:
    """A module's `__getattr__` for names that it had, each with the module and name that it has now.

    __getattr__ = moved.renamed(__name__, {"make_plan": "pipesim.studies.simulation:plan_of"})
    """

    def get(name: str) -> Any:  # noqa: ANN401 - whatever had the name
        if name not in names:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        place, _, new = names[name].partition(":")
        _warn(f"{module}.{name}", f"{place}.{new}", depth)
        return getattr(importlib.import_module(place), new)

    return get


def warn_renamed(old: str, now: str) -> None:
    """Warn where the function that calls this was called: the old name works for one release."""
    _warn(old, now, depth=2)


def _warn(old: str, now: str, depth: int) -> None:
    """Warn at the line `depth` frames above the function that calls this."""
    warnings.warn(f"{old} is now {now}; the old name goes with the next release", DeprecationWarning, depth + 1)


def _place_of(name: str) -> str:
    """Where the module `pipesim.name` is now, by the longest part of its name that has moved; empty: nothing has."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        old = ".".join(parts[:end])
        if old in MOVED:
            return ".".join([MOVED[old], *parts[end:]])
    return ""


class _Alias(Loader):
    """Gives the module at its new place under the old name too."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._spec: ModuleSpec | None = None

    def create_module(self, _: ModuleSpec) -> ModuleType:
        module = moved(self._name, depth=3)
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec  # importing set that of the old name


class Finder(MetaPathFinder):
    """Finds the old names, before Python looks for their files in the folder of a package that has moved."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: object = None) -> ModuleSpec | None:  # noqa: ARG002 - Python's own signature
        """The specification of an old name."""
        top, _, name = fullname.partition(".")
        if top != "pipesim" or not _place_of(name):
            return None
        return importlib.util.spec_from_loader(fullname, _Alias(name))
