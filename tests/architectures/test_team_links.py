import pytest

from pipesim import load_cluster
from pipesim.architectures.team_links import NCCL_STEP_S, TeamLink, team_link
from pipesim.base.errors import InputError
from pipesim.core.cluster import Cluster, Device, Link


def link(cluster, *members):
    return team_link(load_cluster(cluster), members, efficiency=1.0, network=1.0)


def gpus(node, count):
    return [f"node{node}.gpu{i}" for i in range(count)]


NODES = "servers(2, 8, '300 GB/s', '200 Gb/s', nics={nics}, latency='1us', network_latency='2.5us')"


def test_a_ring_takes_its_closed_form():
    """An all-reduce of 4 over 100 GB/s and 5 us: 6 steps, 3/2 of the bytes; gathers and scatters half of it each."""
    team = TeamLink(100e9, 5e-6)
    assert team.seconds("all_reduce", 1e9, 4) == pytest.approx(6 * 5e-6 + 1.5e9 / 100e9, rel=1e-12)
    assert team.seconds("all_gather", 1e9, 4) == pytest.approx(3 * 5e-6 + 0.75e9 / 100e9, rel=1e-12)
    assert team.seconds("reduce_scatter", 1e9, 4) == team.seconds("all_gather", 1e9, 4)
    assert team.seconds("all_reduce", 1e9, 1) == team.seconds("all_reduce", 0, 4) == 0


def test_across_nodes_small_tensors_take_a_tree_and_large_ones_a_ring():
    """64 GPUs on 8 nodes: 126 steps in a ring, 2 (7 + 3) in a tree, which moves 64/63 of the bytes."""
    team = TeamLink(100e9, 5e-6, nodes=8)
    assert team.seconds("all_reduce", 1e3, 64) == pytest.approx(20 * 5e-6 + 2e3 / 100e9, rel=1e-12)
    assert team.seconds("all_reduce", 1e12, 64) == pytest.approx(126 * 5e-6 + 2 * 63 / 64 * 1e12 / 100e9, rel=1e-12)
    assert team.seconds("all_gather", 1e3, 64) == pytest.approx(63 * 5e-6, rel=1e-3)


def test_inside_a_node_a_ring_has_the_whole_bandwidth_of_a_gpu():
    made = link(NODES.format(nics=8), *gpus(0, 8))
    assert (made.bandwidth, made.nodes) == (300e9, 1)
    assert made.latency == pytest.approx(2e-6 + NCCL_STEP_S)


@pytest.mark.parametrize(("nics", "members", "reached"), [(8, 8, 8), (8, 4, 4), (8, 1, 1), (4, 8, 4), (1, 8, 1)])
def test_across_nodes_it_has_the_nics_that_the_team_reaches(nics, members, reached):
    made = link(NODES.format(nics=nics), *gpus(0, members), *gpus(1, members))
    assert made.bandwidth == pytest.approx(reached * 25e9)
    assert made.nodes == 2
    assert made.latency == pytest.approx(5e-6 + NCCL_STEP_S)


def test_the_links_inside_a_node_bound_a_team_across_nodes():
    made = link("servers(2, 4, '20 GB/s', '200 Gb/s', nics=4)", *gpus(0, 4), *gpus(1, 4))
    assert made.bandwidth == pytest.approx(20e9)


@pytest.mark.parametrize(("members", "links"), [((0, 1, 2, 3), 4), ((0, 1), 1), ((0, 3), 2), (tuple(range(8)), 6)])
def test_in_a_cube_mesh_rings_use_all_links_to_the_other_members(members, links):
    """NVLinks of 25 GB/s; measured by nccl-tests on V100s: 2 GPUs 22.5, 4 GPUs 85, 8 GPUs 134 GB/s."""
    assert link("dgx1_v100", *(f"node0.gpu{i}" for i in members)).bandwidth == links * 25e9


def test_a_bus_that_all_share_is_divided():
    devices = tuple(Device(name, "any") for name in "abc")
    bus = tuple(Link(name, "hub", 12e9, duplex="shared", medium="bus") for name in "abc")
    assert team_link(Cluster("bus", devices, bus), "abc", efficiency=1.0).bandwidth == pytest.approx(4e9)


def test_collectives_reach_a_part_of_what_links_carry():
    cluster = load_cluster("dgx_a100")
    assert team_link(cluster, gpus(0, 8)).bandwidth == pytest.approx(0.74 * 300e9)


def test_a_team_of_one_has_no_link():
    with pytest.raises(InputError, match="1 members found"):
        team_link(load_cluster("dgx_a100"), ["node0.gpu0"])


def test_a_link_that_means_nothing_is_refused():
    with pytest.raises(InputError, match="bandwidth = 0 found"):
        TeamLink(0)
    with pytest.raises(InputError, match="latency"):
        TeamLink(1e9, -1.0)
