"""All figures of the evaluation of SPP: python experiments/spp/run.py, or make paper.

Every experiment.toml beside this file is swept, what is in the store already is not computed again, and its rows go to
rows.csv and its charts to .pdf and .png beside it. Rows that are not those of expected.csv are told, and end it with 1.
`--findings` only writes the sentences of the page anew.
"""

import argparse
import csv
import os
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
for folder in (str(HERE), str(HERE.parents[1])):  # workers import `measures` too
    sys.path.insert(0, folder)
    os.environ["PYTHONPATH"] = os.pathsep.join([folder, os.environ.get("PYTHONPATH", "")])

import findings  # noqa: E402 - found only after the lines above
import gantts  # noqa: E402 - as above

from pipesim import files, sweep  # noqa: E402 - as above


def experiments() -> list[Path]:
    """The experiment files, by name."""
    return sorted(HERE.glob("*/experiment.toml"))


def make(path: Path, workers: int | None) -> list[str]:
    """Compute what is missing, write rows and charts; what differs from expected.csv."""
    sweep.run(sweep.load(path), workers=workers)
    columns, found = sweep.rows(path)
    text = sweep.csv_text(columns, found)
    files.write_text(path.parent / "rows.csv", text)
    sweep.draw(path)
    return drift(text, path.parent / "expected.csv")


def drift(text: str, expected: Path) -> list[str]:
    """Lines that are not as expected, as a person reads them."""
    if not expected.exists():
        return [f"{expected}: is missing"]
    was = list(csv.reader(expected.read_text(encoding="utf-8").splitlines()))
    now = list(csv.reader(text.splitlines()))
    told = [f"{len(now) - 1} rows; {len(was) - 1} were expected"] if len(now) != len(was) else []
    return told + [
        f"line {line}: {','.join(new)} found; {','.join(old)} was expected"
        for line, (old, new) in enumerate(zip(was, now, strict=False), 1)
        if old != new
    ]


def main() -> int:
    """Make everything; 1 if anything differs from what is expected."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="experiments, by the name of their folder; default: all, and Gantts")
    parser.add_argument("--workers", type=int, help="processes; default: one per core")
    parser.add_argument("--findings", action="store_true", help="only the sentences of experiments/README.md")
    options = parser.parse_args()
    wrong = 0
    for path in [] if options.findings else experiments():
        if options.names and path.parent.name not in options.names:
            continue
        began = time.perf_counter()
        told = make(path, options.workers)
        wrong += len(told)
        state = f"{len(told)} rows differ" if told else "as expected"
        print(f"{path.parent.name}: {time.perf_counter() - began:.0f} s, {state}", *told[:5], sep="\n  ", flush=True)  # noqa: T201 - a script
    if not options.findings and (not options.names or "gantts" in options.names):
        told = drift(gantts.make(), HERE / "gantts" / "expected.csv")
        wrong += len(told)
        print(f"gantts: {told or 'as expected'}", flush=True)  # noqa: T201 - a script
    findings.write()
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
