"""What channels between stages take at the least."""

import numpy as np
import pytest

from pipesim.analysis.bounds.islands import Network, island_model
from pipesim.analysis.bounds.moves import ChannelColumns, by_island, links_of, rings_of
from pipesim.studies.loading import load_cluster


def test_what_stays_in_a_server_does_not_wait_for_what_comes_to_it():
    """Two stages on both servers: parts that stay inside begin at once, and a device is busy with those meanwhile."""
    cluster = load_cluster("servers(2, 4, intra=1e9, inter=2e9, latency=0, network_latency=1e-3)")
    model = island_model(Network(cluster), np.repeat([0, 1], 4))
    rows = np.array([[3, 1], [3, 1], [3, 0]]), np.array([[1, 1], [1, 0], [0, 2]])
    assert links_of(model, *rows, "split", 4).delay.tolist() == [0, 0, model.delay_across]


def test_of_replicas_on_two_servers_one_may_be_late_alone():
    """After it only its own part crosses; replicas of one server have theirs at the same time, so all of them do."""
    cluster = load_cluster('servers(2, 4, intra="25GB/s", inter="1GB/s", latency=0, network_latency=0)')
    rows = np.array([[2, 1], [2, 0]]), np.array([[0, 2], [0, 2]])
    arrive, leave, forward_min, *_ = links_of(island_model(Network(cluster), np.repeat([0, 1], 4)), *rows, "split", 4)
    assert forward_min[0] == pytest.approx(1 / (3 * 2 * 25e9))
    assert forward_min[0] < arrive[0]
    assert forward_min[1] == arrive[1] == leave[1] == pytest.approx(1 / 1e9)


@pytest.mark.parametrize("replicas", ["split", "whole"])
def test_the_columns_of_moves_are_those_of_their_channels_in_the_order_of_their_load(replicas):
    model = island_model(Network(load_cluster("servers(2, 2, intra=4e9, inter=1e9)")), np.repeat([0, 1], 2))
    moves = by_island(model, replicas, 4)
    load = ChannelColumns._fields.index("load")
    for first, stop in zip(moves.first, moves.stop, strict=True):
        assert (np.diff(moves.channel[first:stop, load]) >= 0).all()
    assert np.isfinite(moves.channel[:, load]).all()
    assert moves.channel.shape == (len(moves.place), 7)
    assert moves.loads.shape == (len(moves.place), 2, 2)


def test_every_way_to_place_two_stages_on_two_single_devices_is_a_move():
    """One device on each island: a state for the first stage, a place for it and one for a second stage."""
    model = island_model(Network(load_cluster("flat(2, bandwidth=1e9, latency=0)")), np.array([0, 1]))
    moves = by_island(model, "split", 3)
    assert moves.size.tolist() == [1, 2, 1] or sorted(moves.size.tolist()) == [1, 1, 2]
    assert moves.can_be_first.sum() == 2, "on one device, or on both"
    assert len(moves.place) == 1, "one channel, from either device to the other"
    channel = ChannelColumns(*moves.channel[0], *moves.loads[0].T)
    assert channel.forward == channel.backward == pytest.approx(1e-9)
    assert channel.load == pytest.approx(3e-9)


def test_a_ring_over_islands_loads_each_of_them_and_one_inside_none():
    model = island_model(
        Network(load_cluster("servers(2, 2, intra=4e9, inter=1e9, latency=0, network_latency=0)")), np.repeat([0, 1], 2)
    )
    ring, latency, load = rings_of(model, np.array([[2, 0], [1, 1], [1, 0]]))
    assert ring.tolist() == pytest.approx([1 / 4e9, 1 / 1e9, 0])
    assert latency.tolist() == [0, 0, 0]
    assert load.tolist() == [[0, 0], [1e-9, 1e-9], [0, 0]]
