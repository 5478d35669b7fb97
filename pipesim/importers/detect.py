"""Which importer reads a file, guessed from the file itself."""

from pathlib import Path

from pipesim import files
from pipesim.errors import InputError
from pipesim.importers import IMPORTERS

# Bytes of a file's beginning that the guess looks at.
_BEGINNING = 65536


def importer_for(path: Path) -> str:
    """The name of the importer for this path: the folder of a trace, or a file that starts like a known format."""
    if path.name == "trace.toml" or (path / "trace.toml").is_file():
        return "native"
    if path.is_dir():
        raise InputError(f"{path}: is a folder without trace.toml; {_known()}")
    text = files.read_bytes(path, _BEGINNING).decode("utf-8-sig", errors="replace")
    first = next((line for line in text.splitlines() if line.strip()), "")
    if " -- " in first and "forward_compute_time=" in first:
        return "pipedream"
    raise InputError(
        f"{path}: its format cannot be guessed: it is not a folder with trace.toml (native), and its first line has no "
        f"' -- ' with 'forward_compute_time=' (pipedream); {_known()}"
    )


def _known() -> str:
    return f"name the format where it is known: {', '.join(IMPORTERS)}"
