"""Resumed runs: the timeline of a whole run, to the last bit, whatever has changed and when."""

import random
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from helpers import strategies
from helpers.changed_programs import CHANGES, check_equal, resume_always
from helpers.networks import network
from pipesim.core.program import SHARINGS
from pipesim.engines import compiled
from pipesim.engines.compiled import resuming


@pytest.mark.parametrize("sharing", SHARINGS)
def test_a_resumed_run_is_a_whole_one_to_the_last_bit(sharing, monkeypatch):
    resume_always(monkeypatch)
    resumed = Counter()

    def judge(job):
        rng = random.Random(len(job.program) + job.plan.microbatches)
        earlier = compiled.run(job.program)
        for change in CHANGES:
            program = replace(job.program, **change(job.program, rng))
            resumed[change] += 0 < resuming.first_difference(program, earlier) <= earlier.makespan
            check_equal(compiled.resume(program, earlier), compiled.run(program))

    strategies.for_drawn(strategies.jobs(sharings=(sharing,)), 60, judge)
    assert resumed.total() > 30, resumed


def test_of_several_earlier_runs_the_one_that_is_alike_for_longest_is_taken_over(monkeypatch):
    flows = [(100 * n, 5000, [0]) for n in range(9)]
    program, apart = network([1.0], flows, "fair"), network([2.0], flows, "fair")
    later = replace(program, size=np.where(np.arange(len(program)) == len(program) - 1, 9.0, program.size))
    one, other, found, begun = compiled.run(apart), compiled.run(program), resuming.earlier_run, []
    monkeypatch.setattr(
        resuming, "earlier_run", lambda base, moment: begun.append((base, moment)) or found(base, moment)
    )
    resume_always(monkeypatch)
    check_equal(compiled.resume(later, one, other), compiled.run(later))
    assert begun == [(other, 800)], "the last flow has changed, which begins after 800 ns"
    assert compiled.resume(program, one, other).start is other.start, "what is the same is not run again"
