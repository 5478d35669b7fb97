"""The compiled engine beside the same loop in C, built with the system's compiler where there is one."""

import ctypes
import shutil
import statistics
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import bench_event
from pipesim.core.program import Program
from pipesim.engines import compiled

Row = tuple[str, str, str]
Ints = NDArray[np.int64]
Play = Callable[[Program], tuple[Ints, Ints]]

SOURCE = Path(__file__).with_name("loop.c")
QUEUED = ("fifo", "channel")  # the sharings that the C loop plays
RUNS = {(16, 64): 300, (128, 1024): 9}  # (stages, microbatches) -> runs of each, in turn


def compiler() -> str | None:
    """The system's C compiler, if there is one."""
    return shutil.which("cc")


@contextmanager
def loop() -> Iterator[Play]:
    """The loop of loop.c, compiled into a folder that goes away: a program -> start and end of every task."""
    with tempfile.TemporaryDirectory() as folder:
        library = str(Path(folder) / "loop.so")
        subprocess.run([str(compiler()), "-O2", "-std=c11", "-shared", "-fPIC", "-o", library, str(SOURCE)], check=True)
        play = ctypes.CDLL(library).play
        play.restype = ctypes.c_int64
        play.argtypes = [ctypes.c_int64] * 3 + [ctypes.c_void_p] * 10
        yield lambda program: _played(play, program)


def _played(play: Callable[..., int], program: Program) -> tuple[Ints, Ints]:
    if program.sharing not in QUEUED or program.lane_speeds or program.media_speeds:
        raise ValueError(f"loop.c plays sharing {' or '.join(QUEUED)} at steady speeds")
    tasks = len(program)
    start, end = np.empty(tasks, np.int64), np.empty(tasks, np.int64)
    ragged = [column for row in (program.needs, program.order, program.route) for column in (row.starts, row.values)]
    columns = [np.ascontiguousarray(a, np.int64) for a in (program.lane, program.duration, *ragged)]
    last = play(tasks, len(program.devices), len(program.media), *(a.ctypes.data for a in [*columns, start, end]))
    if last < 0:
        raise MemoryError(f"loop.c has no memory for {tasks} tasks")
    return start, end


def rows() -> list[Row]:
    """(what, measured, bar) for the tables of benchmarks/README.md."""
    if compiler() is None:
        return [("the compiled engine beside the same loop in C", "not measured: there is no C compiler (cc) here", "")]
    with loop() as play:
        return [row for shape in RUNS for row in _beside(play, *shape)]


def _beside(play: Play, stages: int, microbatches: int) -> list[Row]:
    """Both from the same columns to start and end of every task, in turn; the compiled engine's kernels are there."""
    program = bench_event.program(stages, microbatches, "fifo")
    _check(program, *play(program))
    pairs = [
        (bench_event.seconds(lambda: compiled.run(program)), bench_event.seconds(lambda: play(program)))
        for _ in range(RUNS[stages, microbatches])
    ]
    engine, plain = zip(*pairs, strict=True)
    least, middle = min(engine) / min(plain), statistics.median(engine) / statistics.median(plain)
    per_task = [min(times) / len(program) * 1e9 for times in (engine, plain)]
    what = f"fifo ({stages}, {microbatches}): times the time of the same loop in C, least of {len(pairs)} runs each"
    return [
        (what, f"{least:.1f}", "≤ 4"),
        ("... medians", f"{middle:.1f}", "≤ 4"),
        ("... ns per task: compiled engine, C; the same makespan", f"{per_task[0]:.0f}, {per_task[1]:.0f}", ""),
    ]


def _check(program: Program, start: Ints, end: Ints) -> None:
    """Times may be compared only of what comes to the same, to the nanosecond."""
    timeline = compiled.run(program)
    if not (np.array_equal(timeline.start, start) and np.array_equal(timeline.end, end)):
        raise ValueError(f"loop.c ends at {end.max()} ns, the compiled engine at {timeline.makespan} ns")


if __name__ == "__main__":
    for row in rows():
        print(" | ".join(row))
