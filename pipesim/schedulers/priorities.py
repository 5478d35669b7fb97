"""What comes first: keys of forwards and backwards, [stage, microbatch], by the name of a rule; small keys first."""

from collections.abc import Callable

import numpy as np

from pipesim.base.arrays import Ints
from pipesim.schedulers.board import Board

Keys = tuple[Ints, Ints]


def cycle(board: Board) -> Keys:
    """The smallest m + j first: microbatch m (of those that take the same way), block j of its way there and back."""
    stage, turn, ways = _grid(board)
    return ways * turn + stage, ways * turn + 2 * board.stages - 1 - stage


def backward(board: Board) -> Keys:
    """Backwards first, then the smallest microbatch."""
    stage, turn, _ = _grid(board)
    return turn - turn.min() + 1 + 0 * stage, 0 * (turn + stage)


def microbatch(board: Board) -> Keys:
    """The smallest microbatch first, backwards first among equals."""
    stage, turn, _ = _grid(board)
    return 2 * turn + 1 + 0 * stage, 2 * turn + 0 * stage


def depth(board: Board) -> Keys:
    """What has come farthest first."""
    stage, turn, _ = _grid(board)
    span = 2 * board.stages
    return span - stage + 0 * turn, stage - span + 0 * turn


def _grid(board: Board) -> tuple[Ints, Ints, int]:
    """Stages, the turn of each microbatch among those that take the same way, and how many ways there are."""
    ways = len(np.unique(board.place.T, axis=0))
    return np.arange(board.stages)[:, None], np.arange(board.microbatches)[None, :] // ways, ways


PRIORITIES: dict[str, Callable[[Board], Keys]] = {
    "cycle": cycle,
    "backward": backward,
    "microbatch": microbatch,
    "depth": depth,
}
