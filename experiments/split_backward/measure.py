"""What the two parts of a backward take together in PyTorch, over a whole one: the table of README.md.

    whole             gradients of inputs and weights in one backward, as 1F1B runs it
    PyTorch           its schedules' backwards of inputs and of weights, which search the graph of the stage
    without search    the same work, the graph searched before: what `pipesim record` measures

All three run in turn on one graph each, so that what else the machine does disturbs them alike; times are CPU time of
one thread. Needs the extra torch.

python experiments/split_backward/measure.py [--rounds 40]
"""

import argparse
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.distributed.pipelining import _backward as pipelining

from pipesim.base.arrays import Floats
from pipesim.recorders.split import split_backward

SEQUENCE, SAMPLES = 128, 2
STAGES = ((1, 128), (4, 128), (1, 512), (4, 512), (1, 1024))  # blocks, hidden
WARM = 3
WAYS = ("whole", "PyTorch", "without search")

Work = Callable[[], Any]


def stage_of(blocks: int, hidden: int) -> torch.nn.Sequential:
    """Blocks of a GPT: attention and mlp, four times as wide, without dropout."""
    made = (
        torch.nn.TransformerEncoderLayer(
            hidden, hidden // 64, 4 * hidden, 0.0, "gelu", batch_first=True, norm_first=True
        )
        for _ in range(blocks)
    )
    return torch.nn.Sequential(*made)


def forward(stage: torch.nn.Sequential, hidden: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The input of a microbatch, its output, and a gradient of that."""
    entering = torch.randn(SAMPLES, SEQUENCE, hidden, requires_grad=True)
    leaving = stage(entering)
    return entering, leaving, torch.ones_like(leaving)


def seconds(work: Work) -> float:
    """CPU seconds of one piece of work."""
    begin = time.process_time()
    work()
    return time.process_time() - begin


def whole(stage: torch.nn.Sequential, hidden: int) -> tuple[float, float]:
    """Seconds of a whole backward."""
    entering, leaving, gradient = forward(stage, hidden)
    return seconds(lambda: pipelining.stage_backward((leaving,), (gradient,), (entering,))), 0.0


def in_pytorch(stage: torch.nn.Sequential, hidden: int) -> tuple[float, float]:
    """Seconds of the backward of inputs, and of weights, as PyTorch's schedules call them."""
    entering, leaving, gradient = forward(stage, hidden)
    kept: list[Any] = []

    def for_inputs() -> None:
        found = pipelining.stage_backward_input([leaving], [gradient], [entering], iter(list(stage.parameters())))
        kept.extend(found[1])

    first = seconds(for_inputs)
    return first, seconds(lambda: pipelining.stage_backward_weight(iter(list(stage.parameters())), kept))


def searched(stage: torch.nn.Sequential, hidden: int) -> tuple[float, float]:
    """The same two, with the graph searched before time counts."""
    entering, leaving, gradient = forward(stage, hidden)
    for_inputs, for_weights = split_backward([leaving], [gradient], [entering], list(stage.parameters()))
    return seconds(for_inputs), seconds(for_weights)


def measured(blocks: int, hidden: int, rounds: int) -> dict[str, Floats]:
    """[round, part] seconds of each way, which take turns."""
    stage = stage_of(blocks, hidden)
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in WAYS}
    for _ in range(rounds + WARM):
        for name, way in zip(WAYS, (whole, in_pytorch, searched), strict=True):
            found[name].append(way(stage, hidden))
    return {name: np.array(rows[WARM:]) for name, rows in found.items()}


def ratios(found: dict[str, Floats], name: str) -> str:
    """Both parts over the whole backward of the same round: median, and the middle half."""
    share = found[name].sum(axis=1) / found["whole"].sum(axis=1)
    low, middle, high = np.percentile(share, [25, 50, 75])
    return f"{middle:.2f} ({low:.2f} to {high:.2f})"


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=40)
    rounds = parser.parse_args().rounds
    torch.manual_seed(0)
    torch.set_num_threads(1)
    sys.stdout.write(f"torch {torch.__version__}, {rounds} rounds, {SAMPLES} x {SEQUENCE} tokens\n\n")
    sys.stdout.write("| blocks | hidden | whole backward | PyTorch | without search | inputs, of PyTorch's two |\n")
    sys.stdout.write("|---|---|---|---|---|---|\n")
    for blocks, hidden in STAGES:
        found = measured(blocks, hidden, rounds)
        part = np.median(found["PyTorch"][:, 0] / found["PyTorch"].sum(axis=1))
        sys.stdout.write(
            f"| {blocks} | {hidden} | {1e3 * np.median(found['whole'][:, 0]):.1f} ms | {ratios(found, 'PyTorch')} | "
            f"{ratios(found, 'without search')} | {100 * part:.0f} % |\n"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
