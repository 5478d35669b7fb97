"""Devices and links by themselves."""

import re

import pytest

from pipesim.base.errors import InputError
from pipesim.core.cluster_parts import Device, Link, directions


@pytest.mark.parametrize(("duplex", "medium"), [("shared", ""), ("full", "bus"), ("half", "bus"), ("one_way", "bus")])
def test_shared_links_and_only_they_name_their_medium(duplex, medium):
    with pytest.raises(
        InputError, match=r"link a - b: duplex = 'shared' needs a medium, and a medium needs duplex = 'shared'"
    ):
        Link("a", "b", 1.0, duplex=duplex, medium=medium)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"target": "a"}, "link a - a: must connect two different vertices"),
        ({"bandwidth": 0.0}, "link a - b: bandwidth 0.0 found; more than 0"),
        ({"bandwidth": -1.0}, "bandwidth -1.0 found"),
        ({"bandwidth": float("inf")}, "bandwidth inf found"),
        ({"bandwidth": float("nan")}, "bandwidth nan found"),
        ({"latency": -1e-6}, "latency -1e-06 found; 0 s or more"),
        ({"latency": float("nan")}, "latency nan found"),
    ],
)
def test_impossible_links_are_refused(values, message):
    with pytest.raises(InputError, match=message):
        Link(**{"source": "a", "target": "b", "bandwidth": 1.0} | values)


def test_a_transfer_takes_latency_and_bytes_over_bandwidth():
    link = Link("a", "b", 1e9, 5e-6)
    assert (link.delay, link.transmission(2e9)) == (5e-6, 2.0)


def test_recorded_points_are_interpolated_and_their_first_and_last_pieces_go_on():
    """seconds: 1 at 0 bytes, 2 at 10, 6 at 20; the table replaces latency and bandwidth."""
    link = Link("a", "b", 1e9, 99.0, table=((0.0, 1.0), (10.0, 2.0), (20.0, 6.0)))
    assert link.delay == 1.0
    assert [link.transmission(size) for size in (0, 5, 10, 15, 20, 30)] == [0.0, 0.5, 1.0, 3.0, 5.0, 9.0]


def test_a_table_that_does_not_start_at_nothing_is_continued_to_there():
    """3 s at 10 bytes and 5 s at 20: 1 s before the first byte. Where the line would fall below 0, 0."""
    assert Link("a", "b", 1e9, table=((10.0, 3.0), (20.0, 5.0))).delay == 1.0
    steep = Link("a", "b", 1e9, table=((10.0, 1.0), (20.0, 5.0)))
    assert (steep.delay, steep.transmission(20.0), steep.transmission(0.0)) == (0.0, 5.0, 0.0)


def test_one_transfer_alone_takes_what_was_recorded_also_where_that_is_faster_than_the_bandwidth():
    """1 s before the first byte, then a burst of 10 bytes/s up to 10 bytes; a link of 2 bytes/s from there on."""
    link = Link("a", "b", 2.0, table=((0.0, 1.0), (10.0, 2.0), (20.0, 7.0)))
    assert (link.delay, link.fastest) == (1.0, 10.0)
    assert [link.transmission(size) for size in (5.0, 10.0, 20.0, 30.0)] == [0.5, 1.0, 6.0, 11.0]


def test_bytes_of_no_duration_in_the_table_take_a_twentieth_of_its_time():
    """As long for 10 bytes as for 1, 3 s: all of it is delay, and nothing may be infinitely fast."""
    link = Link("a", "b", 2.0, table=((1.0, 3.0), (10.0, 3.0)))
    assert (link.delay, link.transmission(10.0)) == (3.0, pytest.approx(0.15))
    assert Link("a", "b", 2.0, table=((1.0, 0.0), (10.0, 0.0))).transmission(10.0) == 5.0
    assert Link("a", "b", 2.0, table=((1.0, 5e-324), (10.0, 5e-324))).transmission(10.0) < 1e-200


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        ({"burst": 5.0}, "peak 0.0 found; more than the bandwidth, 100.0 bytes/s, was expected with a burst"),
        ({"burst": 5.0, "peak": 100.0}, "peak 100.0 found"),
        ({"peak": 200.0}, "burst 0.0 found; more than 0 bytes was expected beside a peak"),
        ({"burst": -1.0, "peak": 200.0}, "burst -1.0 found"),
        ({"burst": 1.0, "peak": 200.0, "table": ((0.0, 1.0), (9.0, 2.0))}, "burst: a table found, too"),
    ],
)
def test_a_burst_that_means_nothing_is_refused(given, wrong):
    with pytest.raises(InputError, match=f"link a - b: {re.escape(wrong)}"):
        Link("a", "b", 100.0, **given)


@pytest.mark.parametrize(
    "table",
    [
        ((0.0, 1.0),),
        ((0.0, 1.0), (0.0, 2.0)),
        ((5.0, 1.0), (2.0, 2.0)),
        ((0.0, 2.0), (5.0, 1.0)),
        ((-1.0, 0.0), (1.0, 1.0)),
    ],
)
def test_tables_that_go_backwards_or_have_one_point_are_refused(table):
    with pytest.raises(InputError, match="link a - b: table: "):
        Link("a", "b", 1.0, table=table)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"name": ""}, "the name '' found"),
        ({"name": "a\nb"}, "printable characters were expected"),
        ({"memory": -1}, "'a': memory and flops must be positive"),
        ({"flops": float("inf")}, "'a': memory and flops must be positive"),
    ],
)
def test_impossible_numbers_of_a_device_are_refused(wrong, message):
    with pytest.raises(InputError, match=message):
        Device(**({"name": "a", "kind": "k"} | wrong))


@pytest.mark.parametrize(
    "wrong", [{"duplex": "simplex"}, {"source": ""}, {"table": ((0.0, 0.0), (1.0, float("inf")))}, {"medium": "wire"}]
)
def test_links_that_no_file_would_hold_are_refused(wrong):
    with pytest.raises(InputError, match=r"^link .*: "):
        Link(**({"source": "a", "target": "b", "bandwidth": 1.0} | wrong))


@pytest.mark.parametrize(
    ("duplex", "medium", "found"),
    [
        ("full", "", [("a", "b", "a->b"), ("b", "a", "b->a")]),
        ("half", "", [("a", "b", "a<->b"), ("b", "a", "a<->b")]),
        ("one_way", "", [("a", "b", "a->b")]),
        ("shared", "bus", [("a", "b", "bus"), ("b", "a", "bus")]),
    ],
)
def test_the_directions_of_a_link_occupy_the_media_of_its_duplex(duplex, medium, found):
    assert directions(Link("a", "b", 1.0, 0.0, duplex, medium)) == found
