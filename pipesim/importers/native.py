"""pipesim's own traces: a folder with trace.toml and layers.csv or layers.parquet."""

from pathlib import Path

from pipesim.errors import InputError
from pipesim.trace import Trace


def native(path: Path) -> Trace:
    """The trace in a folder; its trace.toml may be named in place of the folder."""
    folder = path.parent if path.name == "trace.toml" else path
    if folder.is_file():
        raise InputError(f"{path}: is a file; a trace folder, or its trace.toml, was expected")
    return Trace.load(folder)
