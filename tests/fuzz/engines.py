"""Both engines against a second simulator of the same semantics, on simulations and on bare programs."""

import random
import warnings

from oracle import cases, judging, raw


def attempt(seed: int) -> str:
    """One drawn simulation, or one drawn program. A warning is a fault too."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return _attempted(random.Random(seed))


def _attempted(rng) -> str:
    if rng.random() < 0.2:
        return raw.judged(rng)
    case = cases.draw(rng)
    found = judging.judged(case)
    options = case.options
    return f"{options.sharing}, {options.transfers}, {options.sharding}: equal" if found == "equal" else found
