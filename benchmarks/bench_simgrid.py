"""The compiled engine beside SimGrid's max-min solver, where the system's Python has SimGrid: the same flows."""

import json
import os
import statistics
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

import bench_compiled
from pipesim.base.arrays import Floats
from pipesim.core.program import Program
from pipesim.engines import compiled

Row = tuple[str, str, str]
FLOWS, LINKS, REPEATS = 3000, 600, 3
PYTHON = os.environ.get("PIPESIM_SIMGRID", "/usr/bin/python3")
SCRIPT = Path(__file__).parents[1] / "tests" / "with_simgrid" / "flows_in_simgrid.py"
DELAY = 1000  # ns: SimGrid knows no flow without latency; the script's is this


def rows() -> list[Row]:
    """(what, measured, bar) for the tables of benchmarks/README.md."""
    what = f"{FLOWS:,} flows over {LINKS} links: compiled engine beside SimGrid's solver, same run"
    if not has_simgrid():
        return [(what, f"not measured: {PYTHON} has no module simgrid (make test-simgrid states where it is from)", "")]
    drawn = bench_compiled.joined_flows(FLOWS, LINKS)
    flows = replace(drawn, size=np.rint(drawn.size))  # SimGrid knows whole bytes
    made = replace(flows, delay=flows.delay + DELAY)
    asked = json.dumps([as_text(flows)])
    compiled.run(made)
    pairs = [(_in_simgrid(asked), _in_pipesim(made)) for _ in range(REPEATS)]
    apart = max(float(np.abs(ends - own).max()) for (_, ends), (_, own) in pairs)
    gains = [slow / quick for (slow, _), (quick, _) in pairs]
    slow, quick = (min(seconds for seconds, _ in side) for side in zip(*pairs, strict=True))
    return [
        (what, f"{statistics.median(gains):.1f} times faster ({', '.join(f'{g:.1f}' for g in gains)})", "≥ 5"),
        ("... seconds of CPU: SimGrid, the compiled engine", f"{slow:.2f}, {quick:.2f}", ""),
        ("... furthest that a flow ends apart, each end rounded up to a nanosecond here", f"{apart:.0f} ns", ""),
    ]


def has_simgrid() -> bool:
    """Whether the interpreter for SimGrid is there and has it."""
    try:
        return not subprocess.run([PYTHON, "-c", "import simgrid"], capture_output=True, check=False).returncode
    except OSError:
        return False


def as_text(flows: Program) -> dict[str, object]:
    """The program as the script reads it, in microseconds."""
    return {
        "capacity": (1e3 * flows.capacity).tolist(),
        "changes": [],
        "flows": [
            [begins / 1e3, int(size), flows.route[n].tolist(), None]
            for n, (begins, size) in enumerate(zip(flows.delay.tolist(), flows.size.tolist(), strict=True))
        ],
    }


def _in_simgrid(asked: str) -> tuple[float, Floats]:
    """Seconds of CPU of the run alone, and the ends in ns."""
    done = subprocess.run([PYTHON, str(SCRIPT)], input=asked, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    return float(found["seconds"]), 1e3 * np.array(found["ends"][0])


def _in_pipesim(made: Program) -> tuple[float, Floats]:
    began = time.process_time()
    timeline = compiled.run(made)
    return time.process_time() - began, timeline.end.astype(np.float64)


if __name__ == "__main__":
    for row in rows():
        print(" | ".join(row))
