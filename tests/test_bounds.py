"""No schedule and no plan beats its bound, and some reach it."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from networks import chain, pipeline, pipeline_trace
from pipesim import bounds, metrics
from pipesim.bounds import bound_for, group_bandwidths, plan_bound, schedule_bound, single_stage, total_work
from pipesim.costs import costs_of
from pipesim.engines.event import run
from pipesim.errors import DeadlockError
from pipesim.experiment import load_cluster
from pipesim.kernels import compiled
from pipesim.lowering import Options, lower
from pipesim.plan import Plan, Stage
from pipesim.schedule import BACKWARD, FORWARD, Schedule
from pipesim.schedulers.gpipe import gpipe
from pipesim.trace import Trace
from strategies import clusters, even_trace, jobs


@settings(max_examples=300)
@given(jobs(calm=True, split_backwards=False))
def test_no_drawn_schedule_beats_the_bound(job):
    bound = schedule_bound(job.plan, job.costs, job.cluster)
    rounded = 1e-9 * len(job.program)
    assert metrics.iteration_time(run(job.program)) >= bound - rounded


def test_equal_stages_reach_the_bound():
    plan = Plan("by hand", 4, 8, tuple(Stage(n, n + 1, (f"g{n}",)) for n in range(4)))
    bound = schedule_bound(plan, costs_of(pipeline_trace([1] * 4, [2] * 4)), chain(4))
    timeline = run(pipeline([1] * 4, [2] * 4, 8, "one_f_one_b"))
    assert bound == pytest.approx(metrics.iteration_time(timeline)) == pytest.approx(33e-9)


def test_whole_replicas_share_the_microbatches():
    """Five microbatches of 3 ns on two replicas: one has three of them."""
    plan = Plan("by hand", 1, 5, (Stage(0, 1, ("g0", "g1")),), "whole")
    assert schedule_bound(plan, costs_of(pipeline_trace([1], [2])), chain(2)) == pytest.approx(9e-9)


# --- against every plan and every schedule ---------------------------------------------------------------------------


def every_plan(layers, devices, microbatches):
    """All contiguous plans on some or all of the devices, in every order."""
    for used in range(1, devices + 1):
        for chosen in itertools.permutations([f"gpu{i}" for i in range(devices)], used):
            for stages in range(1, min(layers, used) + 1):
                for cuts in itertools.combinations(range(1, layers), stages - 1):
                    for ends in itertools.combinations(range(1, used), stages - 1):
                        bounds, edges = [0, *cuts, layers], [0, *ends, used]
                        parts = [
                            Stage(bounds[n], bounds[n + 1], tuple(chosen[edges[n] : edges[n + 1]]))
                            for n in range(stages)
                        ]
                        for replicas in ("split", "whole"):
                            yield Plan("m", layers, microbatches, tuple(parts), replicas)


def every_row(stage, microbatches):
    """All orders of forwards and whole backwards of one device, microbatches in their order."""
    for kinds in set(itertools.permutations([FORWARD] * len(microbatches) + [BACKWARD] * len(microbatches))):
        counts = [0, 0]
        row = []
        for kind in kinds:
            if kind == BACKWARD and counts[1] >= counts[0]:
                break
            row.append((stage, kind, microbatches[counts[kind]]))
            counts[kind] += 1
        else:
            yield row


def best_schedule(plan, costs, cluster):
    """The least time over every schedule, with transfers that have every link for themselves."""
    rows = []
    for rank, (n,) in enumerate(plan.chunks):
        replica = plan.stages[n].devices.index(plan.devices[rank])
        rows.append(list(every_row(n, list(plan.microbatches_of(n, replica)))))
    least = np.inf
    for chosen in itertools.product(*rows):
        try:
            program = lower(plan, Schedule.of(chosen), costs, cluster, Options("none"))
        except DeadlockError:
            continue
        least = min(least, metrics.iteration_time(run(program)))
    return least


@pytest.mark.parametrize("seed", range(25))
def test_no_plan_on_any_order_of_devices_with_any_schedule_beats_the_certificate(seed):
    """Three layers, two devices, two microbatches: every plan, and every order of forwards and backwards."""
    rng = np.random.default_rng(seed)
    layers, devices, microbatches = 3, 2, 2
    forward, backward = (rng.integers(1, 50, layers).tolist() for _ in range(2))
    trace = pipeline_trace(forward, backward, rng.integers(0, 40, layers - 1).tolist(), int(rng.integers(0, 60)))
    costs, cluster = costs_of(trace), load_cluster(f"flat({devices}, bandwidth=1e9, latency=0)")
    bound = plan_bound(costs, cluster, microbatches)
    best = min(best_schedule(plan, costs, cluster) for plan in every_plan(layers, devices, microbatches))
    assert bound <= best
    assert bound >= total_work(costs, cluster, microbatches) * (1 - 1e-4) - 1e-6


@pytest.mark.parametrize("seed", range(10))
def test_a_thousand_smaller_instances_keep_the_certificate(seed):
    """Two layers, two devices, two microbatches, a hundred instances a seed: every plan, every schedule."""
    rng = np.random.default_rng(1000 + seed)
    cluster = load_cluster("flat(2, bandwidth=1e9, latency=0)")
    for _ in range(100):
        forward, backward = (rng.integers(1, 30, 2).tolist() for _ in range(2))
        trace = pipeline_trace(forward, backward, rng.integers(0, 40, 1).tolist(), int(rng.integers(0, 60)))
        costs = costs_of(trace)
        best = min(best_schedule(plan, costs, cluster) for plan in every_plan(2, 2, 2))
        assert plan_bound(costs, cluster, 2) <= best


@settings(max_examples=400)
@given(
    st.booleans().flatmap(lambda large: jobs(sharings=("none", "fair"), calm=True, split_backwards=False, large=large))
)
def test_no_drawn_plan_and_schedule_beats_the_certificate(job):
    if max(map(len, job.plan.chunks)) == 1:
        bound = plan_bound(job.costs, job.cluster, job.plan.microbatches)
        assert metrics.iteration_time(run(job.program)) >= bound


@settings(max_examples=100)
@given(jobs(calm=True))
def test_the_certificate_is_at_least_the_work_over_all_devices(job):
    work = total_work(job.costs, job.cluster, job.plan.microbatches)
    assert plan_bound(job.costs, job.cluster, job.plan.microbatches) >= work * (1 - 1e-4) - 1e-6


def test_a_layer_with_many_parameters_is_a_bound_of_its_own():
    """The second layer takes 4 and its ring 1000: in any stage it needs 2 x 4 on one device, or more."""
    trace = pipeline_trace([1, 3], [1, 1], [0], 1000)
    assert single_stage(costs_of(trace), load_cluster("flat(2, bandwidth=1e9)"), 2) == pytest.approx(8e-9)


def test_one_device_needs_all_the_work_and_no_more():
    costs = costs_of(pipeline_trace([10, 20], [30, 40], [5]))
    found = plan_bound(costs, load_cluster("flat(1, bandwidth=1e9)"), 10)
    assert found == pytest.approx(1000e-9, rel=0.05)


@settings(max_examples=60)
@given(jobs(calm=True), st.floats(0.1, 3))
def test_the_compiled_kernel_is_its_plain_twin(job, share):
    tables = bounds._tables(job.costs, job.cluster)
    target = share * float(job.plan.microbatches * tables[0][1, -1])
    count = job.plan.microbatches
    assert compiled(bounds.reachable)(*tables, count, target) == bounds.reachable(*tables, count, target)


def overhead(layers):
    """Layers that take 0.9 ms for one sample and 1 ms for eight: splitting hardly helps, whole microbatches do."""
    base = even_trace(layers).layers
    both = {name: np.concatenate([values, values]) for name, values in base.items()}
    both["microbatch_size"] = np.repeat([1, 8], layers)
    for name in ("forward_s", "backward_s"):
        both[name] = np.repeat([0.9e-3, 1e-3], layers)
    both["output_bytes"] = both["stash_bytes"] = np.zeros(2 * layers, np.int64)
    both["parameter_bytes"] = np.zeros(2 * layers, np.int64)
    return costs_of(Trace("overhead", "test", 8, both))


@pytest.mark.parametrize("replicas", ["split", "whole"])
def test_the_certificate_holds_where_splitting_a_microbatch_hardly_helps(replicas):
    """A bound that takes parts of microbatches for the cheapest way lies above what whole ones reach."""
    costs, cluster = overhead(4), load_cluster("flat(4, bandwidth=1e12, latency=0)")
    names = tuple(device.name for device in cluster.devices)
    bound = plan_bound(costs, cluster, 64)
    straight = Plan("overhead", 4, 64, tuple(Stage(n, n + 1, (names[n],)) for n in range(4)))
    together = Plan("overhead", 4, 64, (Stage(0, 4, names),), replicas)
    for plan in (straight, together):
        assert metrics.iteration_time(run(lower(plan, gpipe(plan), costs, cluster))) >= bound


@settings(max_examples=300)
@given(jobs(calm=True, large=True))
def test_the_work_is_a_bound_for_every_plan_and_schedule(job):
    """Chunks, whole replicas, split backwards, and costs that are not linear in the share."""
    work = total_work(job.costs, job.cluster, job.plan.microbatches)
    assert metrics.iteration_time(run(job.program)) >= work


def test_several_stages_on_a_device_are_held_against_the_work_only():
    """Sixteen equal layers dealt out to four devices in turn fill the pipeline faster than four stages can."""
    costs = costs_of(even_trace(16, output_bytes=0, parameter_bytes=10**9))  # too heavy to be replicated
    cluster = load_cluster("flat(4, bandwidth=1e9, latency=0)")
    names = [device.name for device in cluster.devices]
    plan = Plan("even", 16, 4, tuple(Stage(n, n + 1, (names[n % 4],)) for n in range(16)))
    schedule = gpipe(plan)
    time = metrics.iteration_time(run(lower(plan, schedule, costs, cluster)))
    assert (
        bound_for(plan, schedule, costs, cluster)
        == total_work(costs, cluster, 4)
        <= time
        < plan_bound(costs, cluster, 4)
    )


def test_a_group_larger_than_a_server_has_the_network_inside():
    cluster = load_cluster('servers(2, 4, intra="25GB/s", inter="10Gb/s")')
    assert group_bandwidths(cluster).tolist() == [np.inf, np.inf, *[25e9] * 3, *[1.25e9] * 4]


@settings(max_examples=100)
@given(clusters())
def test_no_group_exceeds_its_bandwidth(cluster):
    """Against every group of devices: the least bandwidth inside it."""
    found = group_bandwidths(cluster)
    matrix = np.minimum(cluster.bandwidth_matrix, cluster.bandwidth_matrix.T)
    for r in range(2, len(matrix) + 1):
        groups = itertools.combinations(range(len(matrix)), r)
        assert found[r] >= max(min(matrix[a, b] for a, b in itertools.combinations(group, 2)) for group in groups)
