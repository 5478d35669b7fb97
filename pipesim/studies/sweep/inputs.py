"""What a sweep reads before it starts: files by their content, and the names of functions, checked.

Two names with the same content are the same input; a file that changes makes new points.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipesim.architectures import ARCHITECTURES
from pipesim.base import files, lookup, serialisation
from pipesim.base.errors import PipesimError, within
from pipesim.core.background import Background
from pipesim.core.schedule import Schedule
from pipesim.core.sequence_lengths import SequenceLengths
from pipesim.core.trace import Trace, is_usual
from pipesim.frameworks import huggingface
from pipesim.planners import PLANNERS
from pipesim.schedulers import SCHEDULERS
from pipesim.studies import loading
from pipesim.studies.simulation import names_config
from pipesim.studies.sources import model_named
from pipesim.studies.sweep.functions import Functions, is_own, source_digest
from pipesim.topologies import TOPOLOGIES
from pipesim.topologies.hosts import cluster_file

_FAMILIES = {
    "architecture": ARCHITECTURES,
    "cluster": TOPOLOGIES,
    "planner": PLANNERS,
    "scheduler": SCHEDULERS,
}
_MODEL_FILE = "huggingface"  # the architecture whose first argument is a file
_OF_FILES = ("nvidia_smi", "nccl_xml", "nccl_tests")  # topologies whose first argument is a file
_MOST_SEEN = 10**5
_SCHEDULES = (".csv", ".json", ".toml")
_ALWAYS_FILES = ("trace", "plan", "scenario", "background")
NAMED = (*_ALWAYS_FILES, *_FAMILIES, "lengths")


@dataclass(slots=True)
class Inputs:
    """For "field text" what was read there, and a digest of it; functions have a digest of their source."""

    file: Path  # the experiment; other files are beside it
    functions: Functions = field(default_factory=Functions)
    values: dict[str, Any] = field(default_factory=dict)
    contents: dict[str, str] = field(default_factory=dict)
    _seen: set[str] = field(default_factory=set)

    def gather(self, name: str, text: str | None) -> None:
        """Read what a field names, if it names anything that was not read yet; an unknown name is refused."""
        if name not in NAMED or text is None or f"{name} {text}" in self._seen:
            return
        if len(self._seen) > _MOST_SEEN:
            self._seen.clear()
        self._seen.add(f"{name} {text}")
        with within(str(self.file)):
            self._read(name, text)

    def metrics(self, names: Sequence[str]) -> list[str]:
        """The metrics that are the user's functions, each with a digest of its source."""
        own = [name for name in sorted(names) if is_own(name)]
        for name in own:
            with within(str(self.file)), within("output.metrics"):
                self.functions.check(name, {}, "metric")
        return [f"{name} {source_digest(name)}" for name in own]

    def _read(self, name: str, text: str) -> None:  # noqa: PLR0911 - one return per sort of input
        if name == "trace" and (path := self._config(text)) is not None:
            self.values[f"trace {text}"] = str(path)
            self.contents[f"trace {text}"] = f"{_MODEL_FILE} {_hash(files.read_bytes(huggingface.file_of(path)))}"
            return
        if self._is_file(name, text):
            value = _READERS[name](self._path(name, text))
            self.values[f"{name} {text}"] = value
            self.contents[f"{name} {text}"] = digest(value)
            return
        if name == "lengths":
            SequenceLengths.of(text)
            return
        if name == "architecture" and files.exists(self.file.parent / text):
            self._read_model(text, [text], {})
            return
        if name == "trace":
            lookup.resolve(model_named(text), ARCHITECTURES, "architecture")
            return
        function, positional, keywords = call = lookup.parse_call(text, name)
        self.functions.check(text, _FAMILIES[name], name, call)
        if name == "architecture" and function == _MODEL_FILE:
            self._read_model(text, [*positional], keywords)
            return
        if name == "cluster" and function in _OF_FILES:
            self._read_machine(text, function, [*positional], keywords)
            return
        if is_own(function):
            self.contents[f"{name} {text}"] = f"{text} {source_digest(function)}"

    def _config(self, text: str) -> Path | None:
        """The config.json of a model, or its folder, beside the experiment or by its own path."""
        return next((path for path in (self.file.parent / text, Path(text)) if names_config(path)), None)

    def _read_model(self, text: str, positional: list[Any], keywords: dict[str, Any]) -> None:
        """A model from a file of Hugging Face, which may be beside the experiment."""
        named = str(keywords.get("path", positional[0] if positional else ""))
        beside = self.file.parent / named
        path = beside if files.exists(beside) else Path(named)
        sizes = ", ".join(_named(keywords, "path"))
        self.values[f"architecture {text}"] = f"{_MODEL_FILE}({str(path)!r}, {sizes})"
        content = _hash(files.read_bytes(huggingface.file_of(path)))
        self.contents[f"architecture {text}"] = f"{_MODEL_FILE}({sizes}) {content}"

    def _read_machine(self, text: str, function: str, positional: list[Any], keywords: dict[str, Any]) -> None:
        """A cluster from the description of a machine, in a file that may be beside the experiment."""
        named = keywords.get("file", positional[0] if positional else None)
        if isinstance(named, str) and files.exists(self.file.parent / named):
            named = str(self.file.parent / named)
            text_here = f"{function}({', '.join([repr(named), *map(repr, positional[1:]), *_named(keywords)])})"
        else:
            text_here = text
        try:
            value = loading.load_cluster(text_here)
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
            if "(" in text and text.endswith(")"):  # a call, which many points have each with its own values
                return False
            return cluster_file.is_file(text, TOPOLOGIES) or cluster_file.is_file(
                str(self.file.parent / text), TOPOLOGIES
            )
        if name == "lengths":
            return "(" not in text
        if name == "trace" and not files.exists(self.file.parent / text) and model_named(text):
            return False
        return name in _ALWAYS_FILES or (name == "scheduler" and text.endswith(_SCHEDULES))

    def _path(self, name: str, text: str) -> Path | str:
        """A file beside the experiment; a trace may also be one that comes with pipesim."""
        beside = self.file.parent / text
        return text if name == "trace" and not files.exists(beside) else beside


_READERS: Mapping[str, Callable[[Any], Any]] = {
    "trace": loading.load_trace,
    "cluster": loading.load_cluster,
    "plan": loading.load_plan,
    "scenario": loading.load_scenario,
    "background": Background.load,
    "scheduler": Schedule.load,
    "lengths": SequenceLengths.load,
}


def _named(keywords: Mapping[str, Any], file: str = "file") -> list[str]:
    return [f"{name}={value!r}" for name, value in keywords.items() if name != file]


def digest(value: Any) -> str:  # noqa: ANN401 - any input
    """A digest of what in an input determines results; a trace's origin does not."""
    if isinstance(value, Trace):
        about = [value.model, value.microbatch_size, value.precision, *([value.samples] if value.samples else [])]
        return _hash(json.dumps([about, _columns(value.layers), _columns(value.transfers)]).encode())
    if isinstance(value, SequenceLengths):
        return _hash(json.dumps(value.recorded).encode())
    if isinstance(value, Background):
        return _hash(value.text.encode())
    if isinstance(value, Schedule):
        return _hash(str(value).encode())
    return _hash(serialisation.dumps(value, ".json").encode())


def _columns(table: Mapping[str, Any]) -> dict[str, list[Any]]:
    return {name: values.tolist() for name, values in table.items() if not is_usual(name, values)}


def _hash(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()
