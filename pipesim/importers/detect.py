"""Which importer reads a file, guessed from the file itself."""

import re
from collections.abc import Callable
from pathlib import Path

from pipesim.base import files
from pipesim.base.errors import InputError, shown
from pipesim.importers import IMPORTERS
from pipesim.importers.compressed import beginning

# Bytes of a file's beginning that the guess looks at.
_BEGINNING = 65536
# What stands first in a file of PyTorch's profiler: its header, or the events themselves.
_KINETO = re.compile(r'\s*(\{\s*"(schemaVersion|deviceProperties|distributedInfo|traceEvents)"|\[\s*\{[^{}]*"ph"\s*:)')
_VERSION = re.compile(rb"[0-9]+(\.[\w-]+)*")


def importer_for(path: Path) -> str:
    """The name of the importer for this path: the folder of a trace, or a file that starts like a known format."""
    if path.name == "trace.toml" or (path / "trace.toml").is_file():
        return "native"
    if path.is_dir():
        return _of_folder(path)
    if path.is_fifo():
        raise InputError(f"{path}: its format cannot be guessed: it is a pipe, which is read once; {_known()}")
    if _KINETO.match(beginning(path, _BEGINNING)):
        return "kineto"
    data = files.read_bytes(path, _BEGINNING)
    text = data.decode("utf-8-sig", errors="replace")
    for name, (sign, _) in _SIGNS.items():
        if sign(data, text):
            return name
    if path.suffix == ".et" and data:
        return "chakra"
    tried = "; ".join(f"it {what} ({name})" for name, (_, what) in _SIGNS.items())
    tried = (
        f"it is not a folder with trace.toml (native); it does not start as PyTorch's profiler does (kineto); {tried}"
    )
    raise InputError(
        f"{path}: its format cannot be guessed: it {_found(data, text)}; {f'{tried}; ' if data else ''}{_known()}"
    )


def _found(data: bytes, text: str) -> str:
    """What there is in place of a file of a known format."""
    if not data:
        return "is empty"
    if not text.isprintable() and (b"\0" in data or "\N{REPLACEMENT CHARACTER}" in text):
        return f"is binary and begins with the bytes {data[:8].hex(' ')}"
    first = _first_line(text).strip()
    return f"begins with {shown(first[:60])}" if first else "has blank lines only"


def _of_folder(path: Path) -> str:
    """A folder may hold what several ranks of one run recorded."""
    found = sorted(file for file in path.iterdir() if file.name.endswith((".json", ".json.gz")) and file.is_file())
    if found and all(_KINETO.match(beginning(file, _BEGINNING)) for file in found):
        return "kineto"
    others = f" and with other files than kineto traces, such as {found[0].name}" if found else ""
    if not found and not any(path.iterdir()):
        others = " and without any other file"
    raise InputError(f"{path}: is a folder without trace.toml{others}; {_known()}")


def _first_line(text: str) -> str:
    return next((line for line in text.splitlines() if line.strip()), "")


def _is_pipedream(_: bytes, text: str) -> bool:
    first = _first_line(text)
    return " -- " in first and "forward_compute_time=" in first


def _is_chakra(data: bytes, _: str) -> bool:
    """The first message begins with the version: so long, field 1 of bytes, so long, digits and dots."""
    return len(data) > 3 and data[1] == 0x0A and bool(_VERSION.fullmatch(data[3 : 3 + data[2]]))


def _is_metis(_: bytes, text: str) -> bool:
    return text.lstrip().startswith("{") and '"parameters_per_layer_bytes"' in text


def _is_npy(data: bytes, _: str) -> bool:
    return data.startswith(b"\x93NUMPY")


def _is_csv(_: bytes, text: str) -> bool:
    headings = {cell.strip().strip('"') for cell in _first_line(text).split(",")}
    return bool(headings & {f"forward_{unit}" for unit in ("s", "ms", "us", "ns")})


# Name -> how to tell the format by the beginning of a file, and what is missing from a file that is not of it.
_SIGNS: dict[str, tuple[Callable[[bytes, str], bool], str]] = {
    "npy": (_is_npy, "does not begin with NumPy's mark"),
    "pipedream": (_is_pipedream, "has no ' -- ' with 'forward_compute_time=' in its first line"),
    "metis": (_is_metis, "is no JSON with 'parameters_per_layer_bytes'"),
    "csv": (_is_csv, "has no heading 'forward_s', 'forward_ms' or the like"),
    "chakra": (_is_chakra, "does not begin with a message that has a version, nor is it called .et"),
}


def _known() -> str:
    return f"name the format where it is known: {', '.join(IMPORTERS)}"
