"""Routes in columns are the routes that the cluster gives one by one."""

import numpy as np
import pytest

import pipesim as ps
from pipesim.core.cluster import Cluster, Device, Link

CLUSTERS = ['servers(2, 3, intra="10GB/s", inter="1GB/s")', "leaf_spine(2, 2, 2, '100 Gb/s', '25 Gb/s')", "dgx1_v100"]


@pytest.mark.parametrize("expression", CLUSTERS)
def test_rows_asked_for_in_any_order_and_in_parts_are_the_routes(expression):
    cluster, rng = ps.load_cluster(expression), np.random.default_rng(0)
    count, table = len(cluster.devices), cluster.route_table
    for size in (1, 5, 60):  # of these the last are found together, some are known
        source, target = rng.integers(0, count, (2, size))
        rows = table.rows(source, target)
        for row, a, b in zip(rows.tolist(), source.tolist(), target.tolist(), strict=True):
            route = cluster.route(cluster.devices[a].name, cluster.devices[b].name)
            assert tuple(table.media[row].tolist()) == route.media
            assert (table.delay[row], table.bandwidth[row]) == (route.delay, route.bandwidth)
            assert table.is_plain[row]


def test_routes_with_recorded_times_are_not_plain():
    points = ((1e3, 1e-5), (1e6, 1e-3))
    links = (Link("a", "b", 1e9, table=points), Link("b", "c", 1e9))
    cluster = Cluster("three", tuple(Device(name, "gpu") for name in "abc"), links)
    rows = cluster.route_table.rows(np.array([0, 0, 1]), np.array([1, 2, 2]))
    assert cluster.route_table.is_plain[rows].tolist() == [False, False, True]
