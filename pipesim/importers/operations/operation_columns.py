"""Operations as a reader finds them, in columns: what is not in the record is None, and is completed in assembly."""

from dataclasses import dataclass
from typing import Literal

from pipesim.base.arrays import Floats, Ints

Members = Literal["", "data", "replica", "tensor", "all"]
# Which ranks take part in a collective: those of the same stage, of the same replica, of the same stage and replica.
MEMBERS: tuple[Members, ...] = ("", "data", "replica", "tensor", "all")


@dataclass(frozen=True, slots=True)
class OperationColumns:
    """One row per operation, in any order. `step` and `rank` are the run's own numbers."""

    step: Ints
    rank: Ints
    kind: Ints  # as in core/recorded_run.py
    name: Ints  # a position in `names`
    names: tuple[str, ...]
    start: Ints  # ns, from any zero that the operations of one rank in one step share
    end: Ints
    members: tuple[Members, ...]  # per name, who takes part if it is a collective; "" where not known
    position: Ints | None = None  # of its rank in the pipeline
    replica: Ints | None = None  # of its rank
    chunk: Ints | None = None  # of the stages of its rank, from 0; negative where it is not about one
    stage: Ints | None = None  # of the whole pipeline; negative where it is not about one
    microbatch: Ints | None = None  # negative where it is not about one
    size: Floats | None = None  # bytes
    order: Ints | None = None  # of operations of one kind on a rank in a step; else by their start
    match: Ints | None = None  # where the record has it; else found by what belongs together


@dataclass(frozen=True, slots=True)
class PlacedOperations:
    """Operations in order of step, rank and start, as they are completed; `step` and `rank` are positions."""

    step: Ints
    rank: Ints
    replica: Ints
    member: Ints  # of its rank, among those of one stage and replica
    kind: Ints
    name: Ints
    stage: Ints  # -1 where it is not about one, or not known
    microbatch: Ints  # as stage
    sequence: Ints  # what rises from operation to operation of one kind on a rank in a step
    start: Ints
    end: Ints


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What a user or a file states about a run beside its operations; None: found from the operations, or 1."""

    dp: int | None = None
    tp: int | None = None
    clocks: Literal["auto", "recorded", "aligned"] = "auto"
    separate_clocks: bool = False  # each rank counts from a start of its own, in every step
    notes: tuple[str, ...] = ()
