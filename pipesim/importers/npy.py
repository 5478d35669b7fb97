"""Vectors of forward seconds in NumPy's file format, one number per layer, as the planners AMP and FASOP save them."""

import ast
import re
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipesim.base import files, units
from pipesim.base.arrays import Floats
from pipesim.base.checks import check_not_negative, check_whole
from pipesim.base.errors import FormatError, InputError, shown, within
from pipesim.base.tables import Table
from pipesim.core.members import ImporterInfo
from pipesim.core.trace import ANY_KIND, Trace

# No model has more layers: a longer vector is something else.
_MOST_LAYERS = 10_000
_MOST_NUMBERS = 1_000_000
_LONGEST_HEADER = 10_000
_MAGIC = b"\x93NUMPY"
_NUMBER = re.compile(r"[<>=|]?(f[248]|[iu][1248])")


def is_npy(data: bytes, _: str) -> bool:
    """Whether a file begins with NumPy's magic bytes."""
    return data.startswith(_MAGIC)


@ImporterInfo(recognises=is_npy, otherwise="does not begin with NumPy's magic bytes")
def npy(
    path: Path | Sequence[Path],
    *,
    backward_factor: float = 2.0,
    samples: int = 1,
    time_unit: str = "s",
    output_bytes: int | str | Sequence[int | str] = 0,
    parameter_bytes: int | str | Sequence[int | str] = 0,
    device_kind: str | Sequence[str] = ANY_KIND,
) -> Trace:
    """The trace in a vector of forward times, or in an array [sample, layer] of them.

    A backward is assumed to take `backward_factor` times its forward. The times are for a microbatch of `samples`
    samples, in `time_unit`. The file has no sizes: `output_bytes` (for that microbatch) and `parameter_bytes` are one
    number for all layers, or a list with one for each. A layer is assumed to keep as many bytes for its backward as its
    output has. Several files are further samples of the same layers, or, with one `device_kind` for each of them, other
    devices.
    """
    check_not_negative("backward_factor", backward_factor)
    check_whole("samples", samples)
    paths = [path] if isinstance(path, Path) else list(path)
    kinds = _kinds(device_kind, len(paths))
    second = 1 / _unit(time_unit)
    arrays = [_read(one, second) for one in paths]
    layers = arrays[0].shape[1]
    for one, array in zip(paths, arrays, strict=True):
        if array.shape[1] != layers:
            raise FormatError(f"{one}: {array.shape[1]} layers found; {paths[0]} has {layers}")
    with within(str(paths[0])):
        outputs, parameters = (
            _each("output_bytes", output_bytes, layers),
            _each("parameter_bytes", parameter_bytes, layers),
        )
        note = f"a forward-only profile: backwards are assumed to take {backward_factor:g} times their forwards"
        columns = _columns(arrays, kinds, backward_factor, outputs, parameters)
        return Trace(paths[0].stem, "npy", samples, columns, notes=(note,))


def _unit(name: str) -> float:
    """Seconds of a unit of time."""
    if not name.isalpha():
        raise InputError(f"time_unit = {shown(name)} found; 's', 'ms', 'us' or 'ns' was expected")
    return units.duration(f"1{name}")


def _kinds(device_kind: str | Sequence[str], count: int) -> list[str]:
    """The device kind of each file."""
    kinds = [device_kind] * count if isinstance(device_kind, str) else _listed(device_kind)
    if len(kinds) != count or not all(isinstance(kind, str) and kind for kind in kinds):
        raise InputError(
            f"device_kind = {shown(device_kind)} found; a name, or {count}, one for each file, was expected"
        )
    return kinds


def _each(name: str, value: int | str | Sequence[int | str], layers: int) -> NDArray[np.int64]:
    """Whole bytes for each layer."""
    given = [value] * layers if isinstance(value, int | str) else _listed(value)
    if len(given) != layers:
        raise InputError(
            f"{name} = {shown(value)} found; a number of bytes, or {layers}, one for each layer, was expected"
        )
    with within(name):
        return np.array([round(min(units.size(size), 2.0**62)) for size in given], np.int64)


def _listed(value: object) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else []


def _columns(
    arrays: list[Floats], kinds: list[str], factor: float, outputs: NDArray[np.int64], parameters: NDArray[np.int64]
) -> Table:
    layers, times = len(outputs), sum(len(array) for array in arrays)
    forward = np.concatenate([array.ravel() for array in arrays])
    kind = [kind for array, kind in zip(arrays, kinds, strict=True) for _ in range(len(array))]
    seen: dict[str, int] = {}
    sample = []
    for one in kind:
        sample.append(seen.get(one, 0))
        seen[one] = sample[-1] + 1
    with np.errstate(over="ignore"):  # the trace refuses what is infinite
        backward = forward * factor
    return {
        "layer": np.tile(np.arange(layers), times),
        "name": np.array([f"layer {layer}" for layer in range(layers)] * times, object),
        "device_kind": np.repeat(np.array(kind, object), layers),
        "sample": np.repeat(np.array(sample), layers),
        "forward_s": forward,
        "backward_s": backward,
        "output_bytes": np.tile(outputs, times),
        "stash_bytes": np.tile(outputs, times),
        "parameter_bytes": np.tile(parameters, times),
    }


# --- the file --------------------------------------------------------------------------------------------------------


def _read(path: Path, per_second: float) -> Floats:
    """Seconds, [sample, layer]."""
    data = files.read_bytes(path, limit=files.RECORDING)
    with within(str(path)):
        shape, by_column, dtype, start = _header(data)
        if not 1 <= len(shape) <= 2 or 0 in shape:
            raise FormatError(f"has the shape {shown(shape)}; (layers,) or (samples, layers) was expected")
        if shape[-1] > _MOST_LAYERS or int(np.prod(shape, dtype=object)) > _MOST_NUMBERS:
            raise FormatError(
                f"has the shape {shown(shape)}; at most {_MOST_LAYERS:,} layers, and {_MOST_NUMBERS:,} numbers, were "
                "expected"
            )
        count = int(np.prod(shape))
        if len(data) - start != count * dtype.itemsize:
            raise FormatError(
                f"{len(data) - start} bytes of numbers found; {count * dtype.itemsize} were expected, by the shape "
                f"{shape}"
            )
        array = np.frombuffer(data, dtype, count, start).reshape(shape, order="F" if by_column else "C")
        with np.errstate(over="ignore", invalid="ignore"):
            seconds = np.atleast_2d(array.astype(np.float64)) / per_second
        bad = ~(np.isfinite(seconds) & (seconds >= 0))
        if bad.any():
            at = tuple(int(index) for index in np.argwhere(bad)[0])[-array.ndim :]
            raise FormatError(f"{list(at)}: {array[at]} found; a finite time, not negative, was expected")
        return seconds


def _header(data: bytes) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    """The shape, whether it is in column order, the type, and where the numbers begin.

    After the magic bytes and the version comes the length of a text, a Python dictionary of plain values.
    """
    wide = data[6:7] in {b"\x02", b"\x03"}
    if data[:6] != _MAGIC or data[6:7] not in {b"\x01", b"\x02", b"\x03"} or len(data) < 12:
        raise FormatError("is not a file of NumPy: its magic bytes and version 1, 2 or 3 were expected")
    (length,) = struct.unpack("<I" if wide else "<H", data[8 : 12 if wide else 10])
    start = (12 if wide else 10) + length
    if start > len(data) or length > _LONGEST_HEADER:
        raise FormatError(f"has a header of {length} bytes; {min(len(data), _LONGEST_HEADER)} at most were expected")
    text = data[start - length : start].decode("latin-1")
    try:
        header = ast.literal_eval(text.strip())
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        header = None
    if not isinstance(header, dict) or header.keys() != {"descr", "fortran_order", "shape"}:
        raise FormatError(f"header: {shown(text.strip())} found; descr, fortran_order and shape were expected")
    shape, dtype = header["shape"], header["descr"]
    if not isinstance(dtype, str) or not _NUMBER.fullmatch(dtype):
        raise FormatError(f"descr: {shown(dtype)} found; numbers, such as '<f8', were expected")
    if not isinstance(shape, tuple) or not all(type(length) is int and length >= 0 for length in shape):
        raise FormatError(f"shape: {shown(shape)} found; (layers,) or (samples, layers) was expected")
    return shape, bool(header["fortran_order"]), np.dtype(dtype), start
