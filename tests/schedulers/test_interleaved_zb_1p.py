"""The order of PyTorch's InterleavedZeroBubble, as PyTorch 2.13.0 gave it; the same with PyTorch in with_torch."""

import pytest

from pipesim.base.errors import ScheduleError
from pipesim.studies import equal_stages
from pipesim.studies.equal_stages import Times

# (ranks, chunks, microbatches) -> the actions of `ScheduleInterleavedZeroBubble.pipeline_order`, without its pauses.
RECORDED = {
    (2, 2, 4): """
0F0,0F1,2F0,2F1,2I0,2W0,0F2,2I1,2W1,0F3,0I0,0W0,2F2,0I1,0W1,2F3,2I2,2W2,2I3,2W3,0I2,0W2,0I3,0W3
1F0,1F1,3F0,3I0,3F1,3I1,3W0,1F2,1I0,3W1,1F3,1I1,1W0,3F2,3I2,1W1,3F3,3I3,3W2,1I2,3W3,1I3,1W2,1W3
""",
    (3, 2, 6): """
0F0,0F1,0F2,3F0,3F1,3F2,3I0,3W0,0F3,3I1,3W1,0F4,3I2,3W2,0F5,0I0,0W0,3F3,0I1,0W1,3F4,0I2,0W2,3F5,3I3,3W3,3I4,3W4,3I5,3W5,0I3,0W3,0I4,0W4,0I5,0W5
1F0,1F1,1F2,4F0,4F1,4I0,4F2,4I1,4W0,1F3,4I2,4W1,1F4,1I0,4W2,1F5,1I1,1W0,4F3,1I2,1W1,4F4,4I3,1W2,4F5,4I4,4W3,4I5,4W4,1I3,4W5,1I4,1W3,1I5,1W4,1W5
2F0,2F1,2F2,5F0,5I0,5F1,5I1,5F2,5I2,5W0,2F3,2I0,5W1,2F4,2I1,5W2,2F5,2I2,2W0,5F3,5I3,2W1,5F4,5I4,2W2,5F5,5I5,5W3,2I3,5W4,2I4,5W5,2I5,2W3,2W4,2W5
""",
    (4, 1, 4): """
0F0,0F1,0F2,0F3,0I0,0W0,0I1,0W1,0I2,0W2,0I3,0W3
1F0,1F1,1F2,1I0,1F3,1I1,1W0,1I2,1W1,1I3,1W2,1W3
2F0,2F1,2I0,2F2,2I1,2F3,2I2,2W0,2I3,2W1,2W2,2W3
3F0,3I0,3F1,3I1,3F2,3I2,3F3,3I3,3W0,3W1,3W2,3W3
""",
    (3, 3, 2): """
0F0,0F1,3F0,3F1,6F0,6F1,6I0,6W0,6I1,6W1,3I0,3W0,3I1,3W1,0I0,0W0,0I1,0W1
1F0,1F1,4F0,4F1,7F0,7F1,7I0,7I1,7W0,4I0,7W1,4I1,4W0,1I0,4W1,1I1,1W0,1W1
2F0,2F1,5F0,5F1,8F0,8I0,8F1,8I1,5I0,8W0,5I1,8W1,2I0,5W0,2I1,5W1,2W0,2W1
""",
}  # fmt: skip


@pytest.mark.parametrize("shape", RECORDED, ids=str)
def test_the_order_is_pytorchs_action_for_action(shape):
    ranks, chunks, microbatches = shape
    made = equal_stages.setup(f"interleaved_zb_1p(chunks={chunks})", ranks, microbatches, Times())
    assert str(made.schedule) == RECORDED[shape].strip()


def test_microbatches_that_are_no_multiple_of_the_rounds_are_refused_as_pytorch_does():
    with pytest.raises(ScheduleError, match="5 microbatches found; interleaved_zb_1p orders a multiple of 2"):
        equal_stages.setup("interleaved_zb_1p", 2, 5, Times())
