"""Layouts in the formats of frameworks: what is written reads back, from format to format; damaged text is an error."""

import random

from helpers.layouts import random_layout, spoilt
from pipesim.base.errors import PipesimError
from pipesim.frameworks.layout_formats import FORMATS, format_of

WEIGHT = 0.3


def attempt(seed):
    """A layout in a random format and back, and the same text damaged; what came of it."""
    rng = random.Random(seed)
    layout = random_layout(rng)
    name = rng.choice(list(FORMATS))
    try:
        text = FORMATS[name].write(layout, None)
    except PipesimError:
        return f"{name}: refused to write"
    assert format_of(text) == name
    back = FORMATS[name].read(text, None, None)
    lost = {"gradient_overlap", "gather_overlap", "gradient_precision", "message_overlap", "sequence"}
    differing = set(layout.differences(back))
    assert differing <= (lost if name in {"torchtitan", "deepspeed"} else set()), (differing, text)
    try:
        FORMATS[name].read(spoilt(rng, text), None, rng.choice([None, 8]))
    except PipesimError:
        return f"{name}: damaged text refused"
    return f"{name}: damaged text read"
