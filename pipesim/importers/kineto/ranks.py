"""The files of one run, one per rank."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from pipesim.base.errors import InputError, within
from pipesim.importers.kineto.events import Events
from pipesim.importers.kineto.profile_files import profiles_in
from pipesim.importers.kineto.reading import read


def files_of(path: Path | Sequence[Path]) -> list[Path]:
    """One file, several, or all profiles in a folder."""
    if not isinstance(path, Path):
        if not path:
            raise InputError("no file found; at least one was expected")
        return [file for one in path for file in files_of(one)]
    if not path.is_dir():
        return [path]
    found = profiles_in(path)
    if not found:
        raise InputError(f"{path}: is a folder without .json or .json.gz files; the profiles of a run were expected")
    return found


def events_by_rank(path: Path | Sequence[Path]) -> Iterator[tuple[int, Events]]:
    """The events of each file with its rank: from the file, or from its name (rank3), or its place among the files."""
    seen: dict[int, str] = {}
    for place, file in enumerate(files_of(path)):
        events = read(file)
        rank = place if events.rank is None else events.rank
        with within(str(file)):
            if rank in seen:
                raise InputError(f"is of rank {rank}, as is {seen[rank]}; one file for each rank was expected")
        seen[rank] = file.name
        yield rank, events


def title(path: Path | Sequence[Path]) -> str:
    """The name of the model: that of the file without suffix and rank, or that of its folder."""
    first = path if isinstance(path, Path) else files_of(path)[0]
    stem = first.name.partition(".")[0]
    return re.sub(r"\W*_?rank[-_]?\d+$", "", stem) or first.absolute().parent.name or "model"
