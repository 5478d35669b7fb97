"""A ledger of a step: nanoseconds by cause, which sum to the step exactly, and the step without each of them.

Causes are removed from a program one after the other, in the order of `removed_causes`, and what is left is simulated
after each: the line of a cause is by how much the step becomes shorter. What is left at the end is the line
`ideal_compute`. The first line of a recorded step is `launch_gaps`: nothing waits for the host, or for what is not in
the record.

A line may be negative: with less work, tasks that wait for each other can come in a worse order.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from pipesim.analysis.removed_causes import CAUSES, Makespan, RecordedRemoval, Removal, Straggler
from pipesim.base import units
from pipesim.base.errors import InputError
from pipesim.core.program import Program
from pipesim.lowering.recorded_steps import RecordedStep

IDEAL = "ideal_compute"
GAPS = "launch_gaps"


@dataclass(frozen=True, slots=True)
class Line:
    """A cause: its nanoseconds of the step, and how long the step is with this cause alone removed."""

    cause: str
    ns: int
    without_ns: int


@dataclass(frozen=True, slots=True)
class Ledger:
    """The lines of a step of `step_ns`, the last of them what is left; and what straggles most."""

    step_ns: int
    lines: tuple[Line, ...]
    stragglers: tuple[Straggler, ...] = ()

    def __post_init__(self) -> None:
        found = sum(line.ns for line in self.lines)
        if found != self.step_ns:
            raise InputError(f"lines: a sum of {found} ns found; {self.step_ns} ns, the step, was expected")

    @property
    def ideal_ns(self) -> int:
        """The step with all causes removed."""
        return self.lines[-1].ns

    def as_data(self) -> dict[str, Any]:
        """Plain numbers: whole nanoseconds, which sum exactly, and seconds."""
        return {
            "step_ns": self.step_ns,
            "step_s": units.to_s(self.step_ns),
            "lines": [
                {
                    "cause": line.cause,
                    "ns": line.ns,
                    "seconds": units.to_s(line.ns),
                    "share": line.ns / self.step_ns if self.step_ns else 0.0,
                    "step_without_s": units.to_s(line.without_ns),
                }
                for line in self.lines
            ],
            "without_all_s": units.to_s(self.ideal_ns),
            "stragglers": [
                {"what": one.what, "number": one.number, "step_without_s": units.to_s(one.without_ns)}
                for one in self.stragglers
            ],
        }


def ledger(program: Program, makespan: Makespan) -> Ledger:
    """The ledger of a program; `makespan` simulates one, to nanoseconds. Causes that it does not have are left out."""
    return _ledger(Removal(program), makespan)


def _ledger(removal: Removal, makespan: Makespan) -> Ledger:
    step = before = makespan(removal.program)
    lines = []
    for n, cause in enumerate(removal.causes):
        after = removal.time(removal.causes[: n + 1], makespan)
        lines.append(Line(cause, before - after, removal.time([cause], makespan)))
        before = after
    return Ledger(step, (*lines, Line(IDEAL, before, before)), removal.stragglers(makespan))


def recorded_ledger(step: RecordedStep, makespan: Makespan) -> Ledger:
    """The ledger of a recorded step: that of its program without launch gaps, and what these add to it.

    What the step is without another cause has the same launch gaps added.
    """
    recorded, found = makespan(step.program), _ledger(RecordedRemoval(step), makespan)
    gaps = recorded - found.step_ns
    lines = [replace(line, without_ns=line.without_ns + gaps) for line in found.lines[:-1]]
    stragglers = tuple(replace(one, without_ns=one.without_ns + gaps) for one in found.stragglers)
    return Ledger(recorded, (Line(GAPS, gaps, found.step_ns), *lines, found.lines[-1]), stragglers)


def mean_data(ledgers: Sequence[Ledger]) -> dict[str, Any]:
    """The mean of ledgers as plain numbers: a line for each cause that any of them has.

    Where a ledger lacks a cause, it takes no time, and the step without it is the step.
    """
    count = len(ledgers)
    step = units.to_s(sum(one.step_ns for one in ledgers)) / count
    known = [{line.cause: line for line in one.lines} for one in ledgers]
    lines = []
    for cause in (GAPS, *CAUSES, IDEAL):
        if any(cause in each for each in known):
            pairs = list(zip(known, ledgers, strict=True))
            part = units.to_s(sum(each[cause].ns for each in known if cause in each)) / count
            without = sum(each[cause].without_ns if cause in each else one.step_ns for each, one in pairs)
            lines.append({
                "cause": cause, "seconds": part, "share": part / step, "step_without_s": units.to_s(without) / count,
            })  # fmt: skip
    totals: dict[tuple[str, int], int] = {}
    for one in ledgers:
        for each in one.stragglers:
            key = each.what, each.number
            totals[key] = totals.get(key, 0) + each.without_ns - one.step_ns
    stragglers = [
        {"what": what, "number": number, "step_without_s": step + units.to_s(saved) / count}
        for (what, number), saved in sorted(totals.items(), key=lambda item: item[1])
    ]
    ideal = lines[-1]["seconds"]
    return {"step_s": step, "lines": lines, "without_all_s": ideal, "stragglers": stragglers}
