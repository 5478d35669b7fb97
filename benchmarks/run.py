"""Measure everything and print it as tables; `--write` also keeps them in benchmarks/README.md."""

import argparse
import os
import platform
from pathlib import Path

import numpy as np
import simpy

import bench_bounds
import bench_c
import bench_compiled
import bench_event
import bench_folding
import bench_kineto
import bench_moves
import bench_planners
import bench_plot
import bench_schedulers
import bench_simgrid
import bench_sweep

README = Path(__file__).with_name("README.md")
MARKS = ("<!-- tables: begin -->", "<!-- tables: end -->")
SECTIONS = {
    "The SimPy engine": bench_event.rows,
    "The planners": bench_planners.rows,
    "Moves of plans": bench_moves.rows,
    "The certified bound": bench_bounds.rows,
    "The schedulers": bench_schedulers.rows,
    "Pictures": bench_plot.rows,
    "Recorded profiles": bench_kineto.rows,
    "Large jobs": bench_folding.rows,
    "Sweeps": bench_sweep.rows,
    "The compiled engine beside C": bench_c.rows,
    "The compiled engine beside SimGrid": bench_simgrid.rows,
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
    parser.add_argument("--only", metavar="TITLE", choices=SECTIONS, help="only this table; with --write in its place")
    given = parser.parse_args()
    print(machine())
    tables = {}
    for title, rows in SECTIONS.items():
        if given.only in {None, title}:
            tables[title] = table(title, rows())
            print(tables[title], flush=True)
    if given.write:
        README.write_text(written(README.read_text(encoding="utf-8"), tables, machine()), encoding="utf-8")


def written(text: str, tables: dict[str, str], head: str) -> str:
    """The page with these tables in place of those of the same titles; all others are kept."""
    before, rest = text.split(MARKS[0])
    inside, after = rest.split(MARKS[1])
    kept = {part.partition("\n")[0]: f"### {part.strip()}\n" for part in inside.split("### ")[1:]}
    parts = [(kept | tables)[title] for title in SECTIONS if title in kept or title in tables]
    return f"{before}{MARKS[0]}\n\n" + "\n".join([head, *parts]) + f"\n{MARKS[1]}{after}"


if __name__ == "__main__":
    main()
