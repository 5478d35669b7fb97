"""The compiled engine beside the same loops in C, built with the system's compiler where there is one."""

import ctypes
import shutil
import statistics
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import DTypeLike, NDArray

import bench_compiled
import bench_event
from pipesim.base.arrays import Ragged
from pipesim.core.program import Program
from pipesim.engines import compiled

Row = tuple[str, str, str]
Ints = NDArray[np.int64]
Play = Callable[[], tuple[Ints, Ints]]

FOLDER = Path(__file__).parent
LOOPS = {"fifo": "fifo.c", "channel": "fifo.c", "fair": "fair.c"}  # of each sharing that C plays
# No multiplication and addition in one, which would round once where the engine rounds twice.
CC = ("-O2", "-std=c11", "-ffp-contract=off", "-shared", "-fPIC")
FIFO_RUNS = {(16, 64): 300, (128, 1024): 9}  # (stages, microbatches) -> runs of each, in turn


class _Ragged(ctypes.Structure):
    _fields_ = (("starts", ctypes.c_void_p), ("values", ctypes.c_void_p))


class _Columns(ctypes.Structure):
    """`Program` of loop.h."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("tasks", "lanes", "media")),
        *((name, ctypes.c_void_p) for name in ("lane", "duration", "delay", "used", "limit", "capacity")),
        *((name, _Ragged) for name in ("needs", "order", "route")),
        ("start", ctypes.c_void_p),
        ("end", ctypes.c_void_p),
    )


def compiler() -> str | None:
    """The system's C compiler, if there is one."""
    return shutil.which("cc")


@contextmanager
def loop() -> Iterator[Callable[[Program], Play]]:
    """The loops in C, compiled into a folder that goes away: a program -> a call for start and end of every task.

    The columns are found when the call is made, so that what Python takes for that is not counted.
    """
    with tempfile.TemporaryDirectory() as folder:
        plays = {source: _built(Path(folder), source) for source in set(LOOPS.values())}
        yield lambda program: _call(plays, program)


def _built(folder: Path, source: str) -> Callable[[object], bool]:
    library = folder / source.replace(".c", ".so")
    subprocess.run([str(compiler()), *CC, "-o", str(library), str(FOLDER / source), "-lm"], check=True)
    play = ctypes.CDLL(str(library)).play
    play.restype, play.argtypes = ctypes.c_bool, [ctypes.POINTER(_Columns)]
    found: Callable[[object], bool] = play
    return found


def _call(plays: dict[str, Callable[[object], bool]], program: Program) -> Play:
    changing = program.lane_speeds or program.media_speeds or program.buckets
    if program.sharing not in LOOPS or changing or len(program.alike):
        raise ValueError(f"the loops in C play sharing {', '.join(LOOPS)} at steady speeds, without folded transfers")
    held = list[NDArray[np.generic]]()  # what the call reads must not be freed before it

    def address(column: NDArray[np.generic], dtype: DTypeLike = np.int64) -> int:
        held.append(np.ascontiguousarray(column, dtype))
        return held[-1].ctypes.data

    def ragged(rows: Ragged) -> _Ragged:
        return _Ragged(address(rows.starts), address(rows.values))

    columns = _Columns(
        *(len(program), len(program.devices), len(program.media)),
        *(address(column) for column in (program.lane, program.duration, program.delay)),
        *(address(column, np.float64) for column in (program.used, program.limit, program.capacity)),
        *(ragged(rows) for rows in (program.needs, program.order, program.route)),
    )
    play = plays[LOOPS[program.sharing]]

    def call() -> tuple[Ints, Ints]:
        start, end = np.empty(len(held[0]), np.int64), np.empty(len(held[0]), np.int64)
        columns.start, columns.end = start.ctypes.data, end.ctypes.data
        if not play(ctypes.byref(columns)):
            raise MemoryError(f"the loop in C has no memory for {len(held[0])} tasks")
        return start, end

    return call


def rows() -> list[Row]:
    """(what, measured, bar) for the tables of benchmarks/README.md."""
    if compiler() is None:
        return [
            ("the compiled engine beside the same loops in C", "not measured: there is no C compiler (cc) here", "")
        ]
    with loop() as made:
        fifo = [
            row
            for shape, runs in FIFO_RUNS.items()
            for row in _beside(made, f"fifo {shape}", bench_event.program(*shape, "fifo"), runs, "≤ 4")
        ]
        fair = [row for what, case in fair_programs().items() for row in _beside(made, what, *case, "≤ 3")]
        return fifo + fair


def fair_programs() -> dict[str, tuple[Program, int]]:
    """What is measured under fair sharing, and runs of each."""
    return {
        "fair (16, 64)": (bench_event.program(16, 64, "fair"), 100),
        "fair (16, 64), all messages through NICs of four servers": (bench_compiled.behind_nics("fair"), 100),
        "fair, 1,000 flows on 1,024 GPUs": (bench_compiled.waves_of_flows(1000, 4), 20),
        "fair, 3,000 flows over 600 links": (bench_compiled.joined_flows(3000, 600), 5),
    }


def _beside(made: Callable[[Program], Play], what: str, program: Program, runs: int, bar: str) -> list[Row]:
    """Both from the same columns to start and end of every task, in turn; the compiled engine's kernels are there."""
    play = made(program)
    _check(program, *play())
    pairs = [(bench_event.seconds(lambda: compiled.run(program)), bench_event.seconds(play)) for _ in range(runs)]
    engine, plain = zip(*pairs, strict=True)
    least, middle = min(engine) / min(plain), statistics.median(engine) / statistics.median(plain)
    per_task = [min(times) / len(program) * 1e9 for times in (engine, plain)]
    title = f"{what}: times the time of the same loop in C, least of {len(pairs)} runs each"
    return [
        (title, f"{least:.1f}", bar),
        ("... medians", f"{middle:.1f}", bar),
        ("... ns per task: compiled engine, C; the same makespan", f"{per_task[0]:,.0f}, {per_task[1]:,.0f}", ""),
    ]


def _check(program: Program, start: Ints, end: Ints) -> None:
    """Times may be compared only of what comes to the same, to the nanosecond."""
    timeline = compiled.run(program)
    if not (np.array_equal(timeline.start, start) and np.array_equal(timeline.end, end)):
        raise ValueError(f"the loop in C ends at {end.max()} ns, the compiled engine at {timeline.makespan} ns")


if __name__ == "__main__":
    for row in rows():
        print(" | ".join(row))
