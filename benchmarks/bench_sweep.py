"""Sweeps: processes beside one, dask beside processes, what points share, and a million points before the first."""

import itertools
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pipesim.studies import sweep
from pipesim.studies.store import Store
from pipesim.studies.sweep.worker import Worker, WorkerConfig

Row = tuple[str, str, str]
POINTS, REPEATS = 2000, 3
LARGE, POINT_S = 1_000_000, 0.005

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
        made = written(folder, POINTS, _for_points_of(POINT_S, folder, numbers))

        def run(**how: object) -> float:
            place = folder / f"{next(numbers)}.sqlite"
            return seconds(lambda: sweep.run(made, store=place, **how))

        # Side by side, in turn, so that both see the same noise.
        pairs = [(run(workers=1), run(workers=2)) for _ in range(REPEATS)]
        one = min(pair[0] for pair in pairs)
        speed = statistics.median(first / second for first, second in pairs)
        return [
            (
                f"{POINTS} points of {1e3 * one / POINTS:.1f} ms: two processes beside one, start included",
                f"{speed:.2f} times ({', '.join(f'{a / b:.2f}' for a, b in pairs)})",
                "≥ 1.90",
            ),
            *_beside_dask(folder, run),
            *_shared(folder),
            *_large(folder),
        ]


def _for_points_of(wanted: float, folder: Path, numbers: "itertools.count[int]") -> int:
    """So many microbatches that a point takes about as long here."""

    def place() -> Path:
        return folder / f"{next(numbers)}.sqlite"

    each = []
    for microbatches in (8, 80):
        few, more = (
            seconds(lambda n=n, m=microbatches: sweep.run(written(folder, n, m), store=place(), workers=1))
            for n in (200, 700)
        )
        each.append((more - few) / 500)  # without what comes before the first
    slope = max((each[1] - each[0]) / 72, 1e-6)
    return max(1, round(8 + (wanted - each[0]) / slope))


# --- dask ------------------------------------------------------------------------------------------------------------


def _beside_dask(folder: Path, run: Callable[..., float]) -> list[Row]:
    """Two machines of four workers each, as dask has them, beside a pool of eight processes; then with its start."""
    with _dask(folder) as address:
        run(workers=8)  # both have imported what they need
        run(dask=address)
        pairs = [(run(workers=8), run(dask=address)) for _ in range(REPEATS)]
    found = [("... dask with 4 + 4 workers, started before, beside a pool of 8: longer by", *_longer(pairs))]
    firsts = list[tuple[float, float]]()  # of the pool and of dask in turn: to the first result, to the last

    def started(**how: object) -> None:
        began, first = time.perf_counter(), list[float]()
        took = run(**how, watch=lambda _: first.append(time.perf_counter() - began))
        firsts.append((first[0], took))

    for _ in range(REPEATS):
        started(workers=8)
        started(workers=8, dask="local")
    pool, dask = (statistics.median(first for first, _ in firsts[n::2]) for n in (0, 1))
    after = [(a[1] - a[0], b[1] - b[0]) for a, b in zip(firsts[::2], firsts[1::2], strict=True)]
    found.append(
        ("... seconds to the first result: the pool, and `--dask local` with 8", f"{pool:.1f}, {dask:.1f}", "")
    )
    return [*found, ("... from there on `--dask local` is longer by", *_longer(after))]


def _longer(pairs: list[tuple[float, float]]) -> tuple[str, str]:
    """By how much the second of each pair takes longer, and the bar."""
    more = statistics.median(dask / pool for pool, dask in pairs) - 1
    each = ", ".join(f"{100 * (dask / pool - 1):.0f}" for pool, dask in pairs)
    return f"{100 * more:.0f} % ({each})", "≤ 10 %"


@contextmanager
def _dask(folder: Path) -> Iterator[str]:
    """The address of a dask scheduler that has eight workers, started by two commands."""
    place = folder / "scheduler.json"
    common = ["--scheduler-file", str(place), "--no-dashboard"]
    workers = ["dask_worker", *common, "--nworkers", "4", "--nthreads", "1"]
    commands = [["dask_scheduler", *common, "--port", "0"], workers, workers]
    started = []
    try:
        for module, *options in commands:
            command = [sys.executable, "-m", f"distributed.cli.{module}", *options]
            started.append(subprocess.Popen(command, stderr=subprocess.DEVNULL))
            while not (place.exists() and place.stat().st_size):
                time.sleep(0.05)
        address = str(json.loads(place.read_text(encoding="utf-8"))["address"])
        from distributed import Client  # noqa: PLC0415 - slow to import

        with Client(address) as client:
            client.wait_for_workers(8, timeout=120)
        yield address
    finally:
        for process in reversed(started):
            process.terminate()
            process.wait()


# --- what points share -----------------------------------------------------------------------------------------------

# Points that differ in what no plan depends on; half of them only in how iterations are drawn.
SHARING = """
format = "pipesim.sweep"
version = 1
[simulate]
trace = "bert-large"
cluster = 'servers(2, 4, intra="25GB/s", inter="10Gb/s")'
planner = "spp"
iterations = 2
jitter = 0.1
[grid]
scheduler = ["one_f_one_b", "auto(among=['gpipe', 'one_f_one_b'])"]
slow = ["node0.gpu0=1.5", "node1.gpu3=1.5"]
seed = [0, 1]
[output]
metrics = ["iteration_time_s", "bound_s", "replay_mean_s"]
"""


def _shared(folder: Path) -> list[Row]:
    """A worker that keeps what points share beside a worker for each point."""
    path = folder / "sharing.toml"
    path.write_text(SHARING, encoding="utf-8")
    made = sweep.load(path)
    config = WorkerConfig(sweep.read(made)[0].values, made.metrics, "auto")
    points = [made.point(number) for number in range(made.size)]

    def together() -> None:
        worker = Worker(config)
        for point in points:
            worker.outcome(b"", point)

    def apart() -> None:
        for point in points:
            Worker(config).outcome(b"", point)

    together()
    pairs = [(seconds(apart), seconds(together)) for _ in range(REPEATS)]
    gain = statistics.median(one / other for one, other in pairs)
    what = f"{len(points)} points of one plan, two schedules and four programs: times faster than each for itself"
    return [(what, f"{gain:.1f} ({', '.join(f'{a / b:.1f}' for a, b in pairs)})", "")]


# --- many points -----------------------------------------------------------------------------------------------------

# What a sweep does before its first point, in a process of its own: its seconds, and the most memory.
BEFORE = """
import json, resource, sys, time
from pipesim.studies import sweep
began = time.perf_counter()
def now():
    return time.perf_counter() - began
class Enough(Exception):
    pass
def watch(progress):
    raise Enough
steps = []
def prepare(found):
    steps.append((now(), found.step, found.done))
try:
    made = sweep.load(sys.argv[1])
    loaded = now()
    sweep.run(made, store=sys.argv[2], workers=1, watch=watch, watch_preparation=prepare)
except Enough:
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    first = {step: when for when, step, done in reversed(steps)}
    longest = max(b[0] - a[0] for a, b in zip(steps, steps[1:]))
    print(json.dumps({"loaded": loaded, "shown": steps[0][0], "whole": now(), "most": most, "first": first,
                      "cpu": time.process_time(),
                      "longest": longest}))
"""


def _large(folder: Path) -> list[Row]:
    """What a large grid takes before its first point, and asking what is left of it."""
    made = written(folder, LARGE, 8)
    place = folder / "large.sqlite"
    command = [sys.executable, "-c", BEFORE, str(made.path), str(place)]
    found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    first = found["first"]
    with Store.open(place) as store:
        asked = seconds(lambda: list(store.pending(made.name, "event")))
    return [
        (
            f"{LARGE:,} points: from the command to the first result",
            f"{found['whole']:.1f} s, {found['cpu']:.1f} of CPU",
            "≤ 60 s",
        ),
        ("... most memory of that process", f"{found['most'] / 1e6:.0f} MB", "≤ 500 MB"),
        ("... reading the values of its axis", f"{found['loaded']:.1f} s", ""),
        ("... hashing", f"{first['checking results'] - first['hashing']:.1f} s", ""),
        ("... writing", f"{first['looking for what is left'] - first['writing']:.1f} s", ""),
        ("... longest time between two reports of progress", f"{found['longest']:.1f} s", ""),
        ("... asked what is left", f"{asked:.1f} s", ""),
    ]
