"""Flows on links in the compiled engine: which join, at which rates, and what is kept of them."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest

from helpers.networks import network
from pipesim.engines.compiled import flows, heap
from pipesim.engines.compiled.simulation_state import arrays_of, initial_state


def begun():
    """Flow 4 over links 0 and 1, flow 5 over link 1, flow 6 over link 2, flow 7 over link 0; 0 to 3 compute."""
    program = network([1.0, 3.0, 2.0], [(0, 100, [0, 1]), (0, 100, [1]), (0, 100, [2]), (0, 50, [0])], "fair")
    arrays = arrays_of(program)
    state, links = initial_state(arrays, 100), flows.initial_flows(arrays)
    for task in (4, 5, 6, 7):
        flows.join(arrays, links, task, 0)
    return arrays, state, links


def touched_only(links, media):
    links.is_touched[:] = False
    links.touched_count[0] = 0
    for medium in media:
        flows.touch(links, medium)


@pytest.mark.parametrize(
    ("media", "found"), [([2], [[6]]), ([0], [[4, 5, 7]]), ([1], [[4, 5, 7]]), ([0, 2], [[4, 5, 7], [6]])]
)
def test_flows_join_through_common_links(media, found):
    arrays, _, links = begun()
    touched_only(links, media)
    assert flows.find_groups(arrays.routes, links, 100) == len(found)
    ends = links.search.group_flows[: len(found)].tolist()
    groups = [links.search.found[a:b].tolist() for a, b in itertools.pairwise([0, *ends])]
    assert [sorted(group) for group in groups] == found
    assert flows.find_groups(arrays.routes, links, 0) == -1, "it stops when more are joined than asked for"


def test_rates_are_shared_and_logged_where_they_change():
    arrays, state, links = begun()
    log = flows.empty_log(10)
    assert flows.share_links(arrays, state, links, log) == flows.SHARED
    assert log.task[: log.length[0]].tolist() == [4, 5, 6, 7]
    assert log.rate[: log.length[0]].tolist() == [0.5, 2.5, 2.0, 0.5]
    touched_only(links, [0, 1, 2])
    assert flows.share_links(arrays, state, links, log) == flows.SHARED
    assert log.length[0] == 4, "no rate has changed"


def test_a_flow_that_leaves_makes_room_on_its_links():
    arrays, state, links = begun()
    log = flows.empty_log(10)
    flows.share_links(arrays, state, links, log)
    flows.leave(arrays, links, 7)
    assert links.under_way[0] == 3
    flows.share_links(arrays, state, links, log)
    assert log.rate[4:6].tolist() == [1.0, 2.0]


def test_one_change_more_than_allowed_is_refused():
    arrays, state, links = begun()
    log = flows.empty_log(10)
    found = flows.share_links(arrays._replace(most_changes=3), state, links, log)
    assert found == flows.TOO_MANY_CHANGES
    assert log.length[0] == 3


def test_a_longer_log_holds_the_same_changes():
    log = flows.empty_log(2)
    log.task[:], log.time[:], log.rate[:], log.length[0] = [4, 5], [0, 7], [0.5, 1.0], 2
    longer = flows.longer_log(log, 3)
    assert len(longer.task) >= 5
    assert longer.length[0] == 2
    for name in ("task", "time", "rate"):
        assert getattr(longer, name)[:2].tolist() == getattr(log, name).tolist()


def test_outdated_ends_and_ends_that_are_there_twice_are_removed():
    """Task 0 ends at 9, entered twice and once at 5; task 1 has ended; the event of another kind stays."""
    events, ends = heap.empty_heap(10), np.array([9, -1])
    kind = flows.FLOW_ENDS
    for time, code in ((9, kind), (5, kind), (9, kind), (6, 4 + kind), (7, 4)):
        heap.push(events, time, code)
    flows.remove_outdated(None, events, SimpleNamespace(ends=ends))
    assert ends.tolist() == [9, -1]
    assert [(int(events[1, 0]), heap.pop(events)) for _ in range(events[0, 0])] == [(7, 4), (9, flows.FLOW_ENDS)]
