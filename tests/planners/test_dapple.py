"""DAPPLE's reckoning told once more over sets of devices, and its searches against every plan."""

import itertools

import numpy as np
import pytest

from helpers.rivals import drawn_costs
from pipesim.planners.dapple import candidates, dapple, least_blocks, problem_of, two_stages
from pipesim.planners.dapple_placement import after, placements, placements_of_each, size_of
from pipesim.planners.groups import cut_bytes
from pipesim.studies.loading import load_cluster

CLUSTERS = [
    'servers(2, 2, intra="1GB/s", inter="100MB/s")',
    'servers(3, 1, intra="1GB/s", inter="50MB/s")',
    'servers(1, 4, intra="100MB/s", inter="1GB/s")',
    'servers(2, 3, intra="1GB/s", inter="20MB/s")',
]


class Judge:
    """The reckoning, written for devices by name: {"node0.gpu1", ...}; servers have `inside` and `across` bytes/s."""

    def __init__(self, costs, microbatches, inside, across, collective):
        self.work = costs.forward("any") + costs.backward("any")
        self.weights, self.cut, self.microbatches = costs.model.parameter_bytes, cut_bytes(costs), microbatches
        self.inside, self.across, self.collective = inside, across, collective

    def all_reduce(self, devices):
        n = len(devices)
        if n == 1:
            return 0.0
        if len({name.split(".")[0] for name in devices}) > 1:
            return 2 * (n - 1) / n / self.collective
        return 2 * (n - 1) / n / self.inside / (n // 2)

    def transfer(self, source, target):
        machines = {name.split(".")[0] for name in target}
        if len(machines) > 1:
            return 1 / self.collective
        elsewhere = [name for name in source if name.split(".")[0] not in machines]
        return len(elsewhere) / len(source) / self.across if elsewhere else 1 / self.inside

    def length(self, stages, pipelines):
        """Of (start, stop, devices of all pipelines), with whole batches divided as DAPPLE divides them."""
        batch = self.work.sum() * self.microbatches
        if len(stages) == 1:
            devices = stages[0][2]
            return batch / len(devices) + self.weights.sum() * self.all_reduce(devices)
        m = self.microbatches // pipelines
        both = 1 if pipelines == 1 and len(stages) == 2 else 2
        moved = [self.cut[a[1]] * self.microbatches * self.transfer(a[2], b[2]) for a, b in itertools.pairwise(stages)]
        computed = [self.work[a:b].sum() * self.microbatches / len(d) for a, b, d in stages]
        block = max(*computed, both * max(moved)) / m
        late = [self.weights[a:b].sum() * self.all_reduce(d) - i * block for i, (a, b, d) in enumerate(stages)]
        return block * (m - 1) + batch / pipelines / m + sum(moved) / pipelines / m + max(0.0, *late)


def posed(seed, cluster, microbatches=8):
    rng = np.random.default_rng(seed)
    costs = drawn_costs(rng, int(rng.integers(2, 7)), activations=float(rng.choice([0.1, 3.0])))
    made = load_cluster(cluster)
    problem, names = problem_of(made, costs, microbatches, "150MB/s")
    judge = Judge(costs, microbatches, problem.inside, problem.across, 150e6)
    return costs, made, problem, names, judge


def named(stages, names):
    return [
        (a, b, {name for m, first, stop in group for name in names[m][first:stop]}) for a, b, group in stages
    ]  # fmt: skip


@pytest.mark.parametrize("cluster", CLUSTERS)
@pytest.mark.parametrize("seed", range(8))
def test_every_candidate_is_as_long_as_the_formula_says(cluster, seed):
    _, _, problem, names, judge = posed(seed, cluster)
    for found in candidates(problem):
        assert found.length == pytest.approx(judge.length(named(found.stages, names), found.pipelines), rel=1e-12)


@pytest.mark.parametrize("cluster", CLUSTERS)
@pytest.mark.parametrize("seed", range(8))
def test_the_plan_is_the_shortest_candidate(cluster, seed):
    costs, made, problem, names, _ = posed(seed, cluster)
    plan = dapple(costs.model, made, costs, 8, collective="150MB/s")
    assert plan.objective_s == min(found.length for found in candidates(problem))
    same = [found for found in candidates(problem) if found.length == plan.objective_s]
    stages = [(stage.start, stage.stop, set(stage.devices)) for stage in plan.stages]
    assert any(named(found.stages, names) == stages for found in same)
    assert plan.replicas == "split"


@pytest.mark.parametrize("cluster", CLUSTERS)
@pytest.mark.parametrize("seed", range(8))
def test_no_plan_of_one_or_two_stages_is_shorter(cluster, seed):
    """Every cut, with every way to place both stages by the three policies, on all devices."""
    costs, made, problem, names, judge = posed(seed, cluster)
    devices, layers = len(made.devices), len(costs.model)
    lengths = [judge.length([(0, layers, {device.name for device in made.devices})], 1)]
    for ahead in range(1, devices):
        for first in placements(problem.sizes, problem.fresh, ahead):
            for second in placements(problem.sizes, after(problem.fresh, first), devices - ahead):
                for cut in range(1, layers):
                    stages = named([(0, cut, first), (cut, layers, second)], names)
                    lengths.append(judge.length(stages, 1))
    plan = dapple(costs.model, made, costs, 8, collective="150MB/s")
    assert plan.objective_s <= min(lengths) * (1 + 1e-12)
    assert len(list(two_stages(problem))) == len(lengths) - 1


def all_divisions(problem, pipelines, devices, straight):
    """Every division of all layers on so many devices of each pipeline, first stage on fresh machines."""

    def further(start, left, used, ahead):
        if start == problem.layers and not left:
            yield ahead
        for r in range(1, left + 1):
            ways = placements_of_each(problem.sizes, used, r, pipelines, 10**6)
            if not ahead:
                group = problem.first(r * pipelines)
                ways = [(after(used, group), group)]
            for after_it, group in ways if r == 1 or not straight else []:
                for stop in range(start + 1, problem.layers + 1):
                    yield from further(stop, left - r, after_it, [*ahead, (start, stop, group)])

    return further(0, devices, problem.fresh, [])


def block(problem, stages):
    work = [problem.seconds[a, b] / size_of(group) for a, b, group in stages]
    moved = [2 * problem.cut[a[1]] * problem.transfer(a[2], b[2]) for a, b in itertools.pairwise(stages)]
    return max([*work, *moved])


@pytest.mark.parametrize("cluster", CLUSTERS[:3])
@pytest.mark.parametrize("straight", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_no_division_has_a_lower_block(cluster, straight, seed):
    """Against every division, with every placement of every stage by the three policies."""
    _, made, problem, _, _ = posed(seed, cluster)
    for pipelines in (1, 2):
        deepest = len(made.devices) // pipelines
        found = least_blocks(problem, pipelines, deepest, straight=straight)
        for devices in range(1, deepest + 1):
            blocks = [block(problem, stages) for stages in all_divisions(problem, pipelines, devices, straight)]
            assert (devices in found) == bool(blocks)
            if blocks:
                assert block(problem, found[devices]) == pytest.approx(min(blocks), rel=1e-12)


def test_twice_the_seconds_and_bytes_take_twice_the_time():
    cluster = load_cluster('servers(2, 4, intra="1GB/s", inter="100MB/s")')
    once = drawn_costs(np.random.default_rng(3), 9)
    twice = drawn_costs(np.random.default_rng(3), 9, seconds=2, parameters=2, activations=2)
    plan, slow = (dapple(costs.model, cluster, costs, 16) for costs in (once, twice))
    assert slow.objective_s == pytest.approx(2 * plan.objective_s, rel=1e-12)
    assert slow.stages == plan.stages


def test_latencies_are_ignored():
    costs = drawn_costs(np.random.default_rng(4), 6)
    near, far = (load_cluster(f'flat(4, bandwidth="1GB/s", latency="{delay}")') for delay in ("0s", "1s"))
    plan, distant = (dapple(costs.model, cluster, costs, 8) for cluster in (near, far))
    assert (plan.stages, plan.objective_s) == (distant.stages, distant.objective_s)


def test_with_fewer_microbatches_than_pipelines_there_are_fewer_pipelines():
    """One microbatch cannot be divided over two pipelines, so every candidate is one pipeline."""
    _, _, problem, _, _ = posed(0, CLUSTERS[0], microbatches=1)
    assert {found.pipelines for found in candidates(problem)} == {1}


# --- placing ---------------------------------------------------------------------------------------------------------
