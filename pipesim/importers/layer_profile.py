"""Profiles as authors of planners publish them: microbatch size, tensor-parallel width, layer, in nested JSON.

    {"1": {"2": {"0": [0.000824, 0.000004, 0.001504], "1": [0.001853, 0.003388, 0.001504], ...}}, "2": ...}

A layer has its seconds of forward and backward, and of the optimizer, which are left out. Bytes are in a second file,
{"model": {width: {layer: {"params_bytes": ..., "act_output_bytes": ..., "act_mem_bytes": ...}}}}, of one sample.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pipesim.base import files, serialisation, units
from pipesim.base.errors import FormatError, InputError, shown, within
from pipesim.base.tables import Table
from pipesim.core.members import ImporterInfo
from pipesim.core.trace import ANY_KIND, Trace

_START = re.compile(r'\s*\{\s*"[0-9]+"\s*:\s*\{\s*"[0-9]+"\s*:\s*\{\s*"[0-9]+"\s*:\s*\[')
_BYTES = {"parameter_bytes": "params_bytes", "output_bytes": "act_output_bytes", "stash_bytes": "act_mem_bytes"}
_MOST = 2.0**62
_LARGEST = 2**20  # of sizes of microbatches, widths and layers


def is_layer_profile(_: bytes, text: str) -> bool:
    """Whether a file begins with numbers in three levels."""
    return _START.match(text) is not None


@ImporterInfo(
    recognises=is_layer_profile,
    otherwise="is not JSON of microbatch sizes, widths and layers",
    example={
        "profile.json": (
            '{"1": {"1": {"0": [0.001, 0.002, 0.0005], "1": [0.003, 0.006, 0.0005]},\n'
            '       "2": {"0": [0.0006, 0.0012, 0.0005], "1": [0.0016, 0.0032, 0.0005]}},\n'
            ' "2": {"1": {"0": [0.0019, 0.0038, 0.0005], "1": [0.0058, 0.011, 0.0005]}}}'
        )
    },
)
def layer_profile(
    path: Path, *, sizes: str | None = None, model: str | None = None, device: str = ANY_KIND, time_unit: str = "s"
) -> Trace:
    """The trace in a profile, at all its widths and microbatch sizes.

    `sizes` is the file with the bytes of layers, and `model` is which of its models; without it all bytes are 0.
    `device` is the kind of device that was measured.
    """
    with within("time_unit"):
        scale = units.duration(f"1 {time_unit}")
    text = files.read_text(path, files.RECORDING)
    with within(str(path)):
        if not _START.match(text):
            raise FormatError("is no profile of layers; JSON of microbatch sizes, widths and layers was expected")
        rows = _rows(serialisation.parse_data(text, ".json"), scale)
        layers = sorted({row[2] for row in rows})
        if layers != list(range(len(layers))):
            raise FormatError(f"layers {shown(layers[:8])} found; 0, 1, 2, ... were expected")
        table = _table(rows, device)
        if sizes is not None:
            table |= _bytes(Path(sizes), model, rows)
        smallest = min(row[0] for row in rows)
        note = "seconds of the optimizer, which the profile has for each layer, are left out"
        return Trace(model or path.stem, "layer_profile", smallest, table, notes=(note,))


def _rows(data: Mapping[str, Any], scale: float) -> list[tuple[int, int, int, float, float]]:
    """(microbatch size, width, layer, forward, backward) of all entries; each size and width has the same layers."""
    found: list[tuple[int, int, int, float, float]] = []
    for size, widths in _items(data, "a microbatch size"):
        with within(f"microbatch {size}"):
            for width, layers in _items(widths, "a tensor-parallel width"):
                with within(f"width {width}"):
                    for layer, times in _items(layers, "a layer", least=0):
                        forward, backward = _seconds(times, layer)
                        found.append((size, width, layer, forward * scale, backward * scale))
    if not found:
        raise FormatError("has no layers; microbatch sizes, widths and layers were expected")
    return sorted(found)


def _items(data: Any, what: str, least: int = 1) -> list[tuple[int, Any]]:  # noqa: ANN401 - any JSON
    """The entries of an object whose keys are whole numbers."""
    if not isinstance(data, dict):
        raise FormatError(f"{shown(data)} found; an object with {what} as key was expected")
    for key in data:
        if not re.fullmatch("[0-9]{1,7}", key) or not least <= int(key) <= _LARGEST:
            raise FormatError(f"key {shown(key)} found; {what} was expected")
    if len({int(key) for key in data}) != len(data):
        raise FormatError(f"{what} is there twice, in different spellings")
    return [(int(key), value) for key, value in data.items()]


def _seconds(times: Any, layer: int) -> tuple[float, float]:  # noqa: ANN401 - any JSON
    """Forward and backward of a layer."""
    fits = isinstance(times, list) and len(times) in {2, 3}
    if not fits or any(isinstance(t, bool) or not isinstance(t, int | float) or not 0 <= t < _MOST for t in times):
        raise FormatError(
            f"layer {layer}: {shown(times)} found; times of forward, backward and optimizer were expected"
        )
    return float(times[0]), float(times[1])


def _table(rows: list[tuple[int, int, int, float, float]], device: str) -> Table:
    size, width, layer, forward, backward = zip(*rows, strict=True)
    return {
        "layer": np.array(layer, np.int64),
        "name": np.array([f"layer {number}" for number in layer], object),
        "device_kind": np.array([device] * len(rows), object),
        "microbatch_size": np.array(size, np.int64),
        "tensor": np.array(width, np.int64),
        "forward_s": np.array(forward),
        "backward_s": np.array(backward),
        "output_bytes": np.zeros(len(rows), np.int64),
    }


def _bytes(path: Path, model: str | None, rows: list[tuple[int, int, int, float, float]]) -> Table:
    """Bytes of the layers at each width: of parameters, and of activations for each sample."""
    text = files.read_text(path, files.RECORDING)
    with within(str(path)):
        models = serialisation.parse_data(text, ".json")
        if model is None and len(models) == 1:
            model = next(iter(models))
        if model not in models:
            raise InputError(f"model = {shown(model)} found; one of {shown(', '.join(models))} was expected")
        with within(model):
            of_width = {width: dict(_items(layers, "a layer", 0)) for width, layers in _items(models[model], "a width")}
            found: dict[str, list[int]] = {name: [] for name in _BYTES}
            for size, width, layer, _, _ in rows:
                entry = of_width.get(width, {}).get(layer)
                if entry is None:
                    raise InputError(f"width {width}, layer {layer}: missing; bytes of all layers were expected")
                for name, key in _BYTES.items():
                    each = entry.get(key) if isinstance(entry, dict) else None
                    if isinstance(each, bool) or not isinstance(each, int | float) or not 0 <= each < 2**50:
                        raise InputError(
                            f"width {width}, layer {layer}: {key}: {shown(each)} found; bytes were expected"
                        )
                    found[name].append(round(each) * (1 if name == "parameter_bytes" else size))
    return {name: np.array(values, np.int64) for name, values in found.items()}
