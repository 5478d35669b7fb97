"""A description -> seconds and bytes, or the sentence with which it was refused.

Beside fields of `Simulation`, a description may have `sustained`: how much longer passes take on a device that is never
idle than in the profile. A device that is busy for a part of the iteration takes that part of it: at the power limit
the mean power counts. The part is that of a first simulation without it.
"""

from dataclasses import dataclass
from typing import Any

import pipesim as ps
from pipesim.analysis import metrics
from pipesim.core.scenario import Scenario, Slow

Description = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Outcome:
    """Seconds of an iteration and of its longest stage, bytes of the fullest device; or why there are none."""

    seconds: float | None = None
    longest_stage: float | None = None
    peak_bytes: int | None = None
    refused: str = ""


def simulate(description: Description) -> Outcome:
    """Simulate once; a refusal is an outcome too."""
    given = dict(description)
    sustained = given.pop("sustained", 1.0)
    if not isinstance(given["trace"], str):  # times that the source states
        given = {
            name: value for name, value in given.items() if name not in {"sequence", "precision", "sequence_parallel"}
        }
    if callable(given.get("planner")):  # has the layout
        given = {name: value for name, value in given.items() if name not in {"pipeline", "data", "interleave"}}
    try:
        result = ps.simulate(**given)
        if sustained > 1:
            result = ps.simulate(**given, scenario=slowed(result.timeline, sustained))
    except ps.PipesimError as error:
        return Outcome(refused=str(error).splitlines()[0])
    timeline = result.played  # of what is alike one of each, which has the longest stage and the fullest device too
    longest = metrics.longest_stage(timeline) * 1e-9
    return Outcome(result.iteration_time, longest, int(metrics.peak_memory(timeline).max()))


def slowed(timeline: ps.Timeline, sustained: float) -> Scenario:
    """Each device slower by the part of `sustained` that it is busy."""
    busy = metrics.busy(timeline) / timeline.makespan
    names = timeline.program.devices
    return Scenario(
        slow=tuple(Slow(name, 1 + (sustained - 1) * float(part)) for name, part in zip(names, busy, strict=True))
    )
