"""Whether samples of different layers vary together: which draws of times a trace asks for.

shared      of the variance of the whole model's time that perfectly joint layers would have, beyond that of independent
            layers, the part that is there: (Var(sum) - sum of Var) / ((sum of sd)^2 - sum of Var). 1 if all layers
            depend on the microbatch alone, 0 if they are independent
test        the samples of each layer are put into a random order, 199 times; `p` is the part of the orders in which the
            sum varies as much

The same within layers: the covariance of forwards and backwards as a part of the greatest there can be. Where samples
state what they have in common, that (`microbatch` or `step`) is drawn if the layers' p is below 1 %, otherwise `layer`
if that of the directions is, otherwise `independent`.
"""

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipesim.base.arrays import Floats
from pipesim.base.checks import check_one_of
from pipesim.base.errors import InputError
from pipesim.core.costs import Costs
from pipesim.lowering import DRAWS, Draw

SIGNIFICANT = 0.01
PERMUTATIONS = 199


@dataclass(frozen=True, slots=True)
class Shared:
    """The part of variance that is shared, and how probable so much is without anything in common."""

    share: float
    p: float


@dataclass(frozen=True, slots=True)
class JointSamples:
    """What layers share of their variance, what the directions of a layer share, and which draw follows."""

    samples: int
    layers: Shared
    directions: Shared
    draw: str

    def as_data(self) -> dict[str, Any]:
        """Plain numbers and text."""
        return {
            "draw": self.draw,
            "samples": self.samples,
            "shared_by_layers": self.layers.share,
            "p_of_layers": self.layers.p,
            "shared_by_directions": self.directions.share,
            "p_of_directions": self.directions.p,
        }


@functools.lru_cache(maxsize=16)  # asked for when a replay is checked, drawn and shown
def joint_samples(costs: Costs) -> JointSamples | None:
    """What the samples of the group with most of them share; None where they state nothing in common."""
    if not costs.joint or not costs.is_random:
        return None
    group = int(np.argmax(costs.count[:, 0]))
    count = int(costs.count[group, 0])
    rows = costs.first[group][:, None] + np.arange(count)
    forward, backward = costs.samples["forward"][rows], costs.samples["backward"][rows]
    rng = np.random.default_rng(0)  # the test is part of the result, which depends on the seed of draws alone
    layers, directions = shared(forward + backward, rng), correlated(forward, backward, rng)
    draw = "independent"
    if directions.p < SIGNIFICANT:
        draw = "layer"
    if layers.p < SIGNIFICANT:
        draw = costs.joint
    return JointSamples(count, layers, directions, draw)


def draw_of(costs: Costs, draw: str | None = None) -> tuple[Draw, JointSamples | None]:
    """What tasks share of a draw: as given, or as the samples ask for; and what was found of them.

    Samples that state nothing in common are repetitions, each layer's on its own.
    """
    found = joint_samples(costs)
    if draw is None:
        return ("independent" if found is None else found.draw), found  # type: ignore[return-value]  # one of them
    check_one_of("draw", draw, DRAWS)
    if draw in {"microbatch", "step"} and costs.is_random and not costs.joint:
        raise InputError(
            f"draw = {draw!r} found; the trace of {costs.model.name!r} does not state what samples of different "
            'layers with the same number have in common (samples = "microbatch" in trace.toml, where they are of one '
            "microbatch); draw = 'layer' and 'independent' need no such statement"
        )
    return draw, found  # type: ignore[return-value]  # checked


def shared(times: Floats, rng: np.random.Generator) -> Shared:
    """What rows share of their variance over columns."""
    deviation = times - times.mean(axis=1, keepdims=True)
    alone = float((deviation**2).sum())
    whole = float((deviation.sum(axis=0) ** 2).sum())
    most = float(np.sqrt((deviation**2).sum(axis=1)).sum() ** 2)
    if most - alone <= 1e-12 * most:  # one row varies, or none
        return Shared(0.0, 1.0)
    found = [(rng.permuted(deviation, axis=1).sum(axis=0) ** 2).sum() for _ in range(PERMUTATIONS)]
    return Shared((whole - alone) / (most - alone), _p(found, whole))


def correlated(forward: Floats, backward: Floats, rng: np.random.Generator) -> Shared:
    """How far the two times of each row vary together over columns: their covariance, as a part of the greatest."""
    one, other = (times - times.mean(axis=1, keepdims=True) for times in (forward, backward))
    both = float((one * other).sum())
    most = float((np.sqrt((one**2).sum(axis=1)) * np.sqrt((other**2).sum(axis=1))).sum())
    if not most:
        return Shared(0.0, 1.0)
    return Shared(both / most, _p([(one * rng.permuted(other, axis=1)).sum() for _ in range(PERMUTATIONS)], both))


def _p(permuted: list[float], found: float) -> float:
    return (1 + sum(one >= found for one in permuted)) / (1 + len(permuted))
