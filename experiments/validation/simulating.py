"""A description -> seconds and bytes, or the sentence with which it was refused."""

from dataclasses import dataclass
from typing import Any

import pipesim as ps
from pipesim.analysis import metrics
from pipesim.studies.simulation import FIELDS

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
    try:
        result = ps.simulate(**(description if "tensor" in FIELDS else _before_teams(description)))
    except ps.PipesimError as error:
        return Outcome(refused=str(error).splitlines()[0])
    timeline = result.timeline
    longest = metrics.longest_stage(timeline) * 1e-9
    return Outcome(result.iteration_time, longest, int(metrics.peak_memory(timeline).max()))


def _before_teams(description: Description) -> Description:
    """The same in the fields that there were before teams, as far as these can express it."""
    given = dict(description)
    width, pipeline, data, chunks = (given.pop(name) for name in ("tensor", "pipeline", "data", "interleave"))
    for name in ("framework", "sequence_parallel", "sharding", "gradient_overlap", "gradient_precision"):
        given.pop(name, None)
    unsupported = [f"tensor = {width}"] if width > 1 and isinstance(given["trace"], str) else []
    unsupported += [name for name in ("context", "expert") if name in given]
    if given["precision"] == "fp8":
        unsupported.append("calibrated fp8")
    if unsupported:
        raise ps.PipesimError(f"not yet: {', '.join(unsupported)}")
    sequence, precision = given.pop("sequence"), given.pop("precision")
    if isinstance(given["trace"], str):
        expression = given.pop("trace")[:-1]
        sizes = f"sequence={sequence}, microbatch={given['microbatch_size']}, precision={precision!r}"
        given["architecture"] = f"{expression}, {sizes})"
        given.pop("microbatch_size")
    total = given.pop("global_batch")
    size = description["microbatch_size"]
    given["microbatches"] = total // size
    if "planner" not in given:
        given["planner"] = f"megatron(pipeline={pipeline}, data={data}, interleave={chunks})"
    elif data > 1:
        raise ps.PipesimError("not yet: a stated layout with several replicas")
    return given
