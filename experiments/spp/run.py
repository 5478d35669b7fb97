"""All figures of the evaluation of SPP: python experiments/spp/run.py, or make paper.

Every experiment.toml beside this file is swept, what is in the store already is not computed again, and its rows go to
rows.csv and its charts to .pdf and .png beside it; of these git keeps the .png. Rows that are not those of expected.csv
are shown, and end it with 1. The sentences of experiments/README.md are of expected.csv.
Planning times are measured, and so never the same: planning/times.csv keeps them, and `--times` measures them again.

After a change of planners, schedulers or engines: run.py --fresh --write-expected --times
"""

import argparse
import csv
import functools
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).parent
for folder in (str(HERE), str(HERE.parent), str(HERE.parents[1])):  # workers import `measures` too
    sys.path.insert(0, folder)
    os.environ["PYTHONPATH"] = os.pathsep.join([folder, os.environ.get("PYTHONPATH", "")])

import findings  # noqa: E402 - found only after the lines above
import gantts  # noqa: E402 - as above
import planning  # noqa: E402 - as above
import quantise  # noqa: E402 - as above

from pipesim.base import files, lookup  # noqa: E402 - as above
from pipesim.studies import sweep  # noqa: E402 - as above


def experiments() -> list[Path]:
    """The experiment files, by name."""
    return sorted(HERE.glob("*/experiment.toml"))


def make(path: Path, options: argparse.Namespace) -> str:
    """Compute what is missing, write rows and charts; returns the rows."""
    made = sweep.load(path)
    sweep.run(made, workers=options.workers)
    columns, found = sweep.rows(path)
    text = sweep.csv_text(columns, found)
    files.write_text(path.parent / "rows.csv", text)
    if made.charts:
        sweep.draw(path)
    if path.parent == planning.FOLDER:
        if options.times:
            planning.measure()
        planning.draw()
    quantise.quantise(path.parent.glob("*.png"))
    return text


def drift(text: str, expected: Path) -> list[str]:
    """Lines that are not as expected, as a person reads them."""
    if not expected.exists():
        return [f"{expected}: is missing"]
    was = list(csv.reader(expected.read_text(encoding="utf-8").splitlines()))
    now = list(csv.reader(text.splitlines()))
    lines = [f"{len(now) - 1} rows; {len(was) - 1} were expected"] if len(now) != len(was) else []
    return lines + [
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
    parser.add_argument("--times", action="store_true", help="measure planning times again, on a quiet machine")
    parser.add_argument("--write-expected", action="store_true", help="what comes out is what is expected from now on")
    parser.add_argument(
        "--fresh", action="store_true", help="forget what was computed: planners or engines have changed"
    )
    options = parser.parse_args()
    if options.fresh:
        for kept in HERE.glob("spp.sqlite*"):
            kept.unlink()
    makers: dict[str, Callable[[], str]] = {p.parent.name: functools.partial(make, p, options) for p in experiments()}
    makers["gantts"] = gantts.make
    for name in options.names:
        if name not in makers:
            parser.error(f"no experiment is called {name!r}; {lookup.suggest(name, list(makers))}")
    wrong = 0
    for name, maker in {} if options.findings else makers.items():
        if not options.names or name in options.names:
            wrong += report(name, maker, write=options.write_expected)
    findings.write()
    return 1 if wrong else 0


def report(name: str, maker: Callable[[], str], *, write: bool) -> int:
    """Make an experiment and print how that went; returns how many rows are not as expected."""
    began, expected = time.perf_counter(), HERE / name / "expected.csv"
    text = maker()
    differing = drift(text, expected)
    state = f"{len(differing)} rows differ" if differing else "as expected"
    if write and differing:
        files.write_text(expected, text)
        state += "; expected.csv is written again"
    print(f"{name}: {time.perf_counter() - began:.0f} s, {state}", *differing[:5], sep="\n  ", flush=True)  # noqa: T201 - a script
    return 0 if write else len(differing)


if __name__ == "__main__":
    sys.exit(main())
