"""The time of a schedule on the abstract pipeline is that of an engine without contention."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers import strategies  # noqa: F401 - its profile for Hypothesis
from pipesim.base import units
from pipesim.engines import by_name
from pipesim.lowering import lower
from pipesim.schedulers.abstract_pipeline import abstract_pipeline
from pipesim.schedulers.abstract_time import makespan
from pipesim.studies import equal_stages
from pipesim.studies.equal_stages import Times


@pytest.mark.parametrize("name", ["gpipe", "one_f_one_b", "zb_h1", "interleaved", "zb_v", "hanayo"])
@given(
    stages=st.integers(1, 5),
    microbatches=st.integers(1, 8),
    times=st.builds(Times.of, *[st.integers(1, 5) for _ in range(4)], st.sampled_from([0, 1, 2])),
)
def test_it_is_the_makespan_of_a_simulation_where_links_are_free(name, stages, microbatches, times):
    made = equal_stages.setup(name, stages, microbatches, times)
    pipeline = abstract_pipeline(made.plan, made.costs, made.cluster)
    assert makespan(pipeline, made.schedule) == by_name.run(lower(made)).makespan


def test_paired_actions_take_the_sum_of_both():
    """4 stages and 8 microbatches: the closed form of DualPipe, whose pairs take as long as both parts."""
    made = equal_stages.setup("dualpipe", 4, 8, Times())
    pipeline = abstract_pipeline(made.plan, made.costs, made.cluster)
    assert units.to_s(makespan(pipeline, made.schedule)) == 26
