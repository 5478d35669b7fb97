"""The certified bound against every plan of small instances: none is faster, and how near the fastest comes to it."""

import random

from helpers.instances import check, conditions, drawn, tightness, tried

PLANS, BEST = 120, 5


def attempt(seed: int) -> str:
    """One instance: up to 120 of its plans under 1F1B, and the best five under six more schedules."""
    rng = random.Random(seed)
    results = tried(drawn(rng), rng, PLANS, BEST)
    if not results:
        return "no plan runs to its end"
    ratio, at = min((check(time, case), at) for at, (time, case) in enumerate(results))
    return f"{conditions(results[at][1])}: {tightness(ratio)}"
