"""Spoilt files of every format that pipesim imports, read as traces, programs and recorded runs: read, or refused."""

import functools
import random
import tempfile
from pathlib import Path

from helpers.recorded_runs import pipelined
from helpers.spoiling import spoilt
from helpers.spoilt_files import FILES, judge
from pipesim.base import lookup, tables
from pipesim.base.errors import InputError
from pipesim.core.recorded_run import RunLayout
from pipesim.engines import event
from pipesim.importers import IMPORTERS, PROGRAMS
from pipesim.importers.detect import importer_for
from pipesim.importers.opening import open_trace
from pipesim.importers.operations.operation_table import table_of_run
from pipesim.importers.run_opening import open_run
from pipesim.lowering.recorded_steps import recorded_step
from pipesim.topologies.flat import flat

FILES_OF_A_SEED = 10
RUNS_PART = 0.2  # of the seeds are about recorded runs


@functools.cache
def import_all_readers() -> None:
    """Read a sound file of each format: modules imported on the way are no memory that a spoilt file needs."""
    for make in FILES.values():
        with tempfile.TemporaryDirectory() as folder:
            forms, paths = make(Path(folder))
            for form in forms:
                open_trace(paths, form)


def attempt(seed: int) -> str:
    """Some spoilt files of one format, each by itself."""
    import_all_readers()
    rng = random.Random(seed)
    if rng.random() < RUNS_PART:
        return _attempt_run(rng)
    name = rng.choice(list(FILES))
    way = rng.choice(["trace", "trace", "guess", *(["run"] if name in PROGRAMS else [])])
    with tempfile.TemporaryDirectory() as folder:
        forms, paths = FILES[name](Path(folder))
        targets = [paths[0] / file for file in ("layers.csv", "trace.toml")] if name == "native" else paths
        whole = {path: path.read_bytes() for path in targets}
        for turn in range(FILES_OF_A_SEED):
            path = rng.choice(targets)
            data = spoilt(whole[path], rng)
            path.write_bytes(data)
            if way == "guess":
                _guess(path)
            else:
                judge(_reader(way, name, rng.choice(forms), paths, rng), paths[0], data, f"{name} {turn}")
            path.write_bytes(whole[path])
    return f"{name}, as a {way}: {FILES_OF_A_SEED} files"


def _guess(path: Path) -> None:
    try:
        assert importer_for(path) in IMPORTERS
    except InputError as error:
        assert path.stem.partition(".")[0] in str(error), f"names no file: {error}"  # noqa: PT017 - either is right


def _reader(way: str, name: str, form: str, paths: list[Path], rng: random.Random):
    if way == "trace":
        return lambda: open_trace(paths, form)
    make, transfers = lookup.resolve(name, PROGRAMS, "format"), rng.choice(["eager", "rendezvous"])
    return lambda: event.run(make(paths, flat(2, bandwidth="1GB/s"), transfers=transfers)).verify()


def _attempt_run(rng: random.Random) -> str:
    """Some spoilt tables of operations; what can be read is replayed, and checked."""
    run = pipelined(RunLayout(2, vpp=rng.choice((1, 2))), microbatches=2, steps=2)
    suffix = rng.choice((".csv", ".parquet"))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"run{suffix}"
        tables.write(path, table_of_run(run))
        whole = path.read_bytes()
        open_run([path])
        for turn in range(FILES_OF_A_SEED):
            data = spoilt(whole, rng)
            path.write_bytes(data)
            judge(lambda: _replayed(path), path, data, f"run {turn}", 2**21)
    return f"recorded runs in {suffix}: {FILES_OF_A_SEED} files"


def _replayed(path: Path) -> None:
    found = open_run([path], "table", columns="pipesim")
    for position in range(len(found.steps)):
        event.run(recorded_step(found, position).program).verify()
