"""Detection of the importer for a file, by what the importers declare about their formats."""

from pathlib import Path

from pipesim.base import files, lookup
from pipesim.base.errors import InputError, shown
from pipesim.core.members import ImporterInfo, info_of
from pipesim.importers import IMPORTERS

# Bytes of a file's beginning that are looked at.
BEGINNING = 65536


def importer_for(path: Path) -> str:
    """The name of the importer for a folder or a file: by its path, its first bytes or its suffix, in this order."""
    declared: dict[str, ImporterInfo] = {}
    for name in IMPORTERS:  # imported one after the other: a folder with a trace.toml needs the first alone
        info = declared[name] = info_of(lookup.function_named(name, IMPORTERS, "format"), ImporterInfo)
        if info.recognises_path is not None and info.recognises_path(path):
            return name
    if path.is_dir():
        raise InputError(f"{path}: is a folder of no known format; {_contents(path)}; {_known()}")
    if path.is_fifo():
        raise InputError(f"{path}: its format cannot be guessed: it is a pipe, which can be read only once; {_known()}")
    data = files.read_bytes(path, BEGINNING)
    text = data.decode("utf-8-sig", errors="replace")
    for name, info in declared.items():
        if info.recognises is not None and info.recognises(data, text):
            return name
    for name, info in declared.items():
        if data and path.suffix in info.suffixes:
            return name
    tried = "; ".join(f"it {info.otherwise} ({name})" for name, info in declared.items() if info.otherwise)
    raise InputError(
        f"{path}: its format cannot be guessed: it {_found(data, text)}; {f'{tried}; ' if data else ''}{_known()}"
    )


def first_line(text: str) -> str:
    """The first line that is not blank."""
    return next((line for line in text.splitlines() if line.strip()), "")


def _found(data: bytes, text: str) -> str:
    """What is in a file of no known format."""
    if not data:
        return "is empty"
    if not text.isprintable() and (b"\0" in data or "\N{REPLACEMENT CHARACTER}" in text):
        return f"is binary and begins with the bytes {data[:8].hex(' ')}"
    first = first_line(text).strip()
    return f"begins with {shown(first[:60])}" if first else "has blank lines only"


def _contents(folder: Path) -> str:
    """What is in a folder of no known format."""
    names = sorted(file.name for file in folder.iterdir())
    listed = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
    return (
        f"trace.toml (native), or profiles of PyTorch only (kineto), were expected in it; found {listed or 'nothing'}"
    )


def _known() -> str:
    return f"name the format if it is one of the known: {', '.join(IMPORTERS)}"
