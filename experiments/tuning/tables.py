"""Writes the tables of the README from searches.csv and regret.csv: python experiments/tuning/tables.py."""

import csv
import re
from itertools import groupby
from pathlib import Path

HERE = Path(__file__).parent


def searches() -> list[str]:
    """A line for each search."""
    with (HERE / "searches.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    lines = []
    for row in rows:
        chunks = "" if row["interleave"] == "1" else f", VPP {row['interleave']}"
        layout = (
            f"TP {row['tensor']}, PP {row['pipeline']}{chunks}, DP {row['data']}, microbatch {row['microbatch_size']}"
        )
        again = "" if row["recompute"] == "none" else f", {row['recompute']} recomputation"
        cells = [
            row["search"], *(f"{int(row[name]):,}" for name in ("all", "memory", "bound", "simulated")),
            f"{layout}{again}, blocks {runs(row['blocks'])}", f"{float(row['iteration_s']):.2f} s",
            row["tokens_per_s_per_gpu"],
            f"{100 * float(row['mfu']):.1f} %", f"{100 * float(row['gap']):.1f} %",
            f"{100 * float(row['any_gap']):.1f} %", f"{float(row['cpu_s']):.0f} s",
        ]  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def runs(blocks: str) -> str:
    """Blocks of each stage, equal neighbours as 3x20."""
    groups = ((count, len(list(same))) for count, same in groupby(blocks.split()))
    return " ".join(f"{times}x{count}" if times > 1 else count for count, times in groups)


def main() -> None:
    """Replace what is between the marks of the README."""
    import regret  # noqa: PLC0415 - beside this file

    path = HERE / "README.md"
    text = path.read_text(encoding="utf-8")
    for name, lines in (
        ("searches", searches()),
        ("regret", regret.summary(regret.table()) + regret.with_same_microbatches()),
    ):
        body = "\n".join(lines)
        text = re.sub(
            rf"<!-- {name} -->\n.*?<!-- end -->", f"<!-- {name} -->\n{body}\n<!-- end -->", text, flags=re.DOTALL
        )
    path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
