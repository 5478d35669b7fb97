"""Plans of one form take equally long, to the last bit; where devices differ, so do forms."""

import itertools
import random

import pytest

import pipesim as ps
from helpers.strategies import even_trace
from pipesim.core.costs import costs_of
from pipesim.core.plan import Plan, Stage
from pipesim.lowering.plan_form import form_of
from pipesim.studies.pricing import estimated_seconds

COSTS = costs_of(even_trace(4))
CLUSTERS = [
    'servers(2, 3, intra="10GB/s", inter="1GB/s")',
    "leaf_spine(2, 2, 2, '100 Gb/s', '25 Gb/s')",
    'random(5, seed=1, bandwidths=["1GB/s", "4GB/s"])',
]


def drawn(rng, cluster, replicas):
    names = rng.sample([device.name for device in cluster.devices], len(cluster.devices))
    cuts = [0, rng.randint(1, 2), rng.randint(3, len(names) - 1)]
    parts = [tuple(names[a:b]) for a, b in itertools.pairwise(cuts)]
    return Plan("even", 4, 4, (Stage(0, 2, parts[0]), Stage(2, 4, parts[1])), replicas)


@pytest.mark.parametrize("replicas", ["split", "whole"])
@pytest.mark.parametrize("expression", CLUSTERS)
def test_plans_of_one_form_take_equally_long(expression, replicas):
    cluster, rng, known = ps.load_cluster(expression), random.Random(1), {}
    plans = [drawn(rng, cluster, replicas) for _ in range(60)]
    for plan in plans:
        known.setdefault(form_of(plan, cluster), set()).add(estimated_seconds(COSTS, cluster, plan))
    assert all(len(seconds) == 1 for seconds in known.values())
    assert 1 < len(known) < len({plan.stages for plan in plans}) or "random" in expression


def plan_on(*stages):
    return Plan("even", 4, 4, tuple(Stage(2 * n, 2 * n + 2, names) for n, names in enumerate(stages)))


def test_devices_of_a_server_can_change_places_and_servers_too():
    cluster = ps.load_cluster(CLUSTERS[0])
    a, b, c, d, e, _ = (device.name for device in cluster.devices)
    forms = [form_of(plan_on(*stages), cluster) for stages in (((a, b), (d,)), ((b, c), (e,)), ((d, e), (a,)))]
    assert forms[0] == forms[1] == forms[2]
    assert forms[0] != form_of(plan_on((a, d), (b,)), cluster)
    assert forms[0] != form_of(plan_on((a,), (d, e)), cluster)


def test_recorded_links_have_no_form():
    points = ((1e3, 1e-5), (1e6, 1e-3))
    cluster = ps.Cluster("two", (ps.Device("a", "gpu"), ps.Device("b", "gpu")), (ps.Link("a", "b", 1e9, table=points),))
    assert form_of(plan_on(("a",), ("b",)), cluster) is None
