"""Rows and strips of Gantt charts."""

import numpy as np
import pytest
from hypothesis import given
from matplotlib.colors import to_hex

import pipesim as ps
from helpers.networks import network
from helpers.pictures import (
    REPLICATED,
    drawn_boxes,
    planned,
    straight,
)
from helpers.strategies import programs
from pipesim.core.program import ALL_REDUCE
from pipesim.display import figures
from pipesim.display.figures import gantt_chart
from pipesim.display.figures.layout import lay_out
from pipesim.engines.event import run

FORWARDS, BACKWARDS = (to_hex(gantt_chart._COLORS[kind]) for kind in ("forward", "backward"))


def test_a_row_per_medium_that_carried_something_is_added_with_links():
    timeline = straight(3, 4)
    (axes,) = figures.gantt(timeline, links=True).axes
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert names == ["g0", "g1", "g2", "g0→g1", "g1→g0", "g1→g2", "g2→g1"]
    boxes = len(drawn_boxes(axes))
    assert boxes == len(timeline.program)  # each transfer crosses one medium


def test_transfers_that_share_a_medium_are_side_by_side_in_its_row():
    timeline = run(network([2], [(10, 60, [0]), (12, 60, [0])], "fair"))
    (axes,) = figures.gantt(timeline, links=True).axes
    activations = to_hex(gantt_chart._COLORS["activation"])
    (_, _, top, bottom), (_, _, top2, bottom2) = (box for box, color in drawn_boxes(axes) if color == activations)
    assert bottom <= top2 + 1e-9
    assert bottom - top == pytest.approx(bottom2 - top2)


def test_an_all_reduce_is_a_band_below_the_boxes_of_each_device_that_takes_part():
    timeline = planned(REPLICATED)
    (axes,) = figures.gantt(timeline).axes
    bands = [box for box, color in drawn_boxes(axes) if color == to_hex(gantt_chart._COLORS["all_reduce"])]
    assert sorted(int(top) for _, _, top, _ in bands) == [1, 2]
    others = [box for box, color in drawn_boxes(axes) if color in {FORWARDS, BACKWARDS}]
    for _, _, top, bottom in bands:
        row = [box for box in others if int(box[2]) == int(top)]
        assert max(box[3] for box in row) <= top + 1e-9
        assert bottom - top < min(box[3] - box[2] for box in row) / 2


def test_one_all_reduce_for_a_ring_is_a_band_on_all_its_devices():
    timeline = planned((("a", "b", "c"), ("d",)), sharing="channel")
    assert np.count_nonzero(timeline.program.kind == ALL_REDUCE) == 1
    layout = lay_out(timeline, links=False)
    bands = layout.strip[timeline.program.kind[layout.task] == ALL_REDUCE] - layout.devices
    assert sorted(bands.tolist()) == [0, 1, 2]


@given(programs)
def test_every_span_is_in_a_strip_without_overlap(program):
    timeline = run(program)
    layout = lay_out(timeline, links=True)
    lasting = timeline.end > timeline.start
    crossed = program.route.lengths[lasting & ~program.is_compute].sum()
    assert np.count_nonzero(program.is_compute[layout.task]) == np.count_nonzero(lasting & program.is_compute)
    assert np.count_nonzero(layout.strip >= 2 * layout.devices) <= crossed
    order = np.lexsort((timeline.start[layout.task], layout.strip))
    strip, task = layout.strip[order], layout.task[order]
    computing = program.is_compute[task[1:]] | (strip[1:] >= 2 * layout.devices)
    same = (strip[1:] == strip[:-1]) & computing
    assert (timeline.start[task[1:]][same] >= timeline.end[task[:-1]][same]).all()
    assert (layout.strip_top[layout.strip] < layout.strip_bottom[layout.strip]).all()


def test_links_of_a_team_that_carry_the_same_at_the_same_times_share_a_row():
    """Eight members of two teams sent over 64 links, and devices were lines of a pixel."""
    result = ps.simulate("llama3-8b", "hgx_h100(2)", tensor=8, pipeline=2, microbatches=2)
    timeline = result.timeline
    used = int((timeline.moved > 0).sum())
    layout = lay_out(timeline, links=True)
    rows = layout.names[layout.devices :]
    assert used > len(rows)
    counts = [int(name.rpartition(" ×")[2]) for name in rows]
    assert sum(counts) == used
    assert all(count % 8 == 0 for count in counts), "all eight members of a team, whichever links are alike beside"
