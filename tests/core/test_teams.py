"""Teams: which GPUs form one, what planners see of them, how they are written."""

from dataclasses import replace

import pytest

import pipesim as ps
from pipesim.base.errors import InputError
from pipesim.core.teams import Widths, as_devices, has_team, label, teams_of, teams_of_ranks

SERVERS = ps.load_cluster('servers(2, 4, intra="300GB/s", inter="25GB/s", device="h100-80gb")')


def test_teams_stay_inside_nodes_where_they_fit():
    teams = teams_of(SERVERS, 2)
    assert len(teams) == 4
    assert all(len({SERVERS.device(name).node for name in team}) == 1 for team in teams)


def test_a_team_wider_than_a_node_takes_whole_nodes():
    assert teams_of(SERVERS, 8) == (tuple(device.name for device in SERVERS.devices),)


def test_devices_that_are_too_few_for_a_team_stay_unused():
    assert [team[0] for team in teams_of(SERVERS, 3)] == ["node0.gpu0", "node1.gpu0"]


def test_a_cluster_has_a_team_or_none():
    assert has_team(SERVERS, 8)
    assert not has_team(SERVERS, 9)


def test_teams_of_ranks_of_one_width_are_the_teams_in_their_order():
    every = teams_of(SERVERS, 2)
    assert teams_of_ranks(SERVERS, (2, 2), 2) == (every[:2], every[2:])
    assert teams_of_ranks(SERVERS, (8,), 1) == (teams_of(SERVERS, 8),)


def test_what_a_rank_leaves_of_a_node_is_there_for_later_ones():
    ranks = teams_of_ranks(SERVERS, (3, 4, 1), 1)
    assert [label(team) for (team,) in ranks] == ["node0.gpu0-2", "node1.gpu0-3", "node0.gpu3"]
    with pytest.raises(InputError, match=r"1 x teams of 3, 2, 3 GPUs found, for which there is no room from rank 2 on"):
        teams_of_ranks(SERVERS, (3, 2, 3), 1)


def test_ranks_take_the_first_kinds_first_and_no_team_has_two():
    kinds = [replace(one, kind="old" if one.node == "node0" else "new") for one in SERVERS.devices]
    mixed = replace(SERVERS, devices=tuple(kinds))
    (wide,), narrow = teams_of_ranks(mixed, (4, 2), 1, ("new",))
    assert (wide[0], narrow[0][0]) == ("node1.gpu0", "node0.gpu0")
    with pytest.raises(InputError, match="no room from rank 0 on"):
        teams_of_ranks(mixed, (8,), 1)


@pytest.mark.parametrize(
    ("gpus", "message"), [(9, "a team of 9 of one kind does not fit"), (0, "1 or more was expected")]
)
def test_a_width_that_no_team_can_have_is_refused(gpus, message):
    with pytest.raises(InputError, match=message):
        teams_of(SERVERS, gpus)


def test_planners_see_a_device_per_team_and_the_part_of_a_shared_link_that_one_member_gets():
    seen = as_devices(SERVERS, teams_of(SERVERS, 4))
    assert [device.name for device in seen.devices] == ["node0.gpu0", "node1.gpu0"]
    assert seen.route("node0.gpu0", "node1.gpu0").bandwidth == 25e9 / 4  # four members share the node's NIC
    assert seen.devices[0].memory == SERVERS.devices[0].memory
    assert seen.devices[0].flops == 4 * SERVERS.devices[0].flops


def test_a_nic_for_each_gpu_leaves_each_member_all_of_it():
    cluster = ps.load_cluster("hgx_h100(2)")
    seen = as_devices(cluster, teams_of(cluster, 8))
    assert seen.route("node0.gpu0", "node1.gpu0").bandwidth == cluster.route("node0.gpu0", "node1.gpu0").bandwidth


def test_teams_of_one_are_the_cluster_itself():
    assert as_devices(SERVERS, teams_of(SERVERS, 1)) is SERVERS


@pytest.mark.parametrize(
    ("team", "written"),
    [
        (("gpu3",), "gpu3"),
        (("a", "b"), "a+b"),
        (("node0.gpu0", "node0.gpu1", "node0.gpu2"), "node0.gpu0-2"),
        (("n0.g6", "n0.g7", "n1.g0", "n1.g1"), "n0.g6-7+n1.g0-1"),
        (("g0", "g2"), "g0+g2"),
    ],
)
def test_a_team_is_written_with_runs_of_numbers(team, written):
    assert label(team) == written


def test_widths_are_written_by_name_and_experts_need_no_further_gpus():
    assert str(Widths(8, 2)) == "tensor width 8, context width 2"
    assert Widths(8, 2, 4).gpus == 16
    assert str(Widths()) == "one GPU each"
