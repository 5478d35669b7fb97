"""How many blocks of each stage are done again: against trying every number, and every choice of cuts."""

import random
from itertools import combinations, pairwise
from math import inf

import pytest

from pipesim.studies.tuning.recomputed_blocks import StageTables


def drawn(rng, ranks):
    """Tables of drawn blocks, all kept or done again at a drawn cost, and the values of each block."""
    blocks = rng.randint(3, 7)
    seconds, held, again = ([rng.randint(1, 9) for _ in range(blocks)] for _ in range(3))
    freed = [rng.randint(0, each) for each in held]

    def before(values):
        return [[float(sum(values[:n])) for n in range(blocks + 1)]] * ranks

    room = [rng.choice([inf, 25.0, 12.0, 8.0]) for _ in range(ranks)]
    parts = (before(seconds), before(held), before(again), before(freed))
    return StageTables(*parts, list(range(blocks + 1)), room, [0.0] * ranks), (seconds, held, again, freed)


def least(values, room, start, end):
    """The least number of first blocks with which a stage fits, and its seconds."""
    seconds, held, again, freed = values
    for count in range(end - start + 1):
        if sum(held[start:end]) - sum(freed[start : start + count]) <= room:
            return count, sum(seconds[start:end]) + sum(again[start : start + count])
    return None, inf


@pytest.mark.parametrize("seed", range(60))
def test_no_fewer_blocks_would_fit_and_no_cuts_have_a_faster_slowest_stage(seed):
    rng = random.Random(seed)
    ranks, stages = rng.choice([(1, 1), (2, 2), (3, 3), (1, 2), (2, 4)])
    tables, values = drawn(rng, ranks)
    last = len(tables.blocks) - 1
    if stages > last:
        return
    slowest = {}
    for inner in combinations(range(1, last), stages - 1):
        cuts = (0, *inner, last)
        parts = [least(values, tables.room[n % ranks], a, b) for n, (a, b) in enumerate(pairwise(cuts))]
        slowest[cuts] = max(seconds for _, seconds in parts)
        if slowest[cuts] < inf:
            assert tables.counts(cuts) == tuple(count for count, _ in parts)
            own = tables.again_seconds(cuts, tables.counts(cuts))
            whole = [sum(values[0][a:b]) for a, b in pairwise(cuts)]
            assert [a + b for a, b in zip(own, whole, strict=True)] == [seconds for _, seconds in parts]
    found, best = tables.balanced(stages), min(slowest.values())
    assert (found is None) == (best == inf)
    if found is not None:
        assert slowest[tuple(found)] <= best * 1.001
