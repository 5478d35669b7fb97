"""Measure everything and print it as tables; `--write` also keeps them in benchmarks/README.md."""

import argparse
import os
import platform
from pathlib import Path

import numpy as np
import simpy

import bench_c
import bench_compiled
import bench_event
import bench_folding
import bench_kineto
import bench_planners
import bench_plot
import bench_schedulers
import bench_sweep

README = Path(__file__).with_name("README.md")
MARKS = ("<!-- tables: begin -->", "<!-- tables: end -->")
SECTIONS = {
    "The SimPy engine": bench_event.rows,
    "The planners": bench_planners.rows,
    "The schedulers": bench_schedulers.rows,
    "Pictures": bench_plot.rows,
    "Recorded profiles": bench_kineto.rows,
    "Large jobs": bench_folding.rows,
    "Sweeps": bench_sweep.rows,
    "The compiled engine beside C": bench_c.rows,
    "The compiled engine": bench_compiled.rows,  # last: it takes memory that a child process would be blamed for
}


def table(title: str, rows: list[tuple[str, str, str]]) -> str:
    """A Markdown table of (what, measured, bar)."""
    lines = [f"| {what} | {measured} | {bar} |" for what, measured, bar in rows]
    return "\n".join([f"### {title}", "", "| what | measured | bar |", "|---|---|---|", *lines, ""])


def machine() -> str:
    """What the numbers were measured on."""
    versions = f"Python {platform.python_version()}, numpy {np.__version__}, SimPy {simpy.__version__}"
    return f"Measured on {os.cpu_count()} cores ({platform.machine()}), {platform.system()}, {versions}.\n"


def main() -> None:
    """Print each section as it is measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="keep the tables in benchmarks/README.md")
    write = parser.parse_args().write
    parts = [machine()]
    print(parts[0])
    for title, rows in SECTIONS.items():
        parts.append(table(title, rows()))
        print(parts[-1], flush=True)
    if write:
        text = README.read_text(encoding="utf-8")
        before, after = text.split(MARKS[0])[0], text.split(MARKS[1])[1]
        README.write_text(f"{before}{MARKS[0]}\n\n" + "\n".join(parts) + f"\n{MARKS[1]}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
