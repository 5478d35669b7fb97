"""Priority rules: keys of forwards and backwards, [stage, microbatch], by the name of a rule; small keys first."""

from collections.abc import Callable

import numpy as np

from pipesim.base.arrays import Ints
from pipesim.schedulers.abstract_pipeline import AbstractPipeline

Keys = tuple[Ints, Ints]


def cycle(pipeline: AbstractPipeline) -> Keys:
    """The smallest m + j first: microbatch m (of those on the same route), and block j of it, forwards and back."""
    stage, turn, routes = _grid(pipeline)
    return routes * turn + stage, routes * turn + 2 * pipeline.stages - 1 - stage


def backward(pipeline: AbstractPipeline) -> Keys:
    """Backwards first, then the smallest microbatch."""
    stage, turn, _ = _grid(pipeline)
    return turn - turn.min() + 1 + 0 * stage, 0 * (turn + stage)


def microbatch(pipeline: AbstractPipeline) -> Keys:
    """The smallest microbatch first, backwards first among equals."""
    stage, turn, _ = _grid(pipeline)
    return 2 * turn + 1 + 0 * stage, 2 * turn + 0 * stage


def depth(pipeline: AbstractPipeline) -> Keys:
    """The most advanced microbatch first."""
    stage, turn, _ = _grid(pipeline)
    span = 2 * pipeline.stages
    return span - stage + 0 * turn, stage - span + 0 * turn


def _grid(pipeline: AbstractPipeline) -> tuple[Ints, Ints, int]:
    """Stages, the number of each microbatch among those on the same route, and the number of routes."""
    routes = len(np.unique(pipeline.place.T, axis=0))
    return np.arange(pipeline.stages)[:, None], np.arange(pipeline.microbatches)[None, :] // routes, routes


PRIORITIES: dict[str, Callable[[AbstractPipeline], Keys]] = {
    "cycle": cycle,
    "backward": backward,
    "microbatch": microbatch,
    "depth": depth,
}
