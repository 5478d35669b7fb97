"""The kernel of greedy scheduling gives the same as machine code and as Python, from arrays and from lists."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.strategies import jobs
from pipesim.base.kernels import compiled
from pipesim.schedulers import greedy, greedy_kernel
from pipesim.schedulers.abstract_pipeline import abstract_pipeline
from pipesim.schedulers.priorities import PRIORITIES
from pipesim.studies import equal_stages
from pipesim.studies.equal_stages import Times


@settings(max_examples=25)
@given(job=jobs(), data=st.data())
def test_machine_code_is_python(job, data):
    pipeline = abstract_pipeline(job.plan, job.costs, job.cluster)
    forward, backward = PRIORITIES[data.draw(st.sampled_from(sorted(PRIORITIES)))](pipeline)
    most, split = data.draw(st.sampled_from([1.0, 2.0, 4.5, np.inf])), data.draw(st.booleans())
    how = greedy.rules(
        pipeline,
        forward_key=np.ascontiguousarray(forward),
        backward_key=np.ascontiguousarray(backward),
        limit=np.full(pipeline.lanes, most),
        quota=np.full(pipeline.lanes, data.draw(st.integers(0, 3))),
        patience=data.draw(st.sampled_from([0.0, 0.5])),
        split=split,
        strict=data.draw(st.booleans()),
        released=data.draw(st.sampled_from([0.0, 0.5])),
    )
    times = greedy._times(pipeline, split=split)
    policy = greedy._policy(how, greedy.positions(pipeline, how.forward_key))
    passes = greedy_kernel.passes_of(pipeline.slot, pipeline.lane_of, pipeline.lanes)
    expected = compiled(greedy_kernel.run)(times, policy, passes)
    for records in ((times, policy), (greedy._listed(times), greedy._listed(policy))):
        found = greedy_kernel.run(*records, passes)
        assert all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True))


def test_at_the_start_only_the_forwards_of_the_first_stage_are_ready():
    made = equal_stages.setup("gpipe", 3, 2, Times())
    pipeline = abstract_pipeline(made.plan, made.costs, made.cluster)
    passes = greedy_kernel.passes_of(pipeline.slot, pipeline.lane_of, pipeline.lanes)
    times, key = greedy._times(pipeline, split=False), np.zeros((3, 2), np.int64)
    policy = greedy._policy(greedy.rules(pipeline, forward_key=key, backward_key=key, limit=np.ones(3)), key)
    queues = greedy_kernel.initial_state(times, policy, passes).queues
    assert queues.forward_at.tolist() == [[0, 0], [-1, -1], [-1, -1]]
    assert queues.passes.tolist() == [2, 2, 2]
    assert queues.first.tolist() == [0, 1, 2, 3]
