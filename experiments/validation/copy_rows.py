"""Copy the rows that are used from the shared measurements: python experiments/validation/copy_rows.py.

    shared/measured/SOURCE/FILE.csv ── the rows and columns of TABLES ──> data/FILE of the table

Values are copied as they are printed there. Columns that are empty in all rows, or derived from the iteration time
(tokens/s, TFLOP/s), are left out. data/README.md lists origin and licence of each table.
"""

import csv
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
DATA = HERE / "data"
MEASURED = Path(os.environ.get("PIPESIM_DATA") or HERE.parents[2] / "shared") / "measured"
DERIVED = frozenset({"tokens_per_s_per_gpu", "tflops_per_gpu", "tflops_recomputed", "samples_per_s_per_gpu"})

Line = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Copied:
    """A table here: where it is from, and the lines that are used."""

    source: str
    file: str = "rows.csv"
    used: Callable[[Line], bool] = lambda _: True


def _is_gh200(line: Line) -> bool:
    return line["model"] == "OPT-350" and line["gpu"] == "GH-96" and line["tp"] == "4"


TABLES = {
    "zero_bubble.csv": Copied("zero_bubble"),
    "megatron_published.csv": Copied("megatron_published"),
    "bigscience.csv": Copied("bigscience"),
    "vtrain.csv": Copied("vtrain"),
    "mlperf.csv": Copied("mlperf"),
    "simumax.csv": Copied("simumax"),
    "sailor.csv": Copied("sailor"),
    "sailor_profiles.csv": Copied("sailor", "profiles.csv", _is_gh200),
    "sailor_layer_sizes.csv": Copied(
        "sailor", "layer_sizes.csv", lambda line: line["model"] == "OPT-350" and line["tp"] == "4"
    ),
}


def copied(table: str) -> list[list[str]]:
    """Header and lines of a table, as they are in the shared measurements."""
    about = TABLES[table]
    with (MEASURED / about.source / about.file).open(encoding="utf-8", newline="") as file:
        lines = [line for line in csv.DictReader(file) if about.used(line)]
    names = [name for name in lines[0] if name not in DERIVED and any(line[name] for line in lines)]
    return [names, *([line[name] for name in names] for line in lines)]


def main() -> None:
    """Write all tables."""
    for table in TABLES:
        with (DATA / table).open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(copied(table))


if __name__ == "__main__":
    main()
