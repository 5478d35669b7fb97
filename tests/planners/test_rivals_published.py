"""What the planners of PipeDream and DAPPLE answered for their own profiles must come out here.

Bottleneck seconds from PipeDream's optimizer (with activation transfers), speed-ups from DAPPLE's planner, both run on
the profiles that the projects publish. The profiles are not part of this project.
"""

import pytest

from helpers.places import PROFILES, needs_data
from pipesim.core.costs import costs_of
from pipesim.studies.loading import load_trace
from pipesim.studies.results import make_plan


def profile(name):
    return needs_data(PROFILES / name)


@pytest.mark.parametrize(
    ("model", "cluster", "seconds", "replication"),
    [
        ("vgg16", 'flat(4, bandwidth="1GB/s")', 0.205520896, (3, 1)),
        ("vgg16", 'flat(8, bandwidth="1GB/s")', 0.103833, (7, 1)),
        ("vgg16", 'flat(16, bandwidth="2.5GB/s")', 0.046320860, (15, 1)),
        ("alexnet", 'flat(4, bandwidth="1GB/s")', 0.0342171413, (3, 1)),
        ("resnet50", 'flat(16, bandwidth="1GB/s")', 0.0478013453, (7, 6, 3)),
        ("gnmt", 'flat(4, bandwidth="1GB/s")', 0.025868, (1, 1, 1, 1)),
    ],
)
def test_pipedream_finds_the_published_bottleneck_on_flat_machines(model, cluster, seconds, replication):
    plan = make_plan(profile(f"pipedream/{model}.txt"), cluster, "pipedream", fit=False)
    assert plan.objective_s == pytest.approx(seconds, abs=1e-6)
    assert plan.replication == replication


def test_pipedream_cuts_vgg16_where_published():
    plan = make_plan(profile("pipedream/vgg16.txt"), 'flat(16, bandwidth="2.5GB/s")', "pipedream", fit=False)
    assert plan.cuts == (25,)


def test_pipedream_finds_the_published_bottleneck_on_two_levels():
    """Of the four nodes three hold the first part of the model, one the rest."""
    cluster = 'servers(4, 4, intra="10GB/s", inter="1.25GB/s")'
    plan = make_plan(profile("pipedream/vgg16.txt"), cluster, "pipedream", fit=False)
    assert plan.objective_s == pytest.approx(0.0671339969, abs=1e-6)
    nodes = [frozenset(device.partition(".")[0] for device in stage.devices) for stage in plan.stages]
    assert [len(group) for group in dict.fromkeys(nodes)] == [3, 1]


@pytest.mark.parametrize(
    ("model", "machines", "microbatches", "speedup", "replication"),
    [
        ("bert-48-pbs-2", (2, 8), 64 // 2, 12.3371, (8, 8)),
        ("vgg-19-pbs-32", (2, 8), 2048 // 32, 12.0623, (15, 1)),
        ("bert-24-pbs-6", (2, 8), 192 // 6, 12.3228, (8, 8)),
        ("amoeba-18-pbs-8", (2, 8), 128 // 8, 7.8892, (8, 8)),
        ("bert-48-pbs-2", (16, 1), 64 // 2, 9.7348, (1,) * 16),
    ],
)
def test_dapple_finds_the_published_replication_and_speedup(model, machines, microbatches, speedup, replication):
    """Within 2 %: DAPPLE's program counts one layer too many in a stage's all-reduce."""
    path = profile(f"dapple/{model}.txt")
    cluster = f'servers({machines[0]}, {machines[1]}, intra="25GB/s", inter="1GB/s")'
    plan = make_plan(path, cluster, 'dapple(collective="3GB/s")', microbatches, fit=False)
    costs = costs_of(load_trace(path))
    alone = microbatches * (costs.forward("any").sum() + costs.backward("any").sum())
    assert plan.replication == replication
    assert alone / plan.objective_s == pytest.approx(speedup, rel=0.02)
