"""A description -> seconds and bytes, or the sentence with which it was refused."""

from dataclasses import dataclass
from typing import Any

import pipesim as ps
from pipesim.analysis import metrics

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
    if not isinstance(given["trace"], str):  # times that the source states
        given = {
            name: value for name, value in given.items() if name not in {"sequence", "precision", "sequence_parallel"}
        }
    if callable(given.get("planner")):  # has the layout
        given = {name: value for name, value in given.items() if name not in {"pipeline", "data", "interleave"}}
    try:
        result = ps.simulate(**given)
    except ps.PipesimError as error:
        return Outcome(refused=str(error).splitlines()[0])
    timeline = result.timeline
    longest = metrics.longest_stage(timeline) * 1e-9
    return Outcome(result.iteration_time, longest, int(metrics.peak_memory(timeline).max()))
