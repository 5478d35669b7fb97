"""Put what the traces in this folder hold into the tables of its README.md: python traces/recorded-cpu/summary.py."""

import sys
from pathlib import Path

import numpy as np

from pipesim.core.trace import Trace
from pipesim.recorders.noise import noise

HERE = Path(__file__).parent
BEGIN, END = "<!-- tables: made by summary.py -->", "<!-- end of tables -->"
COLUMNS = "model | microbatch | forward (ms) | backward (ms) | noise (%) | noisiest layer"


def traces() -> list[Trace]:
    """All traces of the folder."""
    return [Trace.load(header.parent) for header in sorted(HERE.glob("*/trace.toml"))]


def tables() -> str:
    """Times and noise of each model and size; optimizers; machine and command."""
    found = traces()
    parts = [
        _table(COLUMNS, [row for trace in found for row in _times(trace)], numbers=4),
        _table("model | step of | ns per byte of parameters | state, bytes per byte", [*_steps(found)], numbers=2),
        "\n".join(f"- {trace.model}: `{trace.command}` on {trace.machine}" for trace in found),
    ]
    return "\n\n".join(parts)


def _table(header: str, rows: list[list[str]], numbers: int) -> str:
    """A table whose columns after the first ones hold so many numbers."""
    names = header.split(" | ")
    first = 1 if names[1] == "microbatch" else 2
    marks = ["---:" if first <= place < first + numbers else "---" for place in range(len(names))]
    return "\n".join(f"| {' | '.join(row)} |" for row in [names, marks, *rows])


def _times(trace: Trace) -> list[list[str]]:
    """One row for each size of microbatch. Noise: MADs of all layers as a share of their medians, both added up."""
    rows = []
    for size in np.unique(trace.layers["microbatch_size"]).tolist():
        layers = [one for one in noise(trace) if one.microbatch_size == size]
        forward, backward = sum(one.forward_s for one in layers), sum(one.backward_s for one in layers)
        scattered = [one.forward_mad_s + one.backward_mad_s for one in layers]
        worst = layers[int(np.argmax(scattered))].name
        share = 100 * sum(scattered) / (forward + backward)
        rows.append([trace.model, str(size), f"{1e3 * forward:.2f}", f"{1e3 * backward:.2f}", f"{share:.2f}", worst])
    return rows


def _steps(found: list[Trace]) -> list[list[str]]:
    return [
        [trace.model, step.name, f"{1e9 * step.s_per_byte:.3f}", f"{step.state_per_byte:g}"]
        for trace in found
        for step in trace.optimizers
    ]


def main() -> None:
    """Rewrite the tables."""
    page = HERE / "README.md"
    text = page.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, mark, after = rest.partition(END)
    if not mark:
        sys.exit(f"{page}: has no lines {BEGIN} and {END}")
    page.write_text(f"{before}{BEGIN}\n\n{tables()}\n\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
