"""Which column of a table of operations holds what, as a user or a preset states it.

[columns]                       what operations have: the heading of the column with it
step = "iteration"
operation = "op"
start = "begin_ms"
duration = "ms"                 or end
[operations]                    what is in the column of operations: the kind, and who takes part in a collective
fwd = "forward"
allreduce_dp = "collective data"
[table]
time_unit = "ms"                default: s
clocks = "separate"             each rank counts from a start of its own in every step; default: shared
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipesim.base import lookup, serialisation
from pipesim.base.checks import check_one_of
from pipesim.base.errors import InputError, shown, within
from pipesim.core.recorded_run import COLLECTIVE, KINDS
from pipesim.importers.operations.operation_columns import MEMBERS, Members

REQUIRED = ("step", "rank", "operation", "start")
NUMBERS = ("step", "rank", "chunk", "stage", "position", "replica", "microbatch", "order", "match")
TIMES = ("start", "end", "duration")
TEXTS = ("operation", "name", "run")
ROLES = {
    "step": "the training step",
    "rank": "the number of the rank",
    "operation": "what it is, see [operations]",
    "name": "its name, if that is another column",
    "start": "its start",
    "end": "its end",
    "duration": "or how long it took",
    "microbatch": "the microbatch of a forward or backward; negative: none",
    "chunk": "which of the stages of its rank",
    "stage": "the stage of the whole pipeline, chunks counted",
    "position": "the place of its rank in the pipeline",
    "replica": "the data-parallel copy of its rank",
    "bytes": "how many it sends, receives or reduces",
    "order": "a number that rises with operations of one kind",
    "match": "a number that a send and its receive, or the members of a collective, have in common",
    "run": "which run, where a table has several",
}
TIME_UNITS = {"s": 1e9, "ms": 1e6, "us": 1e3, "ns": 1.0}
_SHORT = {"F": "forward", "B": "backward", "I": "input", "W": "weight"}


@dataclass(frozen=True, slots=True)
class ColumnMapping:
    """The columns of a table, what its operations are, and the unit of its times."""

    columns: Mapping[str, str]
    operations: Mapping[str, str] = field(default_factory=dict)
    time_unit: str = "s"
    separate_clocks: bool = False

    def __post_init__(self) -> None:
        with within("columns"):
            for role, heading in self.columns.items():
                if role not in ROLES:
                    raise InputError(f"operations have no {shown(role)}; {lookup.suggest(str(role), list(ROLES))}")
                if not isinstance(heading, str):
                    raise InputError(f"{role}: {shown(heading)} found; the heading of a column was expected")
            for role in REQUIRED:
                if role not in self.columns:
                    raise InputError(f"{role!r} is missing: {ROLES[role]}; {', '.join(REQUIRED)} are needed")
            if len({"end", "duration"} & set(self.columns)) != 1:
                raise InputError("either 'end' or 'duration' was expected")
        with within("operations"):
            for value in self.operations.values():
                kind_of(value)
        check_one_of("time_unit", self.time_unit, TIME_UNITS)

    def kind(self, operation: str) -> tuple[int, Members] | None:
        """The kind of an operation and who takes part in it; None if nothing states it."""
        if operation in self.operations:
            return kind_of(self.operations[operation])
        known = _SHORT.get(operation, operation)
        return kind_of(known) if known in KINDS else None

    def fits(self, headings: Collection[str]) -> bool:
        """Whether a table with these headings has all columns."""
        return set(self.columns.values()) <= set(headings)


def kind_of(text: object) -> tuple[int, Members]:
    """The kind, and who takes part, of "forward" or "collective data"."""
    words = text.split() if isinstance(text, str) else []
    kind = words[0] if words else ""
    members = words[1] if len(words) > 1 else ""
    if kind not in KINDS or members not in MEMBERS or len(words) > 2 or (members and kind != KINDS[COLLECTIVE]):
        raise InputError(
            f"{shown(text)} found; one of {', '.join(KINDS)} was expected, a collective with who takes part in it: "
            f"{', '.join(f'collective {one}' for one in MEMBERS if one)}"
        )
    return KINDS.index(kind), members


def mapping_of(data: Mapping[str, Any]) -> ColumnMapping:
    """The mapping in a file with the tables columns, operations and table."""
    for key, value in data.items():
        if key not in {"columns", "operations", "table"}:
            raise InputError(f"{shown(key)} found; the tables columns, operations and table were expected")
        if not isinstance(value, dict):
            raise InputError(f"{key}: {shown(value)} found; a table was expected")
    about = data.get("table", {})
    for key in about:
        if key not in {"time_unit", "clocks"}:
            raise InputError(f"table: {shown(key)} found; time_unit and clocks were expected")
    clocks = about.get("clocks", "shared")
    check_one_of("clocks", clocks, ("shared", "separate"))
    return ColumnMapping(
        data.get("columns", {}), data.get("operations", {}), about.get("time_unit", "s"), clocks == "separate"
    )


def mapping_named(name: str) -> ColumnMapping:
    """A preset, or the mapping in a .toml or .json file."""
    if name in PRESETS:
        return PRESETS[name]
    path = Path(name)
    if path.suffix not in {".toml", ".json"}:
        raise InputError(
            f"columns = {shown(name)} found; {lookup.suggest(name, list(PRESETS))}, or a .toml file with the tables "
            "columns and operations"
        )
    data = serialisation.read_data(path)
    with within(str(path)):
        return mapping_of(data)


# The columns that `table_of_run` writes, in order; times are whole nanoseconds.
OWN_COLUMNS = {
    "step": "step", "rank": "rank", "replica": "replica", "position": "position", "operation": "kind", "name": "name",
    "stage": "stage", "microbatch": "microbatch", "match": "match", "start": "start_ns", "end": "end_ns",
    "bytes": "bytes",
}  # fmt: skip

PRESETS = {
    # Written by pipesim itself.
    "pipesim": ColumnMapping(OWN_COLUMNS, time_unit="ns"),
    # Operations of production jobs, as in the artifact of "Understanding Stragglers in Large Model Training Using
    # What-if Analysis" (OSDI 2025).
    "straggler_analysis": ColumnMapping(
        {
            "step": "step", "rank": "rank", "operation": "optype", "start": "start_ts", "duration": "duration",
            "replica": "dp_rank", "position": "stage", "chunk": "mc", "microbatch": "mb_id", "order": "seq_id",
        },
        {
            "forward-compute": "forward",
            "backward-compute": "backward",
            "forward-send": "send_activation",
            "forward-recv": "receive_activation",
            "backward-send": "send_gradient",
            "backward-recv": "receive_gradient",
            "params-all-gather": "collective data",
            "grads-reduce-scatter": "collective data",
            "embedding-grads-all-reduce": "collective replica",
            "layernorm-grads-all-reduce": "collective tensor",
            "optimizer-clip-main-grad": "collective all",
            "optimizer": "optimizer",
            "gc": "other",
        },
    ),
    # Forwards and backwards of a pipeline per rank and iteration, each rank from a start of its own.
    "pipeline_dump": ColumnMapping(
        {
            "step": "iteration", "rank": "rank", "operation": "phase", "start": "start_s", "end": "end_s",
            "microbatch": "microbatch", "chunk": "chunk", "run": "run",
        },
        separate_clocks=True,
    ),
}  # fmt: skip
