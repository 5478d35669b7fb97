"""Properties of the tests that draw their examples, with other examples in each attempt; the tests draw a few."""

import functools
import importlib.util
import inspect
import random
import sys
import warnings
from pathlib import Path

from hypothesis import HealthCheck, Phase, is_hypothesis_test, settings
from hypothesis import seed as seeded

TESTS = Path(__file__).resolve().parents[1]
EXAMPLES = 100
SECONDS = 300
OUTSIDE = {"with_torch", "with_simgrid"}  # in environments of their own


def attempt(seed: int) -> str:
    """One property, with EXAMPLES. A warning is a fault too."""
    rng = random.Random(seed)
    found: list = []
    while not found:
        found = properties_of(rng.choice(files()))
    name, judge = rng.choice(found)
    chosen = judge._hypothesis_internal_use_settings  # a decorator would refuse the second ones
    judge._hypothesis_internal_use_settings = settings(
        chosen, max_examples=EXAMPLES, derandomize=False, database=None, phases=[Phase.generate], deadline=None,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            seeded(seed)(judge)()
        finally:
            judge._hypothesis_internal_use_settings = chosen
    return name


@functools.cache
def files() -> list[Path]:
    """The files of tests that draw."""
    found = (path for path in sorted(TESTS.rglob("test_*.py")) if not OUTSIDE.intersection(path.parts))
    return [path for path in found if "@given" in path.read_text(encoding="utf-8")]


@functools.cache
def properties_of(path: Path) -> list[tuple[str, object]]:
    """Name and function of each in a file that needs nothing but what is drawn."""
    name = f"properties_{path.parent.name}_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return [
        (f"{path.stem}: {key}", value)
        for key, value in vars(module).items()
        if is_hypothesis_test(value) and not inspect.signature(value).parameters
    ]
