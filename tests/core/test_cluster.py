import itertools
import json
from dataclasses import replace

import networkx as nx
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from helpers import contracts, strategies
from pipesim.base import serialisation
from pipesim.base.errors import FormatError, InputError
from pipesim.core.cluster import Cluster, Device, Link

# The same examples in every run.
same = settings(deadline=None, derandomize=True, database=None)


def cluster_of(devices: str, *links: Link) -> Cluster:
    """A cluster with a device for each letter."""
    return Cluster("test", tuple(Device(name, "v100-16gb") for name in devices), links)


def names(cluster: Cluster, source: str, target: str) -> list[str]:
    """The media that a transfer occupies."""
    return [cluster.media[medium] for medium in cluster.route(source, target).media]


def path(cluster: Cluster, source: str, target: str) -> list[str]:
    return contracts.vertices_of(cluster, source, cluster.route(source, target).links)


# --- links and media -------------------------------------------------------------------------------------------------


def test_a_full_duplex_link_has_a_medium_for_each_direction():
    cluster = cluster_of("ab", Link("a", "b", 5.0))
    assert dict(zip(cluster.media, cluster.media_bandwidth, strict=True)) == {"a->b": 5.0, "b->a": 5.0}
    assert (names(cluster, "a", "b"), names(cluster, "b", "a")) == (["a->b"], ["b->a"])


def test_both_directions_of_a_half_duplex_link_take_turns_on_one_medium():
    cluster = cluster_of("ab", Link("a", "b", 5.0, duplex="half"))
    assert (cluster.media, cluster.media_bandwidth) == (("a<->b",), (5.0,))
    assert names(cluster, "a", "b") == names(cluster, "b", "a") == ["a<->b"]


def test_a_one_way_link_leads_from_source_to_target_only():
    cluster = cluster_of("ab", Link("a", "b", 5.0, duplex="one_way"))
    assert cluster.media == ("a->b",)
    assert names(cluster, "a", "b") == ["a->b"]
    with pytest.raises(InputError, match=r"cluster 'test': no route from 'b' to 'a'"):
        cluster.route("b", "a")


def test_two_one_way_links_may_make_a_pair_with_two_speeds():
    there, back = Link("a", "b", 5.0, duplex="one_way"), Link("b", "a", 3.0, duplex="one_way")
    cluster = cluster_of("ab", there, back)
    assert cluster.bandwidth_matrix.tolist() == [[np.inf, 5.0], [3.0, np.inf]]


def test_links_on_a_shared_medium_are_one_medium_that_a_route_occupies_once():
    """A bus, or a wireless channel: two hops over it do not make it two."""
    bus = [Link(x, "hub", 5.0, duplex="shared", medium="bus") for x in "abc"]
    cluster = cluster_of("abcd", *bus, Link("hub", "d", 7.0))
    assert cluster.media == ("bus", "hub->d", "d->hub")
    assert names(cluster, "a", "b") == ["bus"]
    assert len(cluster.route("a", "b").links) == 2
    assert names(cluster, "a", "d") == ["bus", "hub->d"]
    assert names(cluster, "d", "c") == ["d->hub", "bus"]


def test_links_on_a_shared_medium_must_agree_on_its_bandwidth():
    one, other = (Link(x, "hub", wide, duplex="shared", medium="bus") for x, wide in (("a", 5.0), ("b", 6.0)))
    with pytest.raises(InputError, match=r"links\[1\]\.bandwidth: 6\.0 found; .* medium 'bus' have 5\.0"):
        cluster_of("ab", one, other)


@pytest.mark.parametrize(
    "second", [("a", "b", "full"), ("b", "a", "half"), ("a", "b", "one_way"), ("b", "a", "one_way")]
)
def test_a_second_link_between_two_vertices_is_refused(second):
    source, target, duplex = second
    with pytest.raises(InputError, match=rf"links\[1\]: {source} and {target} are already connected by a link"):
        cluster_of("ab", Link("a", "b", 1.0), Link(source, target, 2.0, duplex=duplex))


def test_a_second_link_in_the_same_one_direction_is_refused():
    one_way = Link("a", "b", 1.0, duplex="one_way")
    with pytest.raises(InputError, match="already connected"):
        cluster_of("ab", one_way, one_way)


# --- time on a link --------------------------------------------------------------------------------------------------


def test_a_route_s_delays_add_up_and_its_slowest_link_sets_the_pace():
    cluster = cluster_of("ab", Link("a", "s", 4e9, 2e-6), Link("s", "b", 1e9, 3e-6))
    route = cluster.route("a", "b")
    assert (route.delay, route.bandwidth) == (2e-6 + 3e-6, 1e9)
    assert cluster.timing(route, 2e9) == (2e-6 + 3e-6, 2.0)


def test_a_burst_passes_at_the_peak_and_what_is_over_it_at_the_bandwidth():
    link = Link("a", "b", 100.0, burst=300.0, peak=400.0)
    assert [link.transmission(size) for size in (0.0, 200.0, 400.0, 500.0)] == [0.0, 0.5, 1.0, 2.0]
    assert link.fastest == 400.0
    cluster = cluster_of("ab", Link("a", "s", 150.0, 0.5), replace(link, source="s"))
    route = cluster.route("a", "b")
    assert cluster.timing(route, 300.0) == (0.5, 2.0)  # the other link is slower for so few
    assert cluster.timing(route, 900.0) == (0.5, 6.0)
    assert cluster.buckets == {"s->b": (300.0, 400.0), "b->s": (300.0, 400.0)}
    assert dict(zip(cluster.media, cluster.media_peak, strict=True)) == dict.fromkeys(cluster.buckets, 400.0) | {
        "a->s": 150.0,
        "s->a": 150.0,
    }


def test_links_on_one_medium_have_one_bucket():
    wire = Link("a", "s", 100.0, 0.0, "shared", "wire", burst=5, peak=200.0)
    with pytest.raises(InputError, match=r"links\[1\].burst: 6 found; the other links on medium 'wire' have 5"):
        cluster_of("ab", wire, replace(wire, source="b", burst=6))


def test_the_slowest_table_of_a_route_sets_its_time():
    table = ((0.0, 1.0), (10.0, 11.0))
    cluster = cluster_of("ab", Link("a", "s", 5.0, 0.5), Link("s", "b", 1e9, table=table))
    assert cluster.timing(cluster.route("a", "b"), 10.0) == (1.5, 10.0)


# --- routes ----------------------------------------------------------------------------------------------------------


def test_the_fewest_hops_win_over_the_widest_way():
    cluster = cluster_of("abc", Link("a", "b", 1.0), Link("a", "c", 9.0), Link("c", "b", 9.0))
    assert path(cluster, "a", "b") == ["a", "b"]
    assert cluster.route("a", "b").bandwidth == 1.0


def test_among_the_fewest_hops_the_widest_bottleneck_wins():
    """By c: 9 then 2. By d: 5 then 5. The widest first step is not the widest way."""
    links = [Link("a", "c", 9.0), Link("c", "b", 2.0), Link("a", "d", 5.0), Link("d", "b", 5.0)]
    cluster = cluster_of("abcd", *links)
    assert path(cluster, "a", "b") == ["a", "d", "b"]
    assert path(cluster, "b", "a") == ["b", "d", "a"]
    assert cluster.bandwidth_matrix[0, 1] == 5.0


def test_a_device_reaches_itself_over_nothing():
    cluster = cluster_of("ab", Link("a", "b", 1.0))
    route = cluster.route("a", "a")
    assert (route.links, route.media, route.delay, route.bandwidth) == ((), (), 0, np.inf)
    assert cluster.timing(route, 1e9) == (0, 0.0)


def test_destinations_are_distributed_over_equal_routes():
    """Four devices on each of two switches that four lines join: each destination has a line for itself."""
    left = [Link(d, "left", 1.0) for d in "abcd"]
    right = [Link(d, "right", 1.0) for d in "efgh"]
    lines = [Link(side, f"line{i}", 1.0) for i in range(4) for side in ("left", "right")]
    cluster = cluster_of("abcdefgh", *left, *right, *lines)
    assert sorted(path(cluster, "a", target)[2] for target in "efgh") == ["line0", "line1", "line2", "line3"]
    assert sorted(path(cluster, "h", target)[2] for target in "abcd") == ["line0", "line1", "line2", "line3"]


def test_routes_depend_on_the_cluster_alone_and_not_on_what_was_asked_before():
    links = [Link(x, y, 1.0) for x, y in itertools.combinations("stuv", 2)]
    links += [Link(d, x, 1.0) for d in "abcd" for x in "stuv"]
    pairs = list(itertools.permutations("abcd", 2))
    forth, back = cluster_of("abcd", *links), cluster_of("abcd", *links)
    asked = {pair: forth.route(*pair) for pair in pairs}
    assert {pair: back.route(*pair) for pair in reversed(pairs)} == asked


def test_no_route_is_an_error_that_names_both_ends_and_a_zero_in_the_matrix():
    cluster = cluster_of("abc", Link("a", "b", 1.0))
    with pytest.raises(InputError, match="cluster 'test': no route from 'a' to 'c'"):
        cluster.route("a", "c")
    assert cluster.bandwidth_matrix.tolist() == [[np.inf, 1.0, 0.0], [1.0, np.inf, 0.0], [0.0, 0.0, np.inf]]


SINK = cluster_of("ab", Link("a", "b", 5.0), Link("a", "sink", 5.0, duplex="one_way"))


def test_a_one_way_link_to_where_nothing_comes_back_from_does_not_disturb_other_routes():
    assert path(SINK, "a", "b") == ["a", "b"]
    assert SINK.bandwidth_matrix.tolist() == [[np.inf, 5.0], [5.0, np.inf]]


@st.composite
def clusters(draw):
    """Up to five devices and four switches, joined at random by links of any kind and few different widths."""
    devices = "abcde"[: draw(st.integers(1, 5))]
    vertices = devices + "stuv"[: draw(st.integers(0, 4))]
    links = []
    for source, target in itertools.combinations(vertices, 2):
        duplex = draw(st.sampled_from(["none", "none", "full", "half", "one_way", "shared"]))
        if duplex != "none":
            ends = (source, target) if draw(st.booleans()) else (target, source)
            medium = draw(st.sampled_from(["x", "y"])) if duplex == "shared" else ""
            wide = 2.0 if medium else float(draw(st.integers(1, 3)))
            links.append(Link(*ends, wide, draw(st.sampled_from([0.0, 0.25])), duplex, medium))
    return cluster_of(devices, *links)


@same
@given(clusters())
@example(SINK)
def test_routes_are_the_widest_of_the_shortest_paths_of_networkx(cluster):
    for source, target in itertools.permutations([d.name for d in cluster.devices], 2):
        entry = cluster.bandwidth_matrix[cluster.index[source], cluster.index[target]]
        graph = cluster.graph
        if not nx.has_path(graph, source, target):
            assert entry == 0
            continue
        route = cluster.route(source, target)
        ways = [list(way) for way in nx.all_shortest_paths(graph, source, target)]
        widths = [min(graph.edges[e]["bandwidth"] for e in itertools.pairwise(way)) for way in ways]
        taken = path(cluster, source, target)
        assert widths[ways.index(taken)] == max(widths) == route.bandwidth == entry
        assert route.delay == sum(graph.edges[e]["latency"] for e in itertools.pairwise(taken))
        assert len(route.media) == len(set(route.media))
        assert min(cluster.media_bandwidth[medium] for medium in route.media) == route.bandwidth


# --- the cluster as a whole ------------------------------------------------------------------------------------------


def test_vertices_are_the_devices_and_then_switches_as_they_appear():
    cluster = cluster_of("ba", Link("z", "a", 1.0), Link("b", "y", 1.0))
    assert cluster.vertices == ("b", "a", "z", "y")
    assert cluster.index == {"b": 0, "a": 1}


@pytest.mark.parametrize(
    ("devices", "message"),
    [
        ((), "devices: a cluster needs at least one"),
        ((Device("a", "k"), Device("b", "k"), Device("a", "j")), "devices: duplicate name 'a'"),
    ],
)
def test_impossible_devices_are_refused(devices, message):
    with pytest.raises(InputError, match=message):
        Cluster("test", devices)


def test_a_shared_medium_cannot_take_the_name_of_another_links_direction():
    with pytest.raises(InputError, match=r"links\[1\].medium: 'a->b' is also the name of the medium of another link"):
        cluster_of("abc", Link("a", "b", 1.0), Link("b", "c", 2.0, duplex="shared", medium="a->b"))


def test_a_route_from_a_device_that_is_not_there_is_refused():
    with pytest.raises(InputError, match="cluster 'test' has no device 'z'"):
        cluster_of("ab", Link("a", "b", 1.0)).route("a", "z")


def test_the_graph_has_every_vertex_and_every_direction():
    cluster = cluster_of("ab", Link("a", "s", 4.0, 0.5), Link("s", "b", 2.0, duplex="one_way"))
    graph = cluster.graph
    assert {vertex: data["device"] for vertex, data in graph.nodes(data=True)} == {
        "a": cluster.devices[0],
        "b": cluster.devices[1],
        "s": None,
    }
    assert {(u, v): (d["bandwidth"], d["latency"], d["medium"]) for u, v, d in graph.edges(data=True)} == {
        ("a", "s"): (4.0, 0.5, "a->s"),
        ("s", "a"): (4.0, 0.5, "s->a"),
        ("s", "b"): (2.0, 0.0, "s->b"),
    }


WRITTEN = """
format = "pipesim.cluster"
version = 1
name = "two"
devices = [
    { name = "a", kind = "v100-16gb", memory = "16 GiB" },
    { name = "b", kind = "v100-16gb", node = "n", flops = 1e12 },
]
[[links]]
source = "a"
target = "s"
bandwidth = "25 Gb/s"
latency = "4us"
[[links]]
source = "s"
target = "b"
bandwidth = 1_000_000
duplex = "half"
table = [[0, 1e-6], [1024, 2e-6]]
"""


def test_a_file_may_be_written_by_hand_with_units(tmp_path):
    file = tmp_path / "two.toml"
    file.write_text(WRITTEN)
    assert serialisation.load(Cluster, file) == Cluster(
        "two",
        (Device("a", "v100-16gb", memory=16 * 2**30), Device("b", "v100-16gb", "n", flops=1e12)),
        (
            Link("a", "s", 25e9 / 8, 4e-6),
            Link("s", "b", 1e6, duplex="half", table=((0.0, 1e-6), (1024.0, 2e-6))),
        ),
    )


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"25 Gb/s"', '"25 Gbit"', r"links\[0\]\.bandwidth: '25 Gbit' is not a bandwidth"),
        ('"25 Gb/s"', "0", r"links\[0\]: link a - s: bandwidth 0"),
        ('"4us"', '"5 minutes"', r"links\[0\]\.latency: '5 minutes' is not a time"),
        ('"16 GiB"', "-1", r"devices\[0\]\.memory: -1 is not a size"),
        ('"half"', '"simplex"', r"links\[1\]\.duplex: 'simplex' found; one of 'full', 'half'"),
        ("[1024, 2e-6]", "[1024]", r"links\[1\]\.table\[1\]: 1 values found; 2 were expected"),
        ('kind = "v100-16gb", node', 'kin = "v100-16gb", node', r"devices\[1\]\.kin: unknown key"),
        ('name = "b"', 'name = "a"', r"two\.toml: devices: duplicate name 'a'"),
        ('"pipesim.cluster"', '"pipesim.plan"', r"two\.toml: format = 'pipesim\.plan' found"),
    ],
)
def test_an_error_in_a_file_is_shown_with_its_place(tmp_path, old, new, message):
    assert WRITTEN.count(old) == 1
    file = tmp_path / "two.toml"
    file.write_text(WRITTEN.replace(old, new))
    with pytest.raises(InputError, match=message):
        serialisation.load(Cluster, file)


@same
@given(clusters())
@example(SINK)
def test_writing_and_reading_give_the_same_cluster_and_the_same_routes(cluster):
    body = serialisation.parse_data(serialisation.dumps(cluster, ".toml"), ".toml")
    assert json.loads(serialisation.dumps(cluster, ".json"))["name"] == "test"
    again = serialisation.from_data(Cluster, {key: body[key] for key in ("name", "devices", "links")})
    assert again == cluster
    assert np.array_equal(again.bandwidth_matrix, cluster.bandwidth_matrix)


def test_a_file_of_a_later_version_is_refused(tmp_path):
    file = tmp_path / "two.toml"
    file.write_text(WRITTEN.replace("version = 1", "version = 2"))
    with pytest.raises(FormatError, match=r"version 2 is newer"):
        serialisation.load(Cluster, file)


@same
@given(strategies.clusters(), st.floats(0, 1e12))
def test_a_transfer_takes_what_it_takes_on_the_slowest_link_of_its_route(cluster, size):
    """To the last bit: if no link has a table, the least bandwidth of the route decides."""
    devices = [device.name for device in cluster.devices]
    for source, target in itertools.permutations(devices, 2):
        route = cluster.route(source, target)
        slowest = max(cluster.links[link].transmission(size) for link in route.links)
        assert cluster.timing(route, size) == (route.delay, slowest)
