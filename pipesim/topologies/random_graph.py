"""Devices joined at random: arbitrary connectivity."""

from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from pipesim.base.arrays import Ints
from pipesim.base.checks import check_one_of
from pipesim.base.errors import InputError, shown
from pipesim.core.cluster import Cluster, Link
from pipesim.core.members import TopologyInfo
from pipesim.topologies import parts

Distribution = Literal["choice", "uniform", "log"]


@TopologyInfo(
    examples=(
        "random(7, 3, ['1 GB/s', '10 GB/s'])",
        "random(9, 3, ['1 GB/s', '10 GB/s'], 0.4, distribution='log')",
        "random(2, 0, [1e9, 3e9], 0, distribution='uniform')",
        "random(1, 0, [1e9])",
    )
)
def random(
    n: int,
    seed: int,
    bandwidths: Sequence[float | str],
    density: float = 1.0,
    *,
    distribution: Distribution = "choice",
    latency: float | str = "5us",
    device: str = parts.DEVICE,
    memory: float | str | None = None,
) -> Cluster:
    """Pairs of devices joined directly, each with a bandwidth drawn from `bandwidths`; the same for the same seed.

    At density 1 every pair is joined; otherwise that share of the pairs, but always enough that every device can be
    reached, if necessary through others. With `distribution` "choice", `bandwidths` are the values to choose from; with
    "uniform" or "log" they are the lowest and the highest, for a uniform draw of the bandwidth or of its logarithm.

    `latency` is that of each link: 5 us, as across a network.
    """
    n, seed = parts.count("n", n), parts.count("seed", seed, 0, 2**63 - 1)
    pairs = n * (n - 1) // 2
    parts.size(f"n = {n}, n (n - 1) / 2 pairs", devices=n, links=pairs)
    values = _bandwidths(bandwidths, distribution)
    delay = parts.latency("latency", latency)
    count = max(n - 1, round(parts.number("density", density, 0, 1) * pairs))
    devices = parts.devices(((f"gpu{i}", "node0") for i in range(n)), device, memory)
    rng = np.random.default_rng(seed)
    sources, targets = _joined(n, count, rng)
    drawn = _draw(values, distribution, count, rng)
    ends = zip(sources.tolist(), targets.tolist(), drawn.tolist(), strict=True)
    return Cluster(f"random-{n}-{seed}", devices, tuple(Link(f"gpu{a}", f"gpu{b}", wide, delay) for a, b, wide in ends))


def _bandwidths(values: Sequence[float | str], distribution: str) -> list[float]:
    """The values or limits of the distribution, in bytes/s."""
    check_one_of("distribution", distribution, get_args(Distribution))
    if not isinstance(values, list | tuple) or not values:
        raise InputError(f"bandwidths: {shown(values)} found; a list such as ['1 GB/s', '10 GB/s'] was expected")
    found = [parts.bandwidth(f"bandwidths[{i}]", value) for i, value in enumerate(values)]
    if distribution != "choice" and (len(found) != 2 or found[0] > found[1]):
        raise InputError(
            f"bandwidths: {shown(values)} found; the lowest and the highest were expected "
            f"(distribution {distribution!r})"
        )
    return found


def _joined(n: int, count: int, rng: np.random.Generator) -> tuple[Ints, Ints]:
    """The ends of `count` pairs: a random tree, so that every device can be reached, and any others; in order."""
    sources, targets = np.triu_indices(n, 1)
    order = rng.permutation(n)
    earlier = order[rng.integers(0, np.arange(1, n))]  # each device after the first is joined with one before it
    low, high = np.minimum(order[1:], earlier), np.maximum(order[1:], earlier)
    chosen = np.zeros(len(sources), np.bool_)
    chosen[low * (2 * n - low - 1) // 2 + high - low - 1] = True  # the position of the pair (low, high) in the triangle
    rest = rng.permutation(np.flatnonzero(~chosen))
    chosen[rest[: count - (n - 1)]] = True
    return sources[chosen], targets[chosen]


def _draw(values: list[float], distribution: str, count: int, rng: np.random.Generator) -> NDArray[np.float64]:
    if distribution == "choice":
        return np.array(values)[rng.integers(len(values), size=count)]
    low, high = values
    if distribution == "uniform":
        return rng.uniform(low, high, count)
    drawn = np.exp(rng.uniform(np.log(low), np.log(high), count))
    return np.clip(drawn, low, high)  # rounding can leave the range
