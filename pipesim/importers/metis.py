"""Metis' JSON profiles: one file for each kind of device, tensor-parallel degree and batch size.

    DeviceType.A100_tp1_bs4.json     {"model": {"model_name": ..., "parameters": {"parameters_per_layer_bytes": [...]}},
                                      "execution_time": {"layer_compute_total_ms": [...], ...}, ...}

Several files of one model and one tensor-parallel degree make one trace, with several microbatch sizes and device
kinds. A layer's milliseconds are those of its forward and its backward together.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pipesim.base import files, serialisation, units
from pipesim.base.checks import check_not_negative, check_whole
from pipesim.base.errors import FormatError, InputError, shown, within
from pipesim.base.tables import Table
from pipesim.core.members import ImporterInfo
from pipesim.core.trace import ANY_KIND, Trace

_NAME = re.compile(r"DeviceType\.(?P<kind>[\w-]+?)_tp(?P<tp>[0-9]{1,9})_bs(?P<batch>[0-9]{1,18})")
_MILLISECONDS = "execution_time.layer_compute_total_ms"
_PARAMETERS = "model.parameters.parameters_per_layer_bytes"
_ACTIVATIONS = "model.parameters.activation_parameters_bytes"
_MOST = 2.0**62


@dataclass(frozen=True, slots=True)
class _Profile:
    """One file: the device that was timed, and a number for each layer."""

    path: Path
    model: str
    kind: str
    tp: int
    batch: int
    seconds: list[float]
    parameters: list[int]
    outputs: list[int] | None


def is_profile(_: bytes, text: str) -> bool:
    """Whether a file begins as a JSON object with the bytes of layers."""
    return text.lstrip().startswith("{") and '"parameters_per_layer_bytes"' in text


_EXAMPLE = """{{
 "model": {{
  "model_name": "toy",
  "num_layers": 3,
  "parameters": {{
   "parameters_per_layer_bytes": [100, 200, 50],
   "activation_parameters_bytes": [5, 6, 7]
  }}
 }},
 "execution_time": {{
  "total_time_ms": {0},
  "optimizer_time_ms": 5.0,
  "layer_compute_total_ms": [3.0, 30.0, 6.0]
 }},
 "execution_memory": {{"layer_memory_total_mb": [1, 2]}}
}}
"""


@ImporterInfo(
    recognises=is_profile,
    otherwise="is not JSON with 'parameters_per_layer_bytes'",
    example={f"DeviceType.A100_tp1_bs{batch}.json": _EXAMPLE.format(99.0) for batch in (1, 2)},
)
def metis(
    path: Path | Sequence[Path],
    *,
    backward_factor: float = 2.0,
    tp: int | None = None,
    samples: int | None = None,
    device_kind: str | None = None,
    output_bytes: int | str | None = None,
) -> Trace:
    """The trace in one or several profiles.

    Times and bytes are for the tensor-parallel width that the file's name states (tp2).
    A backward is assumed to take `backward_factor` times its forward, since a profile has only their sum. `tp` selects
    the files of one tensor-parallel degree, if there are several. `samples` and `device_kind` replace a batch size and
    a kind that a file's name does not contain. `output_bytes` is the output of every layer for one sample; by default
    it is the profile's `activation_parameters_bytes`, or 0 if it has none. A layer is assumed to keep as many bytes for
    its backward as its output has. The times of the optimizer, of all-reduces and of loading data, and the memory, are
    ignored, since they are those of a whole iteration.
    """
    check_not_negative("backward_factor", backward_factor)
    if samples is not None:
        check_whole("samples", samples)
    with within("output_bytes"):
        outputs = None if output_bytes is None else units.size(output_bytes)
    paths = [path] if isinstance(path, Path) else list(path)
    profiles = sorted((_read(one, samples, device_kind) for one in paths), key=lambda p: (p.kind, p.batch, p.tp))
    chosen = [profile for profile in profiles if tp is None or profile.tp == tp]
    if not chosen:
        degrees = ", ".join(map(str, sorted({profile.tp for profile in profiles})))
        raise InputError(f"tp = {shown(tp)} found; the files have {degrees}")
    _check_fit(chosen)
    with within(", ".join(str(profile.path) for profile in chosen)[:200]):
        layers = _columns(chosen, backward_factor, outputs)
        note = f"backwards are assumed to take {backward_factor:g} times their forwards: the profile has only the sum"
        size = min(profile.batch for profile in chosen)
        return Trace(chosen[0].model, "metis", size, layers, notes=(note,))


def _check_fit(profiles: list[_Profile]) -> None:
    """Refuse files that cannot be one trace."""
    first = profiles[0]
    seen: dict[tuple[str, int], _Profile] = {}
    for profile in profiles:
        with within(str(profile.path)):
            if profile.tp != first.tp:
                raise InputError(
                    f"was timed with tensor-parallel degree {profile.tp}, {first.path} with {first.tp}; one degree "
                    "was expected: choose it with tp=..."
                )
            for what, mine, other in (
                ("model", profile.model, first.model),
                ("number of layers", len(profile.seconds), len(first.seconds)),
            ):
                if mine != other:
                    raise InputError(f"{what}: {shown(mine)} found; {first.path} has {shown(other)}")
            twin = seen.setdefault((profile.kind, profile.batch), profile)
            if twin is not profile:
                raise InputError(f"has the device kind and the batch size of {twin.path}; one of the two was expected")


# --- one file --------------------------------------------------------------------------------------------------------


def _read(path: Path, samples: int | None, device_kind: str | None) -> _Profile:
    text = files.read_text(path)
    with within(str(path)):
        if not text.strip():
            raise FormatError("is empty; a profile of Metis, JSON with times and parameters of layers, was expected")
        data = serialisation.parse_data(text, ".json")
        milliseconds = _numbers(data, _MILLISECONDS)
        parameters = _numbers(data, _PARAMETERS, len(milliseconds))
        named = _NAME.search(path.name)
        if named is None and samples is None:
            raise InputError(
                "the file name has no batch size; a name such as 'DeviceType.A100_tp1_bs4.json', or samples=..., "
                "was expected"
            )
        outputs = _numbers(data, _ACTIVATIONS, len(milliseconds)) if _find(data, _ACTIVATIONS) is not None else None
        name = _find(data, "model.model_name")
        if not isinstance(name, str) or not name or not name.isprintable():
            raise FormatError(f"model.model_name: {shown(name)} found; a name was expected")
        return _Profile(
            path,
            name,
            device_kind or (named["kind"] if named else ANY_KIND),
            int(named["tp"]) if named else 1,
            max(1, samples if samples is not None else int(named["batch"]) if named else 1),
            [units.duration(f"{ms!r} ms") for ms in milliseconds],
            [round(size) for size in parameters],
            None if outputs is None else [round(size) for size in outputs],
        )


def _find(data: Any, key: str) -> Any:  # noqa: ANN401 - what a file holds is anything
    """The value of the key "a.b.c", None if there is none."""
    for part in key.split("."):
        data = data.get(part) if isinstance(data, dict) else None
    return data


def _numbers(data: dict[str, Any], key: str, count: int | None = None) -> list[float]:
    """A list of one number per layer."""
    found = _find(data, key)
    if not isinstance(found, list) or not found:
        raise FormatError(f"{key}: {shown(found)} found; a list of one number per layer was expected")
    for index, value in enumerate(found):
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < _MOST:
            raise FormatError(f"{key}[{index}]: {shown(value)} found; a number, not negative, was expected")
    if count is not None and len(found) != count:
        raise FormatError(f"{key}: {len(found)} numbers found; {count} were expected, as in {_MILLISECONDS}")
    return [float(value) for value in found]


# --- all files -------------------------------------------------------------------------------------------------------


def _columns(profiles: list[_Profile], backward_factor: float, output_bytes: float | None) -> Table:
    layers, times = len(profiles[0].seconds), len(profiles)
    forward = np.array([profile.seconds for profile in profiles]).ravel() / (1 + backward_factor)
    with np.errstate(over="ignore", invalid="ignore"):  # the trace refuses numbers that are not finite
        backward = forward * backward_factor
    outputs = np.concatenate([_outputs(profile, output_bytes) for profile in profiles])
    return {
        "layer": np.tile(np.arange(layers), times),
        "name": np.array([f"layer {layer}" for layer in range(layers)] * times, object),
        "device_kind": np.repeat(np.array([profile.kind for profile in profiles], object), layers),
        "microbatch_size": np.repeat(np.array([profile.batch for profile in profiles]), layers),
        "tensor": np.repeat(np.array([profile.tp for profile in profiles]), layers),
        "forward_s": forward,
        "backward_s": backward,
        "output_bytes": outputs,
        "stash_bytes": outputs,
        "parameter_bytes": np.concatenate([np.array(profile.parameters, np.int64) for profile in profiles]),
    }


def _outputs(profile: _Profile, output_bytes: float | None) -> np.ndarray[Any, np.dtype[np.float64]]:
    layers = len(profile.seconds)
    if output_bytes is not None:
        return np.full(layers, np.rint(output_bytes * profile.batch))
    return np.array(profile.outputs or [0] * layers, np.float64)
