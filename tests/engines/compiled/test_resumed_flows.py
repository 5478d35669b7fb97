"""Flows that share links, and runs of them that begin in the middle."""

import random
from collections import Counter
from dataclasses import replace

import pytest

from helpers.changed_programs import (
    check_equal,
    more_bytes,
    narrower_link,
    no_delays,
    no_route,
    nothing,
    resume_always,
    slower_link,
)
from helpers.networks import network
from pipesim.engines import compiled
from pipesim.engines.compiled import resuming


def contended(seed, sharing):
    """Flows that begin at all times on a few links, most of which they share."""
    rng = random.Random(seed)
    links = rng.randint(1, 5)
    sent = [
        (
            rng.randint(0, 3000),
            rng.choice([1, 100, 5000, 3333.3]),
            sorted(rng.sample(range(links), rng.randint(1, min(links, 3)))),
        )
        for _ in range(rng.randint(4, 40))
    ]
    return network([rng.choice([1.0, 2.0, 3.5, 10.0]) for _ in range(links)], sent, sharing)


@pytest.mark.parametrize("sharing", ["none", "fifo", "fair"])
def test_runs_of_many_flows_are_resumed_to_the_last_bit(sharing, monkeypatch):
    resume_always(monkeypatch)
    resumed = Counter()
    for seed in range(150):
        rng, program = random.Random(seed), contended(seed, sharing)
        earlier = compiled.run(program)
        for change in (more_bytes, no_delays, slower_link, narrower_link, no_route, nothing):
            other = replace(program, **change(program, rng))
            resumed[change] += 0 < resuming.first_difference(other, earlier) <= earlier.makespan
            check_equal(compiled.resume(other, earlier), compiled.run(other))
    assert min(resumed[change] for change in (slower_link, no_route)) > 20, resumed
