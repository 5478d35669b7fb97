"""Links that every transfer has to itself."""

import numpy as np
from hypothesis import given, settings

from helpers.networks import ends_of
from helpers.strategies import jobs
from pipesim.engines.event import run


def test_without_sharing_each_transfer_has_the_link_to_itself():
    assert ends_of([1.0], [(0, 100, [0]), (0, 100, [0])], "none") == [100, 100]


@settings(max_examples=40)
@given(jobs(sharings=("none",), calm=True))
def test_a_transfer_starts_when_it_is_ready_and_lasts_as_long_as_alone(job):
    timeline = run(job.program)
    transfers = ~timeline.program.is_compute
    assert np.array_equal(timeline.start[transfers], timeline.ready[transfers])
    assert np.array_equal((timeline.end - timeline.start)[transfers], timeline.program.duration[transfers])
