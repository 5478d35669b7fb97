"""Fits the efficiency curve to recorded profiles and prints its error: python experiments/roofline/run.py.

    profile ── nodes ── merged into layers ─┐
                                            ├── pairs of recorded and calculated seconds ── fit ── tables
    architecture ── FLOPs and bytes moved ──┘

The profiles are those of PipeDream and DAPPLE, which their authors publish; pipesim does not contain them. README.md
keeps what this prints.
"""

import argparse
import math
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import recorded

from pipesim.architectures.efficiency import Curve
from pipesim.architectures.gpt import gpt
from pipesim.architectures.roofline import Efficiency, roofline
from pipesim.base.errors import PipesimError

HERE = Path(__file__).resolve().parent
PROFILES = Path(os.environ.get("PIPESIM_DATA") or HERE.parents[2] / "shared") / "profiles"
START = Curve(product=0.5, convolution=0.5, memory=0.5, start_s=0.0)
FREE = ("product", "convolution", "memory")

# Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters" (2021), table 1: those without
# pipeline. Layers, hidden size, heads, width of tensor parallelism, TFLOP/s of each A100.
PUBLISHED = {
    "GPT 1.7B": (24, 2304, 24, 1, 137),
    "GPT 3.6B": (30, 3072, 32, 2, 138),
    "GPT 7.5B": (36, 4096, 32, 4, 142),
    "GPT 18.4B": (40, 6144, 48, 8, 135),
}


# --- the fit ---------------------------------------------------------------------------------------------------------


def misfit(layers: recorded.Layers, efficiency: Efficiency) -> float:
    """The sum of all layers' errors, without sign, as a share of the recorded time."""
    pairs = list(zip(layers.calculated(efficiency), layers.recorded, strict=True))
    return math.fsum(np.abs(ours - theirs).sum() for ours, theirs in pairs) / math.fsum(t.sum() for _, t in pairs)


def fit(profiles: Sequence[recorded.Layers], least: float) -> Curve:
    """The curve with the smallest mean misfit: steps along one parameter at a time, ever smaller ones."""
    curve, step = replace(START, start_s=round(least, 5)), 1.4

    def cost(candidate: Curve) -> float:
        return math.fsum(misfit(layers, candidate) for layers in profiles) / len(profiles)

    best = cost(curve)
    while step > 1.005:
        moved = [
            replace(curve, **{name: getattr(curve, name) * factor}) for name in FREE for factor in (step, 1 / step)
        ]
        costs = [cost(candidate) for candidate in moved]
        if min(costs) < best - 1e-9:
            best, curve = min(costs), moved[int(np.argmin(costs))]
        else:
            step = 1 + (step - 1) * 0.6
    return rounded(curve)


def rounded(curve: Curve) -> Curve:
    """Two digits: more would promise too much."""
    return replace(curve, **{name: float(f"{getattr(curve, name):.2g}") for name in FREE})


# --- tables ----------------------------------------------------------------------------------------------------------


def total_error(layers: recorded.Layers, efficiency: Efficiency) -> float:
    """Of the sum of all layers, with its sign."""
    ours, theirs = (math.fsum(part.sum() for part in pair) for pair in (layers.calculated(efficiency), layers.recorded))
    return ours / theirs - 1


def rank_correlation(layers: recorded.Layers, efficiency: Efficiency) -> float | None:
    """Spearman's, of forward and backward of each layer; none where all layers are alike."""
    ours, theirs = (_ranks(sum(pair)) for pair in (layers.calculated(efficiency), layers.recorded))
    return float(np.corrcoef(ours, theirs)[0, 1]) if np.ptp(ours) and np.ptp(theirs) else None


def _ranks(values: recorded.Floats) -> recorded.Floats:
    """Places in order; alike values share the mean of theirs."""
    _, inverse, count = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(count) - (count - 1) / 2)[inverse]


def tables(folder: Path) -> str:
    """What README.md keeps."""
    profiles, least = recorded.read(folder)
    curve = fit([profiles[name] for name in recorded.FITTED], least)
    head = [
        "profile",
        "layers",
        "recorded (ms)",
        "0.5 of the peak",
        "curve",
        "curve without it",
        "rank, 0.5",
        "rank, curve",
    ]
    lines = [head, ["---", *["---:"] * (len(head) - 1)]]
    for name, layers in profiles.items():
        others = (
            fit([profiles[other] for other in recorded.FITTED if other != name], least)
            if name in recorded.FITTED
            else None
        )
        lines.append(_line(layers, curve, others))
    return f"Fitted: {curve}.\n{_about_recorder(folder)}\n\n{_markdown(lines)}\n{published_table(curve)}"


def _about_recorder(folder: Path) -> str:
    """What the recorder added to each node, and how fast the largest ReLU was after that; it reads and writes."""
    added, least = recorded.recorder_seconds(folder)
    table = recorded.sources("vgg16", folder)[0].layers
    largest = int(np.argmax(np.where(table["kind"] == "ReLU", table["output_bytes"], 0)))
    moved = 2 * table["output_bytes"][largest] / (table["forward_s"][largest] - added) / 1e9
    return (
        f"PipeDream's recorder adds {added * 1e3:.2f} ms to each forward; the smallest backwards take "
        f"{least * 1e6:.0f} us; the largest ReLU moves {moved:.0f} GB/s."
    )


def _line(layers: recorded.Layers, curve: Curve, others: Curve | None) -> list[str]:
    total = math.fsum(part.sum() for part in layers.recorded)
    ranks = [rank_correlation(layers, efficiency) for efficiency in (0.5, curve)]
    return [
        layers.name + ("" if others else " (not fitted)"),
        str(len(layers.forward)),
        f"{total * 1e3:.0f}",
        f"{total_error(layers, 0.5):+.0%}",
        f"{total_error(layers, curve):+.0%}",
        f"{total_error(layers, others):+.0%}" if others else "",
        *("" if rank is None else f"{rank:.2f}" for rank in ranks),
    ]


def published_table(curve: Curve) -> str:
    """Published rates of whole iterations on A100s against those of the curve, in which nothing was fitted to them."""
    matrix = replace(curve, convolution=curve.product)
    lines = [["model", "tensor parallel", "published (TFLOP/s)", "0.5 of the peak", "curve"], ["---", *["---:"] * 4]]
    for name, (layers, hidden, heads, width, rate) in PUBLISHED.items():
        ours = [f"{_rate(layers, hidden, heads, width, how) / 1e12:.0f}" for how in (0.5, matrix)]
        lines.append([name, str(width), str(rate), *ours])
    return _markdown(lines)


def _rate(layers: int, hidden: int, heads: int, width: int, efficiency: Efficiency) -> float:
    """FLOP/s of each device as the paper counts them: 4/3 of a step's, since all blocks are computed forward again."""
    model = gpt(layers, hidden, heads, vocabulary=51200, sequence=2048, microbatch=4, tensor_parallel=width)
    table = roofline(model, ["a100-80gb"], efficiency=efficiency, tensor_parallel=width).layers
    again = math.fsum(table["recompute_s"][1:-2])  # not the embedding, the last norm and the head
    step = math.fsum(math.fsum(table[name]) for name in ("forward_s", "backward_input_s", "backward_weight_s"))
    blocks = 1 + 2048 / (6 * hidden) + 51200 / (16 * layers * hidden)
    return 96 * 4 * 2048 * layers * hidden**2 * blocks / width / (step + again)


def _markdown(lines: list[list[str]]) -> str:
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def main() -> None:
    """Print the fit and the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--profiles", type=Path, default=PROFILES, help="folder with pipedream/ and dapple/ in it")
    folder = parser.parse_args().profiles
    if not folder.is_dir():
        parser.error(f"no profiles in {folder}; see README.md for where they are published")
    try:
        print(tables(folder))  # noqa: T201 - a script
    except PipesimError as error:
        parser.error(f"{error}; see README.md for where the profiles are published")


if __name__ == "__main__":
    main()
