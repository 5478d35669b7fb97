"""How long it takes to import a file of PyTorch's profiler of 200 MB, and how much memory.

`python benchmarks/bench_kineto.py` makes such a file in a temporary folder, imports it, and compares that with
the bars; `python benchmarks/bench_kineto.py FILE` keeps the file that it makes.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

MEGABYTES = 200
SECONDS, GIGABYTES = 30, 3  # the bars
LAYERS, OPERATORS = 24, 12  # operators of a layer, each with two kernels; as many nodes in the backward
KERNEL = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, float, float, float>"

Event = dict[str, Any]


def iteration(number: int, begin: float) -> Iterator[Event]:
    """One training iteration: forward with ranges, operators, launches, kernels; backward on its own thread."""
    clock, first = begin, number * LAYERS * OPERATORS
    for layer in range(LAYERS):
        start = clock
        for operator in range(OPERATORS):
            sequence = first + layer * OPERATORS + operator
            yield from operators("aten::addmm", 1, clock, sequence, nested=3)
            clock += 20
        yield {**span(f"layer{layer}", "user_annotation", 1, start, clock - start), "args": {}}
    for layer in reversed(range(LAYERS)):
        for operator in reversed(range(OPERATORS)):
            sequence = first + layer * OPERATORS + operator
            name = "autograd::engine::evaluate_function: AddmmBackward0"
            yield from operators(name, 2, clock, sequence, nested=4)
            clock += 40
    yield {**span(f"ProfilerStep#{number}", "user_annotation", 1, begin, clock - begin), "args": {}}


def operators(name: str, thread: int, clock: float, sequence: int, nested: int) -> Iterator[Event]:
    """An operator with others inside of it, a launch, its kernel on a stream, and what was allocated."""
    shapes = {"Input Dims": [[64, 1024], [1024, 1024], [], []], "Input type": ["float", "float", "Scalar", "Scalar"]}
    correlation = sequence * 2 + thread
    args = {"External id": sequence, "Sequence number": sequence, "Fwd thread id": thread - 1, **shapes}
    yield {**span(name, "cpu_op", thread, clock, 18), "args": args}
    for inner in range(nested):
        yield {**span("aten::as_strided", "cpu_op", thread, clock + 1 + inner, 0.5), "args": shapes}
    launch = {"cbid": 211, "correlation": correlation, "External id": sequence}
    yield {**span("cudaLaunchKernel", "cuda_runtime", thread, clock + 8, 5), "args": launch}
    kernel = {"queued": 0, "device": 0, "stream": 7, "correlation": correlation, "grid": [64, 1, 1]}
    yield {**span(KERNEL, "kernel", 7, clock + 30, 17), "pid": 0, "args": kernel}
    memory = {"Bytes": 262144, "Addr": sequence * 4096 + thread, "Device Type": 1, "Total Allocated": 2**20}
    yield {"ph": "i", "name": "[memory]", "pid": 1, "tid": thread, "ts": clock + 9, "args": memory}


def span(name: str, category: str, thread: int, start: float, lasting: float) -> Event:
    """A chrome event with a duration."""
    return {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": thread, "ts": round(start, 3), "dur": lasting}


def write(path: Path, megabytes: float) -> int:
    """A file of at least this size, as the profiler writes it; returns how many events it has."""
    count, begin = 0, 1e9
    with path.open("w", encoding="utf-8") as file:
        file.write('{"schemaVersion": 1, "distributedInfo": {"rank": 0, "world_size": 1}, "traceEvents": [\n')
        number = 0
        while file.tell() < megabytes * 1e6:
            events = list(iteration(number, begin))
            file.write("".join(("," if count or at else "") + json.dumps(e) + "\n" for at, e in enumerate(events)))
            count, number, begin = count + len(events), number + 1, begin + LAYERS * OPERATORS * 60 + 100
        file.write("]}\n")
    return count


def measure(path: Path) -> tuple[float, float, float, int]:
    """Seconds on the clock and of the CPU, peak resident bytes and layers of an import in a process of its own."""
    command = (
        "import resource, sys, time; from pathlib import Path; from pipesim.importers.kineto import kineto; "
        "begin = time.perf_counter(); trace = kineto(Path(sys.argv[1])); "
        "print(time.perf_counter() - begin, time.process_time(), "
        "resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, "
        "trace.layer_count)"
    )
    here = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", command, path], check=True, capture_output=True, text=True, env=here)
    seconds, cpu, peak, layers = done.stdout.split()
    return float(seconds), float(cpu), float(peak), int(layers)


def rows(file: Path | None = None, megabytes: float = MEGABYTES) -> list[tuple[str, str, str]]:
    """What is measured, for benchmarks/run.py: of a file in a temporary folder unless another is named."""
    with tempfile.TemporaryDirectory() as folder:
        path = file or Path(folder) / "rank0.json"
        events = write(path, megabytes)
        seconds, cpu, peak, layers = measure(path)
    what = f"import a kineto file of {megabytes:g} MB ({events:,} events, {layers} layers)"
    return [
        (f"{what}: time", f"{seconds:.1f} s ({cpu:.1f} s of CPU)", f"{SECONDS} s"),
        (f"{what}: peak memory", f"{peak / 1e9:.2f} GB", f"{GIGABYTES} GB"),
    ]


def main() -> None:
    """Make a file, import it, and return how long that took."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, nargs="?", help="the file to make and to keep; default: one that is removed")
    parser.add_argument("--megabytes", type=float, default=MEGABYTES, help="its size (default: %(default)s)")
    given = parser.parse_args()
    for what, measured, bar in rows(given.file, given.megabytes):
        print(f"{what}: {measured} (bar: {bar})")


if __name__ == "__main__":
    main()
