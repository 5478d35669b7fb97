"""Bounds over layouts against plans and orders of small ones: none is faster, and how near the fastest comes."""

import random

from helpers.drawn_layouts import drawn_case, judge
from helpers.instances import tightness

PLANS = 12


def attempt(seed: int) -> str:
    """One layout: 12 of its plans, each with an order."""
    rng = random.Random(seed)
    case = drawn_case(rng)
    ratio = judge(case, rng, PLANS)
    layout = case.layout
    return f"{layout.replicas}, {'split backwards' if layout.splits else 'whole backwards'}: {tightness(ratio)}"
