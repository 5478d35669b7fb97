"""pipesim's own traces: a folder with trace.toml and layers.csv or layers.parquet."""

from pathlib import Path

from pipesim.base.errors import InputError
from pipesim.core.members import ImporterInfo
from pipesim.core.trace import Trace


def is_trace(path: Path) -> bool:
    """Whether a path is that of a trace: its folder or its trace.toml."""
    return path.name == "trace.toml" or (path / "trace.toml").is_file()


@ImporterInfo(recognises_path=is_trace, otherwise="is not a folder with trace.toml")
def native(path: Path) -> Trace:
    """The trace in a folder; or the folder of a trace.toml."""
    folder = path.parent if path.name == "trace.toml" else path
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{path}: is a file; a trace folder, or its trace.toml, was expected")
    if folder.is_dir() and not (folder / "trace.toml").exists():
        raise InputError(f"{path}: has no trace.toml; a folder with trace.toml and layers.csv was expected")
    return Trace.load(folder)
