"""What a sweep reads before it starts: files by their content, and the names of functions, checked.

Two names with the same content are the same input; a file that changes makes its points anew.
"""

import hashlib
import importlib.util
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipesim import experiment, files, lookup, serial
from pipesim.architectures import ARCHITECTURES
from pipesim.errors import PipesimError
from pipesim.planners import PLANNERS
from pipesim.schedule import Schedule
from pipesim.schedulers import SCHEDULERS
from pipesim.sweep.points import Point
from pipesim.topologies import TOPOLOGIES
from pipesim.topologies.hosts import cluster_file
from pipesim.trace import Trace

_FAMILIES = {
    "architecture": ARCHITECTURES,
    "cluster": TOPOLOGIES,
    "planner": PLANNERS,
    "scheduler": SCHEDULERS,
}
_OF_FILES = ("nvidia_smi", "nccl_xml")  # topologies whose first argument is a file
_SCHEDULES = (".csv", ".json", ".toml")
_ALWAYS_FILES = ("trace", "plan", "scenario")
NAMED = (*_ALWAYS_FILES, *_FAMILIES)


@dataclass(slots=True)
class Inputs:
    """For "field text" what was read there, and a digest of it; functions have a digest of their source."""

    folder: Path
    values: dict[str, Any] = field(default_factory=dict)
    contents: dict[str, str] = field(default_factory=dict)
    _seen: set[str] = field(default_factory=set)

    def gather(self, point: Point) -> None:
        """Read what this point names and was not read yet; names that nothing has are refused."""
        for name in NAMED:
            text = getattr(point, name)
            if text is not None and f"{name} {text}" not in self._seen:
                self._seen.add(f"{name} {text}")
                self._read(name, text)

    def functions(self, metrics: Sequence[str]) -> list[str]:
        """The metrics that are somebody's functions, each with a digest of its source."""
        return [f"{name} {_source_digest(name)}" for name in sorted(metrics) if ":" in name]

    def _read(self, name: str, text: str) -> None:
        if self._is_file(name, text):
            value = _READERS[name](self._path(name, text))
            self.values[f"{name} {text}"] = value
            self.contents[f"{name} {text}"] = digest(value)
            return
        function, positional, keywords = lookup.parse_call(text, name)
        _check_function(name, text)
        if name == "cluster" and function in _OF_FILES:
            self._read_machine(text, function, [*positional], keywords)
            return
        if function not in _FAMILIES[name]:
            self.contents[f"{name} {text}"] = f"{text} {_source_digest(function)}"

    def _read_machine(self, text: str, function: str, positional: list[Any], keywords: dict[str, Any]) -> None:
        """A cluster by what a machine says of itself, in a file that stands beside the experiment too."""
        named = keywords.get("file", positional[0] if positional else None)
        if isinstance(named, str) and files.exists(self.folder / named):
            named = str(self.folder / named)
            text_here = f"{function}({', '.join([repr(named), *map(repr, positional[1:]), *_named(keywords)])})"
        else:
            text_here = text
        try:
            value = experiment.load_cluster(text_here)
        except PipesimError:
            if not isinstance(named, str) or not files.exists(Path(named)):
                raise  # at no point is there such a file
            self.values[f"cluster {text}"] = text_here  # the point will say what is wrong with it
            self.contents[f"cluster {text}"] = f"{text} {_hash(files.read_bytes(Path(named)))}"
            return
        self.values[f"cluster {text}"] = value
        self.contents[f"cluster {text}"] = digest(value)

    def _is_file(self, name: str, text: str) -> bool:
        if name == "cluster":
            return cluster_file.is_file(text, TOPOLOGIES) or cluster_file.is_file(str(self.folder / text), TOPOLOGIES)
        return name in _ALWAYS_FILES or (name == "scheduler" and text.endswith(_SCHEDULES))

    def _path(self, name: str, text: str) -> Path | str:
        """A file beside the experiment; a trace may also be one that comes with pipesim."""
        beside = self.folder / text
        return text if name == "trace" and not files.exists(beside) else beside


_READERS: Mapping[str, Callable[[Any], Any]] = {
    "trace": experiment.load_trace,
    "cluster": experiment.load_cluster,
    "plan": experiment.load_plan,
    "scenario": experiment.load_scenario,
    "scheduler": Schedule.load,
}


def _named(keywords: Mapping[str, Any]) -> list[str]:
    return [f"{name}={value!r}" for name, value in keywords.items() if name != "file"]


def _check_function(name: str, text: str) -> None:
    """Refuse a name that no function has, and options that it does not take."""
    lookup.resolve(text, _FAMILIES[name], name)


def _source_digest(function: str) -> str:
    """A digest of the file in which a function of somebody else is; what that file imports does not count."""
    try:
        spec = importlib.util.find_spec(function.partition(":")[0])
        source = Path(spec.origin).read_bytes() if spec and spec.origin else b""
    except (ImportError, ValueError, OSError):
        source = b""
    return _hash(source)


def digest(value: Any) -> str:  # noqa: ANN401 - any input
    """A digest of what in an input determines results; a trace's origin does not."""
    if isinstance(value, Trace):
        about = [value.model, value.microbatch_size, value.precision]
        return _hash(json.dumps([about, _columns(value.layers), _columns(value.transfers)]).encode())
    if isinstance(value, Schedule):
        return _hash(str(value).encode())
    return _hash(serial.dumps(value, ".json").encode())


def _columns(table: Mapping[str, Any]) -> dict[str, list[Any]]:
    return {name: values.tolist() for name, values in table.items()}


def _hash(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()
