"""Which importer reads a file, guessed from the file itself."""

import re
from pathlib import Path

from pipesim.errors import InputError
from pipesim.importers import IMPORTERS
from pipesim.importers.compressed import beginning

# Bytes of a file's beginning that the guess looks at.
_BEGINNING = 65536
# What stands first in a file of PyTorch's profiler: its header, or the events themselves.
_KINETO = re.compile(r'\s*(\{\s*"(schemaVersion|deviceProperties|distributedInfo|traceEvents)"|\[\s*\{[^{}]*"ph"\s*:)')


def importer_for(path: Path) -> str:
    """The name of the importer for this path: the folder of a trace, or a file that starts like a known format."""
    if path.name == "trace.toml" or (path / "trace.toml").is_file():
        return "native"
    if path.is_dir():
        return _of_folder(path)
    text = beginning(path, _BEGINNING)
    if _KINETO.match(text):
        return "kineto"
    first = next((line for line in text.splitlines() if line.strip()), "")
    if " -- " in first and "forward_compute_time=" in first:
        return "pipedream"
    raise InputError(
        f"{path}: its format cannot be guessed: it is not a folder with trace.toml (native), its first line has no "
        f"' -- ' with 'forward_compute_time=' (pipedream), and it does not start as PyTorch's profiler does (kineto); "
        f"{_known()}"
    )


def _of_folder(path: Path) -> str:
    """A folder may hold what several ranks of one run recorded."""
    found = sorted(file for file in path.iterdir() if file.name.endswith((".json", ".json.gz")) and file.is_file())
    if found and all(_KINETO.match(beginning(file, _BEGINNING)) for file in found):
        return "kineto"
    others = f" and with other files than kineto traces, such as {found[0].name}" if found else ""
    raise InputError(f"{path}: is a folder without trace.toml{others}; {_known()}")


def _known() -> str:
    return f"name the format where it is known: {', '.join(IMPORTERS)}"
