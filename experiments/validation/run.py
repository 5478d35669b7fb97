"""Simulates measured runs of others and scores them: python experiments/validation/run.py, or make validation.

    data/*.csv ── describe ── a dict of fields of Simulation ── ps.simulate ── errors ── tables, files, figure

`--source NAME` does one source again, and keeps the results of the others; `--alone` keeps the other choices.
`--quick` simulates one or two rows of each source and writes quick.csv, which the tests compare.
"""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar

import report
import shipped
import simulating
from describe import OTHERS, SOURCES, Description, is_shown, shown_bytes
from report import Line
from simulating import Outcome
from standing import MAIN, all_rows, largest, smallest, standing
from tables import Row, number, read

from pipesim.studies import measured_runs

HERE = Path(__file__).resolve().parent
# A row or two of each source that take no time; the tests of the project simulate them again.
QUICK = {
    "zero_bubble": ("T4_1.5B_p8_m24_b6_1F1B-I", "T12_14.6B_p16_m4_b1_1F1B", "T7_14.6B_p24_m96_b1_ZB-V"),
    "megatron_published": ("selene_jan2021_1.7B",),
    "bigscience": ("tr11_867",),
    "vtrain": ("multi_2",),
    "simumax": ("llama3_70b_l12_tp1_pp2_dp4_mbc4_cef",),
}
MARKS = "<!-- tables: begin -->", "<!-- tables: end -->"
Choice = Mapping[str, Any]
RULE: Choice = {}
Made = TypeVar("Made")


def described(source: str, row: Row, choice: Choice = RULE) -> Description:
    """The description of a row; of mlperf with the efficiency of its round."""
    made = SOURCES[source](row, **choice)
    if source == "mlperf":
        made["efficiency"] = calibrated(base_of(row, choice))
    return made


def base_of(row: Row, choice: Choice) -> str:
    """The row of mlperf on which a round is calibrated."""
    return (largest if choice.get("calibrated") == "largest" else smallest)(row["round"])


@cache
def calibrated(base: str) -> str:
    """The part of the peak of products with which the row of this id takes the measured time."""
    row = next(row for row in read("mlperf") if row["id"] == base)
    measured, product = float(row["iteration_s"]), 0.5
    for _ in range(6):
        outcome = simulating.simulate(SOURCES["mlperf"](row) | {"efficiency": f"device(product={product:.5f})"})
        if outcome.seconds is None:
            break
        if abs(outcome.seconds / measured - 1) < 1e-4:
            break
        product *= outcome.seconds / measured
    return f"device(product={product:.5f})"


def line_of(source: str, row: Row, choice: Choice = RULE) -> Line:
    """A row simulated and put beside its measurement."""
    about = standing(source, row)
    left_out = about.left_out
    if source == "mlperf" and row["id"] == base_of(row, choice):
        left_out = "calibrates its round"
    outcome = Outcome(refused=left_out) if left_out else simulating.simulate(described(source, row, choice))
    seconds = outcome.seconds
    if "post-validation" in row.get("flags", ""):  # stages begin the next iteration without waiting for others
        seconds = outcome.longest_stage
    unit = choice.get("unit", 1e9) / 1e9 if source == "zero_bubble" else 1.0
    memory, held = number(row, "peak_memory_bytes"), outcome.peak_bytes
    if held is not None and is_shown(source, row):
        held = shown_bytes(row, held)
    return Line(
        source,
        row["id"],
        about.group,
        about.table,
        about.tolerance,
        float(row["iteration_s"] or "nan"),
        seconds,
        None if memory is None else memory * unit,
        held,
        number(row, "simumax_iteration_s"),
        number(row, "simumax_peak_alloc_bytes"),
        outcome.refused,
    )


def quick() -> list[tuple[str, ...]]:
    """The quick rows, to six digits."""
    found = [("source", "id", "simulated_s", "simulated_bytes")]
    for source, ids in QUICK.items():
        for row in read(source):
            if row["id"] in ids:
                line = line_of(source, row)
                found.append((source, row["id"], f"{line.simulated_s:.6g}", f"{line.simulated_bytes:.6g}"))
    return found


def lines_of(sources: Sequence[str], choice: Choice = RULE, base: Sequence[Line] = ()) -> list[Line]:
    """All rows of some sources that are scored; those that a choice leaves as they are come from `base`."""
    work = [(source, row) for source, row, about in all_rows() if source in sources and not about.left_out]
    known = {(line.source, line.id): line for line in base}
    new = [(source, row) for source, row in work if (source, row["id"]) not in known or _differs(source, row, choice)]
    with ProcessPoolExecutor() as pool:
        made = {(line.source, line.id): line for line in pool.map(partial(_line, choice), new)}
    return [made.get((source, row["id"])) or known[source, row["id"]] for source, row in work]


def _differs(source: str, row: Row, choice: Choice) -> bool:
    """Whether a choice changes the description of a row, as far as text and numbers show it."""
    chosen, by_rule = SOURCES[source](row, **choice), SOURCES[source](row)
    plain = all(isinstance(value, str | int | float) for value in chosen.values())
    return source == "mlperf" or not plain or chosen != by_rule


def _line(choice: Choice, work: tuple[str, Row]) -> Line:
    return line_of(*work, choice)


def others(sources: Sequence[str], base: Sequence[Line]) -> list[tuple[str, ...]]:
    """The mean error and bias of each group under each other choice, beside those of the rule."""
    rows = [("source", "choice", "rows", "mean", "bias", "memory")]
    for source in sources:
        mine = [line for line in base if line.source == source]
        rows += _of_choice(source, "by the rules", mine)
        for name, choice in OTHERS[source].items():
            rows += _of_choice(source, name, lines_of([source], choice, mine))
    return rows


def _of_choice(source: str, name: str, lines: Sequence[Line]) -> list[tuple[str, ...]]:
    made = []
    for (_, group), members in report.by_group(lines).items():
        found = report.scores.errors(line.error for line in members if line.error is not None)
        if found:
            memory = report.mean(line.memory_error for line in members)
            where = source if group == MAIN else f"{source}, {group}"
            made.append((where, name, str(found.rows), f"{found.mean:.1%}", f"{found.bias:+.1%}", memory))
    return made


def refusals(lines: Sequence[Line]) -> str:
    """How many rows were refused, with which sentence."""
    counts: dict[tuple[str, str], int] = {}
    for line in lines:
        if line.refused:
            counts[line.source, line.refused] = counts.get((line.source, line.refused), 0) + 1
    rows = [("source", "refused", "rows"), *((source, text, str(n)) for (source, text), n in counts.items())]
    return report.markdown(rows) if counts else "No row was refused."


def _kept(lines: Sequence[Line], sources: Sequence[str]) -> list[Line]:
    return [line for line in lines if line.source not in sources]


def in_order(found: Sequence[Made], source_of: Callable[[Made], str]) -> list[Made]:
    """What was found, source after source as they are described."""
    place = list(SOURCES).index
    return sorted(found, key=lambda one: place(source_of(one)))


def main() -> None:
    """Everything, or one source."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", choices=list(SOURCES), action="append")
    parser.add_argument("--alone", action="store_true", help="keep the other choices as they are")
    parser.add_argument("--quick", action="store_true", help="only the rows that tests simulate again, to quick.csv")
    given = parser.parse_args()
    if given.quick:
        report.write_plain(quick(), HERE / "quick.csv")
        return
    sources = given.source or list(SOURCES)
    made = lines_of(sources)
    chosen = [] if given.alone else others(sources, made)[1:]
    lines = in_order([*made, *_kept(report.read(HERE / "expected.csv"), sources)], lambda line: line.source)
    earlier = report.read_plain(HERE / "alternatives.csv")
    kept = [row for row in earlier[1:] if given.alone or row[0].partition(",")[0] not in sources]
    found = [earlier[0], *in_order([*chosen, *kept], lambda row: row[0].partition(",")[0])]
    text = "\n\n".join([report.table(lines), refusals(lines), report.markdown(found)])
    sys.stdout.write(f"{text}\n")
    report.write(lines, HERE / "expected.csv")
    report.write_plain(found, HERE / "alternatives.csv")
    measured_runs.write(shipped.rows())
    report.figure(lines, HERE / "errors.png")
    sys.path.insert(0, str(HERE.parent))
    import quantise  # noqa: PLC0415 - found only after the line above

    quantise.quantise([HERE / "errors.png"])
    page = (HERE / "README.md").read_text(encoding="utf-8")
    before, after = page.split(MARKS[0])[0], page.split(MARKS[1])[1]
    (HERE / "README.md").write_text(f"{before}{MARKS[0]}\n\n{text}\n\n{MARKS[1]}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
