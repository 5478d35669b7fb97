"""Sweeps: two processes beside one, and what it costs to put a large grid down and to find what is left of it."""

import itertools
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from pipesim.studies import sweep
from pipesim.studies.store import Store

Row = tuple[str, str, str]
POINTS, REPEATS = 2000, 3
LARGE = 100_000

# Points that differ in a number that changes the result and not the work: all take the same time.
EXPERIMENT = """
format = "pipesim.sweep"
version = 1
[simulate]
trace = "bert-large"
cluster = 'flat(4, bandwidth="1GB/s")'
planner = "uniform"
microbatches = {microbatches}
[grid]
optimizer_s_per_byte = {{ from = 1e-12, to = 2e-12, count = {points} }}
[output]
metrics = ["iteration_time_s", "peak_memory_bytes"]
"""


def seconds(call: Callable[[], object]) -> float:
    """Seconds of one call."""
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def written(folder: Path, points: int, microbatches: int) -> sweep.Sweep:
    """An experiment of so many points."""
    path = folder / "experiment.toml"
    path.write_text(EXPERIMENT.format(points=points, microbatches=microbatches), encoding="utf-8")
    return sweep.load(path)


def rows() -> list[Row]:
    """(what, measured, bar) for the tables of benchmarks/README.md."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        numbers = itertools.count()
        microbatches = _for_7_ms(folder, numbers)
        made = written(folder, POINTS, microbatches)

        def run(workers: int) -> float:
            place = folder / f"{next(numbers)}.sqlite"
            return seconds(lambda: sweep.run(made, store=place, workers=workers))

        # Side by side, in turn, so that both see the same noise.
        pairs = [(run(1), run(2)) for _ in range(REPEATS)]
        one = min(pair[0] for pair in pairs)
        speed = statistics.median(first / second for first, second in pairs)
        return [
            (
                f"{POINTS} points of {1e3 * one / POINTS:.1f} ms: two processes beside one, start included",
                f"{speed:.2f} times ({', '.join(f'{a / b:.2f}' for a, b in pairs)})",
                "≥ 1.85",
            ),
            *_large(folder),
        ]


def _for_7_ms(folder: Path, numbers: "itertools.count[int]") -> int:
    """So many microbatches that a point takes about 7 ms here."""
    each = []
    for microbatches in (8, 40):
        made = written(folder, 60, microbatches)
        place = folder / f"{next(numbers)}.sqlite"
        each.append(seconds(lambda m=made, p=place: sweep.run(m, store=p, workers=1)) / 60)
    slope = max((each[1] - each[0]) / 32, 1e-6)
    return max(1, round(8 + (0.007 - each[0]) / slope))


def _large(folder: Path) -> list[Row]:
    """Putting down a large grid, and finding what is left of it."""
    made = written(folder, LARGE, 8)
    began = time.perf_counter()
    _, keyed = sweep.read(made)
    read = time.perf_counter() - began
    with Store.open(folder / "large.sqlite", create=True) as store:
        put = seconds(lambda: store.enlist(made.experiment(keyed), keyed))
        found = seconds(lambda: store.pending(made.name, "event"))
    return [
        (f"{LARGE:,} points: read and hashed", f"{LARGE / read:,.0f} per second", ""),
        ("... put down", f"{LARGE / put:,.0f} per second", ""),
        ("... asked what is left", f"{found:.2f} s", ""),
    ]
