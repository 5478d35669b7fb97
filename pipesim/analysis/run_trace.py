"""A trace from a recorded run: each stage is a layer, and each recorded microbatch a joint sample of all of them."""

import numpy as np

from pipesim.base import units
from pipesim.base.arrays import Floats
from pipesim.core import recorded_run as runs
from pipesim.core.recorded_run import RecordedRun
from pipesim.core.trace import Trace

_PHASES = {
    runs.FORWARD: "forward_s",
    runs.BACKWARD: "backward_s",
    runs.INPUT: "backward_input_s",
    runs.WEIGHT: "backward_weight_s",
}


def trace_of_run(run: RecordedRun, name: str) -> Trace:
    """The computing times of a run as a trace; microbatches that lack a computation are left out.

    A message has the median of the bytes that stages sent, where the run has them.
    """
    rows = np.flatnonzero(run.is_computation)
    sample = (run.step[rows] * run.layout.dp + run.replica[run.rank[rows]]) * run.microbatches + run.microbatch[rows]
    stages, kinds = run.layout.stages, np.unique(run.kind[rows]).tolist()
    seconds: Floats = np.full((len(_PHASES), stages, int(sample.max(initial=-1)) + 1), np.nan)
    seconds[run.kind[rows], run.stage[rows], sample] = (run.end[rows] - run.start[rows]) / units.NS_PER_S
    whole = np.flatnonzero(~np.isnan(seconds[kinds]).any(axis=(0, 1)))
    columns = {_PHASES[kind]: seconds[kind][:, whole].ravel() for kind in kinds}
    layer = np.repeat(np.arange(stages), len(whole))
    sizes = np.array([_message(run, stage) for stage in range(stages)])
    notes = [f"each layer is a stage of the recorded run {run.source}"]
    if not sizes.any():
        notes.append("the run has no bytes of messages: transfers take their latency only")
    return Trace(
        model=name,
        source="recorded run",
        microbatch_size=1,
        layers={
            "layer": layer,
            "name": np.array([f"stage{n}" for n in layer], object),
            "sample": np.tile(np.arange(len(whole)), stages),
            "output_bytes": sizes[layer],
            **columns,
        },
        samples="microbatch",
        notes=tuple(notes),
    )


def _message(run: RecordedRun, stage: int) -> int:
    """Bytes that a stage sends to the next."""
    sent = run.size[(run.kind == runs.SEND_ACTIVATION) & (run.stage == stage)]
    known = sent[~np.isnan(sent)]
    return int(np.median(known)) if len(known) else 0
