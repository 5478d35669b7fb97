"""Plans by hand, and all ways to split a model."""

import itertools

from pipesim.core.plan import Plan, Stage


def every_split(layers, devices, stages):
    """All cuts and all ways to deal out all devices."""
    for cuts in itertools.combinations(range(1, layers), stages - 1):
        for ends in itertools.combinations(range(1, devices), stages - 1):
            edges = [0, *ends, devices]
            yield (0, *cuts), tuple(b - a for a, b in itertools.pairwise(edges))


def straight(stages, microbatches, replication=None, replicas="split"):
    """One layer per stage; devices g0, g1, ..."""
    counts, first, made = replication or [1] * stages, 0, []
    for n, k in enumerate(counts):
        made.append(Stage(n, n + 1, tuple(f"g{first + i}" for i in range(k))))
        first += k
    return Plan("m", stages, microbatches, tuple(made), replicas)
