"""Profiles without ranges for actions, damaged: read as a recording that passes its checks, or refused."""

import random
import tempfile
from pathlib import Path

from helpers.unnamed_profiles import ORDERS, profile
from pipesim.base.errors import PipesimError
from pipesim.importers.kineto.pipelined import profiled

WEIGHT = 0.5


def attempt(seed: int) -> str:
    """Events removed, moved, renumbered and renamed."""
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        for rank, order in enumerate(ORDERS):
            steps = rng.randint(1, 3)
            made = profile(rank, order, steps=steps, optimizer=rng.random() < 0.7, iterations=rng.random() < 0.7)
            for _ in range(rng.randint(0, 6)):
                _damage(made.events, rng)
            made.write(Path(folder) / f"rank{rank}.json")
        try:
            found = profiled(Path(folder))
            found.recording()
        except PipesimError:
            return "refused"
        try:
            return f"read, a run of {len(found.run().steps)} steps"
        except PipesimError:
            return "read, no run"


def _damage(events: list[dict], rng: random.Random) -> None:
    event = rng.choice(events)
    match rng.randrange(6):
        case 0:
            events.remove(event)
        case 1:
            event["ts"] = max(0, rng.choice([0, 1e9, event["ts"] + rng.randint(-300, 300)]))
        case 2:
            event["dur"] = rng.choice([0, 1e6])
        case 3:
            event["args"]["Sequence number"] = rng.choice([-1, 0, 101, 10**6, rng.randint(90, 120)])
        case 4:
            event["name"] = rng.choice(events)["name"]
        case _:
            event["tid"] = rng.choice([1, 2, 9])
