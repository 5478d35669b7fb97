"""PipeDream's dynamic program against every plan, by its own reckoning told once more."""

import numpy as np
import pytest

from helpers.rivals import compositions, drawn_costs
from pipesim.planners.groups import cut_bytes
from pipesim.planners.pipedream import Level, levels_of, pipedream
from pipesim.studies.loading import load_cluster


class Judge:
    """The least bottleneck by trying everything."""

    def __init__(self, costs, levels):
        self.work = costs.forward("any") + costs.backward("any")
        self.weights, self.cut, self.levels = costs.model.parameter_bytes, cut_bytes(costs), levels

    def least(self, level, start, stop):
        """Of layers start .. stop-1 on everything that one group of this level has."""
        if level < 0:
            return self.work[start:stop].sum()
        return min(
            self.bottleneck(level, start, layers, groups)
            for stages in range(1, min(stop - start, self.levels[level][0]) + 1)
            for layers in compositions(stop - start, stages)
            for groups in compositions(self.levels[level][0], stages)
        )

    def bottleneck(self, level, start, layers, groups):
        """Of stages of so many layers each, on so many groups of the level below each."""
        bandwidth = self.levels[level][1]
        inside = self.levels[level - 1][0] if level else 1
        stop, slowest = start, 0.0
        for n, (count, m) in enumerate(zip(layers, groups, strict=True)):
            begin, stop = stop, stop + count
            ring = 4 * (m - 1) * self.weights[begin:stop].sum() / (bandwidth * m)
            if n == 0:
                ring /= inside
            else:
                moved = 2 * max(self.cut[begin], self.cut[stop]) / (bandwidth * m)
                slowest = max(slowest, moved)
            slowest = max(slowest, (self.least(level - 1, begin, stop) + ring) / m)
        return slowest


@pytest.mark.parametrize("seed", range(25))
@pytest.mark.parametrize("bandwidth", ["20MB/s", "100MB/s", "10GB/s"])
def test_on_a_flat_machine_no_plan_has_a_lower_bottleneck(seed, bandwidth):
    rng = np.random.default_rng(seed)
    costs = drawn_costs(rng, int(rng.integers(1, 7)))
    cluster = load_cluster(f'flat({rng.integers(1, 6)}, bandwidth="{bandwidth}")')
    plan = pipedream(costs.model, cluster, costs, 8)
    judge = Judge(costs, levels_of(cluster)[1])
    assert plan.objective_s == pytest.approx(judge.least(0, 0, len(costs.model)), rel=1e-12)
    layers = [stage.stop - stage.start for stage in plan.stages]
    assert judge.bottleneck(0, 0, layers, plan.replication) == pytest.approx(plan.objective_s, rel=1e-12)
    assert sum(plan.replication) == len(cluster.devices)
    assert plan.replicas == "whole"


@pytest.mark.parametrize("seed", range(15))
@pytest.mark.parametrize("inter", ["20MB/s", "200MB/s"])
def test_on_two_levels_no_plan_has_a_lower_bottleneck(seed, inter):
    rng = np.random.default_rng(seed)
    costs = drawn_costs(rng, int(rng.integers(1, 6)))
    cluster = load_cluster(f'servers({rng.integers(2, 4)}, {rng.integers(2, 4)}, intra="1GB/s", inter="{inter}")')
    plan = pipedream(costs.model, cluster, costs, 8)
    levels = levels_of(cluster)[1]
    assert len(levels) == 2
    assert plan.objective_s == pytest.approx(Judge(costs, levels).least(1, 0, len(costs.model)), rel=1e-12)
    assert sum(plan.replication) == len(cluster.devices)


def test_a_stage_that_spans_nodes_takes_whole_nodes():
    """Two stages are on the same nodes or on none in common."""
    for seed in range(20):
        costs = drawn_costs(np.random.default_rng(seed), 8, activations=50)
        cluster = load_cluster('servers(4, 4, intra="10GB/s", inter="1GB/s")')
        sets = [
            {device.partition(".")[0] for device in stage.devices}
            for stage in pipedream(costs.model, cluster, costs, 8).stages
        ]
        assert all(one == other or not one & other for one in sets for other in sets)


def test_the_levels_come_from_the_nodes_of_the_cluster():
    servers = load_cluster('servers(4, 2, intra="10GB/s", inter="1.25GB/s")')
    assert levels_of(servers)[1] == [Level(2, 1e10), Level(4, 1.25e9)]
    assert levels_of(load_cluster('flat(4, bandwidth="1GB/s")')) == ([[0, 1, 2, 3]], [Level(4, 1e9)])
    alone = load_cluster('servers(3, 1, intra="10GB/s", inter="1GB/s")')
    assert levels_of(alone)[1] == [Level(3, 1e9)], "nodes of one device are one level"


def test_nodes_of_different_sizes_are_one_level_at_the_slowest_pair():
    from pipesim.core.cluster import Cluster

    whole = load_cluster('servers(2, 2, intra="10GB/s", inter="1GB/s")')
    uneven = Cluster(
        "uneven", whole.devices[:3], tuple(link for link in whole.links if "node1.gpu1" not in link.source)
    )
    assert levels_of(uneven)[1] == [Level(3, 1e9)]


def test_twice_the_seconds_and_bytes_take_twice_the_time():
    cluster = load_cluster('servers(2, 2, intra="1GB/s", inter="100MB/s")')
    once = drawn_costs(np.random.default_rng(3), 6)
    twice = drawn_costs(np.random.default_rng(3), 6, seconds=2, parameters=2, activations=2)
    plan, slow = (pipedream(costs.model, cluster, costs, 4) for costs in (once, twice))
    assert slow.objective_s == pytest.approx(2 * plan.objective_s, rel=1e-12)
    assert slow.stages == plan.stages


def test_the_number_of_microbatches_and_latencies_are_ignored():
    costs = drawn_costs(np.random.default_rng(4), 6)
    near, far = (load_cluster(f'flat(4, bandwidth="1GB/s", latency="{delay}")') for delay in ("0s", "1s"))
    plans = [pipedream(costs.model, cluster, costs, m) for cluster in (near, far) for m in (1, 64)]
    assert len({(plan.stages, plan.objective_s) for plan in plans}) == 1
