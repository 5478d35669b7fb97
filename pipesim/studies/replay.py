"""Many iterations of one setup, each with layer times drawn from the samples of its trace."""

from collections.abc import Iterable, Iterator

import numpy as np

from pipesim.analysis import metrics
from pipesim.analysis.joint_samples import draw_of
from pipesim.base.errors import InputError
from pipesim.core import limits
from pipesim.core.limits import HostMemory
from pipesim.core.program import Program
from pipesim.engines import by_name
from pipesim.lowering import Setup, lower, redraw

MOST_JITTER = 10.0  # a standard deviation of ten means; what varies more is no measurement of one thing


def check_replay(  # noqa: PLR0917 - as replay
    setup: Setup,
    iterations: int,
    seed: int,
    jitter: float,
    host_memory: HostMemory = None,
    draw: str | None = None,
) -> None:
    """Refuse what cannot be drawn, in which nothing would vary, or that draws more at once than fits."""
    draw_of(setup.costs, draw)
    limits.check_draws(host_memory, setup.plan.microbatches, len(setup.costs.model))
    if iterations < 1:
        raise InputError(f"iterations = {iterations} found; at least 1 was expected")
    if not 0 <= jitter <= MOST_JITTER:
        raise InputError(f"jitter = {jitter} found; 0 to {MOST_JITTER:g} was expected (0.05: times vary by 5 %)")
    if seed < 0:
        raise InputError(f"seed = {seed} found; 0 or more was expected")
    if not setup.costs.is_random and not jitter:
        raise InputError(
            f"the trace of {setup.costs.model.name!r} has one sample per layer, so every iteration would be the same; "
            "say how much times vary with jitter (0.05: by 5 %)"
        )


def replay(  # noqa: PLR0917 - what is drawn, how, on which engine
    setup: Setup,
    iterations: int,
    seed: int = 0,
    jitter: float = 0.0,
    engine: str = "auto",
    host_memory: HostMemory = None,
    draw: str | None = None,
    program: Program | None = None,
) -> Iterator[float]:
    """Seconds of one iteration after the other, times drawn from the samples of layers.

    `draw` is what tasks share of a draw: everything in the `step`, all of a `microbatch`, both directions of a `layer`
    and microbatch, or nothing (`independent`); None: as the samples ask for.
    Iteration i depends on the seed and on i alone, not on how many there are. `program` is that of the setup, if
    it was lowered.

    >>> cluster = 'flat(2, bandwidth="1GB/s", device="cpu", memory="8GiB")'
    >>> setup = ps.make_setup("gpt-small-cpu", cluster, microbatches=2)
    >>> times = list(ps.replay(setup, iterations=3, seed=1))
    >>> len(set(times))
    3
    """
    check_replay(setup, iterations, seed, jitter, host_memory, draw)
    for drawn in drawn_programs(setup, iterations, seed, jitter, draw, program):
        yield metrics.iteration_time(by_name.run(drawn, engine))


def drawn_programs(  # noqa: PLR0917 - as replay
    setup: Setup,
    iterations: int,
    seed: int = 0,
    jitter: float = 0.0,
    draw: str | None = None,
    program: Program | None = None,
) -> Iterator[Program]:
    """The program of one iteration after the other, with times drawn as in `replay`."""
    base = lower(setup) if program is None else program
    shared, _ = draw_of(setup.costs, draw)
    for number in range(iterations):
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(number,)))
        yield redraw(base, setup, rng=rng, jitter=jitter, draw=shared)


def replay_statistics(seconds: Iterable[float], seed: int = 0) -> dict[str, float]:
    """Mean, percentiles and a confidence interval of what `replay` yields.

    >>> round(ps.replay_statistics([1.0, 2.0, 3.0])["mean_s"], 3)
    2.0
    """
    return metrics.statistics(np.fromiter(seconds, np.float64), np.random.default_rng(seed))
