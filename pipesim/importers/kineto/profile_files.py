"""Recognition of profiles of PyTorch, compressed or not, and of folders that hold nothing else."""

import re
from pathlib import Path

from pipesim.base import files
from pipesim.importers.compressed import inflated_beginning
from pipesim.importers.detect import BEGINNING
from pipesim.importers.kineto.nsight import is_nsight

# How a profile begins: with its header, or with the events themselves.
_START = re.compile(r'\s*(\{\s*"(schemaVersion|deviceProperties|distributedInfo|traceEvents)"|\[\s*\{[^{}]*"ph"\s*:)')
SUFFIXES = (".json", ".json.gz", ".sqlite")


def is_profile(data: bytes, _: str) -> bool:
    """Whether a file begins as a profile of PyTorch does, or as an export of Nsight Systems."""
    return is_nsight(data) or _START.match(inflated_beginning(data, BEGINNING)) is not None


def is_folder_of_profiles(path: Path) -> bool:
    """Whether a folder has .json or .sqlite files, and only such as are profiles."""
    if not path.is_dir():
        return False
    found = profiles_in(path)
    return bool(found) and all(is_profile(files.read_bytes(file, BEGINNING), "") for file in found)


def profiles_in(folder: Path) -> list[Path]:
    """The files of a folder that can be profiles, in order of their names."""
    return sorted(file for file in folder.iterdir() if file.name.endswith(SUFFIXES) and file.is_file())
