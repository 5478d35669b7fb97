"""Which schedules a page can edit, and what it knows of them; that its times are right is tested in a browser."""

import pytest

from helpers.networks import pipeline
from pipesim.core.schedule import parse, text_of
from pipesim.display.pages.edited_schedules import editing_data
from pipesim.engines.event import run
from pipesim.lowering import lower
from pipesim.studies import equal_stages
from pipesim.studies.equal_stages import Times


@pytest.mark.parametrize("name", ["gpipe", "one_f_one_b", "zb_h1", "interleaved", "zb_v", "chimera", "hanayo"])
def test_schedules_of_equal_stages_can_be_edited(name):
    setup = equal_stages.setup(name, 4, 8, Times.of(hop=0.25))
    data = editing_data(run(lower(setup)))
    assert parse(text_of(data["table"])) == setup.schedule
    assert {ns for _, _, _, ns in data["hops"]} == {250_000_000}
    actions = zip(*(getattr(setup.schedule, n).tolist() for n in ("stage", "microbatch", "rank")), strict=True)
    assert {tuple(one) for one in data["ranks"]} == set(actions)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"hop_bytes": [7]}, "transfers share links (fair)"),
        ({"hop_bytes": [7], "sharing": "fifo"}, "transfers share links (fifo)"),
        ({"transfers": "blocking"}, "transfers are blocking, which wait for both ends"),
        ({"parameters": 5, "optimizer_s_per_byte": 1e-9}, "it has reductions or optimizer steps"),
    ],
)
def test_what_depends_on_the_order_is_refused_with_the_reason(options, reason):
    timeline = run(pipeline([10, 10], [20, 20], 3, "gpipe", **options))
    assert editing_data(timeline) == {"refused": reason}


def test_overlapped_pairs_are_refused():
    timeline = run(lower(equal_stages.setup("dualpipe", 4, 8, Times.of())))
    assert editing_data(timeline) == {"refused": "actions wait for more than their inputs"}
