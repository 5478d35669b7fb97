"""Ledgers of drawn programs: lines sum to the step, and every program without a cause obeys all rules."""

import random
import warnings

from oracle import cases, raw
from pipesim.analysis.ledger import ledger
from pipesim.analysis.removed_causes import Removal
from pipesim.base.errors import PipesimError
from pipesim.engines import compiled, event

SEEDS = 1000


def attempt(seed: int) -> str:
    """One drawn program, of a plan or of none. A warning is a fault too."""
    rng = random.Random(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            program = raw.draw(rng) if rng.random() < 0.2 else cases.draw(rng).program()
            compiled.run(program)
        except PipesimError:
            return "refused, or stuck"
        return judge(program, lambda program: compiled.run(program).makespan, rng)


def judge(program, makespan, rng) -> str:
    """Check the ledger of a program; returns its causes."""
    found = ledger(program, makespan)
    assert found.step_ns == event.run(program).makespan
    assert sum(line.ns for line in found.lines) == found.step_ns
    removal = Removal(program)
    cause = rng.choice([(one,) for one in removal.causes] + [removal.causes])
    for left, _ in removal.without(cause):
        timeline = compiled.run(left)
        timeline.verify()
        assert timeline.same_as(event.run(left)), f"the engines differ without {cause}"
    return " ".join(removal.causes) or "no cause"
