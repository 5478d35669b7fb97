"""How long pictures and trace files of large timelines take."""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pipesim.base.arrays import Ragged
from pipesim.core.program import BACKWARD, FORWARD, Program
from pipesim.core.timeline import Timeline
from pipesim.display import figures, timeline_files

Ints = NDArray[np.int64]


def pipeline(devices: int, microbatches: int) -> Timeline:
    """All forwards, then all backwards, and no transfers: spans as an engine makes them, without waiting for one."""
    lane = np.repeat(np.arange(devices), 2 * microbatches)
    kind = np.tile(np.repeat([FORWARD, BACKWARD], microbatches), devices)
    microbatch = np.tile(np.arange(microbatches), 2 * devices)
    forward, backward = 1_000_000, 2_000_000
    all_forwards = (devices - 1 + microbatches) * forward
    start = np.where(
        kind == FORWARD,
        (lane + microbatch) * forward,
        all_forwards + (devices - 1 - lane + microbatch) * backward,
    )
    duration = np.where(kind == FORWARD, forward, backward)
    program = _program(kind, lane, microbatch, duration)
    return Timeline(program, start, start + duration, "closed form")


def _program(kind: Ints, lane: Ints, microbatch: Ints, duration: Ints) -> Program:
    devices, microbatches = int(lane.max()) + 1, int(microbatch.max()) + 1
    tasks, none = len(kind), np.zeros(len(kind), np.int64)
    memory = np.where(kind == FORWARD, 1, -1) * 2**20
    return Program(
        sharing="none",
        transfers="eager",
        devices=tuple(f"gpu{i}" for i in range(devices)),
        media=(),
        capacity=np.zeros(0),
        kind=kind,
        stage=lane,
        microbatch=microbatch,
        lane=lane,
        source=lane,
        target=lane,
        duration=duration,
        delay=none,
        size=np.zeros(tasks),
        limit=np.full(tasks, np.inf),
        order=Ragged.of_pairs(devices, lane, np.arange(tasks)),
        needs=Ragged.of_lengths(none, np.zeros(0, np.int64)),
        route=Ragged.of_lengths(none, np.zeros(0, np.int64)),
        memory_start=np.maximum(memory, 0),
        memory_end=np.minimum(memory, 0),
        static_memory=np.full(devices, 2**30),
        memory=np.full(devices, 16 * 2**30),
        microbatches=microbatches,
        samples=microbatches,
        flops=None,
        peak_flops=None,
    )


def seconds(work: Callable[[], object]) -> str:
    """How long this takes, once."""
    start = time.perf_counter()
    work()
    return f"{time.perf_counter() - start:.2f} s"


def rows() -> list[tuple[str, str, str]]:
    """(what, measured, bar)."""
    large, huge = pipeline(64, 782), pipeline(128, 3907)
    with tempfile.TemporaryDirectory() as folder:
        png, trace = Path(folder) / "gantt.png", Path(folder) / "trace.json"
        figures.gantt(pipeline(4, 8), png)  # matplotlib's first picture pays for its fonts
        return [
            (f"Gantt chart of {len(large.program):,} spans, PNG", seconds(lambda: figures.gantt(large, png)), "2 s"),
            (f"Gantt chart of {len(huge.program):,} spans, PNG", seconds(lambda: figures.gantt(huge, png)), "5 s"),
            (f"memory of {len(huge.program):,} tasks, PNG", seconds(lambda: figures.memory(huge, png)), "5 s"),
            (
                f"Chrome trace of {len(huge.program):,} tasks",
                seconds(lambda: timeline_files.chrome(huge, trace)),
                "5 s",
            ),
        ]


if __name__ == "__main__":
    for what, measured, bar in rows():
        print(f"{what:50} {measured:>10}   (bar: {bar})")
