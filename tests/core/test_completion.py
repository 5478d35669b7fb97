"""The fast deadlock check agrees with the step-by-step execution that explains failures."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers import strategies
from pipesim.base.kernels import compiled
from pipesim.core import completion, legality, progress
from pipesim.core.schedule import Schedule


@settings(max_examples=120)
@given(
    plan=st.integers(1, 4).flatmap(lambda layers: strategies.plans(layers, ["a", "b", "c", "d"])),
    data=st.data(),
)
def test_both_ways_to_find_a_deadlock_agree(plan, data):
    """On drawn schedules with two cells exchanged; plain and compiled."""
    rows = data.draw(strategies.schedules(plan)).rows
    rank = data.draw(st.sampled_from([rank for rank, row in enumerate(rows) if row]))
    one, other = (data.draw(st.integers(0, len(rows[rank]) - 1)) for _ in range(2))
    rows[rank][one], rows[rank][other] = rows[rank][other], rows[rank][one]
    schedule = Schedule.of(rows)
    cell = legality._check_complete(schedule, plan)
    run = progress.execute(schedule, plan)
    assert completion.completes(schedule, plan, cell) == (run.position == run.ends)
    copies = np.array([len(s.devices) if plan.replicas == "split" else 1 for s in plan.stages])
    columns = schedule.stage, schedule.kind, schedule.microbatch, schedule.paired, schedule.starts, cell, copies
    assert compiled(completion.all_ranks_finish)(*columns, plan.microbatches) == completion.completes(
        schedule, plan, cell
    )
