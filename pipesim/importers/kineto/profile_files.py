"""Recognition of profiles of PyTorch, compressed or not, and of folders that hold nothing else."""

import re
from pathlib import Path

from pipesim.importers.compressed import beginning, inflated_beginning
from pipesim.importers.detect import BEGINNING

# How a profile begins: with its header, or with the events themselves.
_START = re.compile(r'\s*(\{\s*"(schemaVersion|deviceProperties|distributedInfo|traceEvents)"|\[\s*\{[^{}]*"ph"\s*:)')
SUFFIXES = (".json", ".json.gz")


def is_profile(data: bytes, _: str) -> bool:
    """Whether a file begins as a profile of PyTorch does."""
    return _START.match(inflated_beginning(data, BEGINNING)) is not None


def is_folder_of_profiles(path: Path) -> bool:
    """Whether a folder has .json files, and only such as are profiles."""
    if not path.is_dir():
        return False
    found = profiles_in(path)
    return bool(found) and all(_START.match(beginning(file, BEGINNING)) for file in found)


def profiles_in(folder: Path) -> list[Path]:
    """The files of a folder that can be profiles, in order of their names."""
    return sorted(file for file in folder.iterdir() if file.name.endswith(SUFFIXES) and file.is_file())
