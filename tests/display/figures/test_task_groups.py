"""Colours of groups of tasks, such as jobs."""

import numpy as np
import pytest

from helpers.networks import network
from helpers.pictures import in_legend, straight
from pipesim.base.errors import InputError
from pipesim.core.program import BACKWARD, FORWARD, KINDS
from pipesim.display import figures
from pipesim.display.figures import TaskGroups, paper
from pipesim.engines.event import run


def test_a_group_has_a_colour_its_backwards_a_darker_one_and_what_is_of_no_group_is_as_idle():
    groups = TaskGroups(np.array([-1, 0, 1]), ("a", "b"))
    palette = groups.palette.reshape(3, len(KINDS), 3)
    assert (palette[0] == paper.rgb(paper.IDLE)).all()
    for group in (0, 1):
        assert tuple(palette[group + 1][FORWARD]) == groups.color(group)
        assert palette[group + 1][BACKWARD].sum() < palette[group + 1][FORWARD].sum()
    assert groups.color(0) != groups.color(1)


def test_a_gantt_chart_and_loads_are_drawn_by_group():
    timeline = run(network([2, 1], [(0, 10, [0, 1]), (4, 3, [1])], "fair"))
    groups = TaskGroups(np.array([0, 1, 0, 1]), ("one", "two"))
    assert in_legend(figures.gantt(timeline, groups=groups))[:2] == ["one", "two"]
    figure = figures.link_load(timeline, groups=groups)
    assert in_legend(figure) == ["one", "two"]
    assert [axes.get_ylabel() for axes in figure.axes] == ["link1", "link0"], "what both use comes first"
    # Behind the fill of the panel one for each group: link1 carries 10 bytes of one and 3 of the other in 13 ns.
    one, two = (paths.get_paths()[0].get_extents() for paths in figure.axes[0].collections[-2:])
    assert (one.y0, two.y1) == (0, pytest.approx(100))


def test_of_many_media_the_six_busiest_have_panels():
    timeline = straight(6, 3, sharing="fifo")
    groups = TaskGroups(np.zeros(len(timeline.program), np.int64), ("one",))
    assert len(figures.link_load(timeline, groups=groups).axes) == 6


def test_groups_of_another_timeline_are_refused():
    timeline = run(network([2], [(0, 10, [0])], "fair"))
    for draw in (figures.gantt, figures.link_load):
        with pytest.raises(InputError, match="1 tasks found; 2 were expected"):
            draw(timeline, groups=TaskGroups(np.zeros(1, np.int64), ("one",)))
