"""Opening a recorded run from files of any format that holds one."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pipesim.base import files, lookup
from pipesim.base.errors import InputError
from pipesim.core.recorded_run import RecordedRun
from pipesim.importers import RUNS
from pipesim.importers.chakra import is_execution_trace
from pipesim.importers.detect import BEGINNING
from pipesim.importers.operations.operation_columns import RunFacts
from pipesim.importers.operations.operation_table import preset_for
from pipesim.importers.operations.pipeline_dumps import is_dump
from pipesim.importers.operations.run_assembly import NO_FACTS

_TABLES = (".parquet", ".csv")


def run_format(path: Path) -> str | None:
    """The format of a recorded run in this file or folder; None if it is none that is recognised."""
    if not path.exists() or path.is_fifo():
        return None
    if is_dump(path):
        return "pipeline_dump"
    if path.is_file() and preset_for(path) is not None:
        return "table"
    return None


def trace_format(path: Path) -> str | None:
    """The format of a file that can be a recorded run or a trace of layers, where it is one of a rank of a run."""
    if not path.is_file():
        return None
    data = files.read_bytes(path, BEGINNING)
    return "chakra" if is_execution_trace(data, "") else None


def open_run(
    paths: Sequence[Path],
    form: str | None = None,
    *,
    columns: str | None = None,
    run: str | None = None,
    facts: RunFacts = NO_FACTS,
) -> RecordedRun:
    """The recorded run in these files.

    `form` names the format; default: as the first file looks. `columns` and `run` are as for tables of operations.
    """
    if not paths:
        raise InputError("no file to read; at least one was expected")
    form = (
        form
        or ("table" if columns is not None else run_format(paths[0]) or trace_format(paths[0]))
        or _if_table(paths[0])
    )
    read = lookup.resolve(form, RUNS, "format of runs")
    options: dict[str, Any] = {"columns": columns, "run": run} if form == "table" else {}
    found = read(paths[0] if len(paths) == 1 else tuple(paths), facts=facts, **options)
    if not isinstance(found, RecordedRun):
        raise InputError(f"format {form!r}: returned a {type(found).__name__}; a recorded run was expected")
    return found


def _if_table(path: Path) -> str:
    """The format of tables, whose columns are then stated as unknown; else a refusal."""
    if path.exists() and set(path.suffixes) & set(_TABLES):
        return "table"
    if not path.exists():
        raise InputError(f"{path}: no such file")
    raise InputError(
        f"{path}: holds no recorded run of a known format; a table of operations (.parquet, .csv), or dumps of a "
        "pipeline (pp_rank_0.json, ...) were expected"
    )
