"""What rounding takes from simulated times: no bound is above one of a few nanoseconds, nor lower than it must be."""

import itertools
import random
from dataclasses import replace

import numpy as np
import pytest

from fuzz import rounding as campaign
from helpers.networks import pipeline_trace
from pipesim.analysis import metrics
from pipesim.analysis.bounds import bound_for, schedule_bound, total_work
from pipesim.analysis.bounds.rounding import UNSCALED, LeastPart, of_plans, of_schedules, of_work
from pipesim.base.errors import DeadlockError
from pipesim.core.costs import costs_of
from pipesim.core.plan import Plan, Stage
from pipesim.core.scenario import Scenario, Slow
from pipesim.core.schedule import BACKWARD, FORWARD, Schedule
from pipesim.engines.event import run
from pipesim.lowering import Options, Setup, lower
from pipesim.schedulers.gpipe import gpipe
from pipesim.studies import certified, results
from pipesim.studies.loading import load_cluster


def in_turn(stages, devices, microbatches):
    """One layer on each stage, dealt out to the devices in turn; and the cluster."""
    parts = tuple(Stage(n, n + 1, (f"gpu{n % devices}",)) for n in range(stages))
    return Plan("by hand", stages, microbatches, parts), load_cluster(f"flat({devices}, bandwidth=1e9, latency=0)")


def simulated(setup):
    return metrics.iteration_time(run(lower(setup)))


def test_sixteen_stages_of_a_nanosecond_and_a_half_on_two_devices_are_not_below_the_work():
    """Each of 256 actions loses 0.49 ns: 130 ns simulated, of 190.72 ns work for each device."""
    plan, cluster = in_turn(16, 2, 8)
    costs = costs_of(pipeline_trace([1.49] * 16, [1.49] * 16, None, 10**6))
    setup = Setup(plan, gpipe(plan), costs, cluster)
    assert certified.bound(setup) <= simulated(setup) == 130e-9
    assert certified.bound(setup) == total_work(costs, cluster, 8, stages=8) == pytest.approx((190.72 - 97) * 1e-9)
    assert results.PlanResult(plan, costs, cluster, 0.0).bound == certified.bound(setup)


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize(("chunks", "microbatches"), [(2, 24), (3, 8), (4, 30), (8, 4)])
def test_every_action_that_is_rounded_down_is_allowed_for(chunks, microbatches, split):
    """One device is busy throughout: its time is that of rounded actions."""
    plan, cluster = in_turn(chunks, 1, microbatches)
    backward = 2 * 2.499 if split else 2.499
    costs = costs_of(pipeline_trace([2.499] * chunks, [backward] * chunks))
    schedule = campaign.any_order(plan, random.Random(chunks), split=split)
    time = simulated(Setup(plan, schedule, costs, cluster))
    bound = bound_for(plan, schedule, costs, cluster)
    assert bound <= time
    assert time == pytest.approx((6 if split else 4) * chunks * microbatches * 1e-9)
    least = max(2 * microbatches + 4, 1.5 * chunks * microbatches + 1)
    assert bound == pytest.approx(((3 if split else 2) * 2.499 * chunks * microbatches - least) * 1e-9)


def rows(microbatches):
    """All orders of forwards and backwards of one device, microbatches in their order."""
    for kinds in set(itertools.permutations([FORWARD] * microbatches + [BACKWARD] * microbatches)):
        ahead = np.cumsum([1 if kind == FORWARD else -1 for kind in kinds])
        if ahead.min() >= 0:
            yield [(kind, kinds[:at].count(kind)) for at, kind in enumerate(kinds)]


def every_schedule(stages, microbatches):
    """Every order on each device, with every choice of pairs."""
    for chosen in itertools.product(list(rows(microbatches)), repeat=stages):
        schedule = Schedule.of([[(n, *action) for action in row] for n, row in enumerate(chosen)])
        ahead = np.flatnonzero((schedule.kind[:-1] == FORWARD) & (schedule.kind[1:] == BACKWARD))
        for many in range(len(ahead) + 1):
            for pairs in itertools.combinations(ahead.tolist(), many):
                paired = np.zeros(len(schedule.kind), bool)
                paired[list(pairs)] = True
                yield replace(schedule, paired=paired)


def least(setup, schedules):
    """The least simulated time over these schedules, those that cannot run left out."""
    times = []
    for schedule in schedules:
        try:
            times.append(simulated(replace(setup, schedule=schedule)))
        except DeadlockError:
            continue
    return min(times)


@pytest.mark.parametrize("seed", range(8))
def test_no_schedule_of_a_plan_of_a_few_nanoseconds_beats_its_own_bound(seed):
    """Every order on two or three devices; some reach the bound, which allows for nothing that is not lost."""
    rng, reached = random.Random(seed), 0
    for _ in range(6):
        stages, microbatches = rng.choice([(2, 2), (2, 3), (3, 2)])
        plan, cluster = in_turn(stages, stages, microbatches)
        costs = campaign.tiny(*([campaign.time(rng) for _ in range(stages)] for _ in range(2)))
        setup = Setup(plan, gpipe(plan), costs, cluster)
        unpaired = (schedule for schedule in every_schedule(stages, microbatches) if not schedule.paired.any())
        time, bound = least(setup, unpaired), schedule_bound(plan, costs, cluster)
        assert bound <= time
        reached += bound > time - 1.01e-9
    assert reached


@pytest.mark.parametrize("seed", range(8))
def test_no_schedule_with_pairs_of_a_few_nanoseconds_beats_its_bounds(seed):
    """Every order and every choice of pairs on two devices."""
    rng = random.Random(seed)
    for _ in range(6):
        stages, microbatches = rng.choice([(1, 4), (2, 2), (2, 3)])
        plan, cluster = in_turn(stages, stages, microbatches)
        longest = [rng.choice([0, 1, 10]), rng.choice([1, 10])]  # of pairs of 0 and 1 ns nothing is left
        costs = campaign.tiny(*([most * campaign.time(rng) for _ in range(stages)] for most in longest))
        slow = (Slow("gpu0", rng.choice([0.3, 0.5])),) if rng.random() < 0.3 else ()
        options = Options(pair_factor=rng.choice([0.02, 0.12, 0.3, 0.45, 0.49]))
        setup = Setup(plan, gpipe(plan), costs, cluster, options, Scenario(slow))
        schedules = [schedule for schedule in every_schedule(stages, microbatches) if schedule.paired.any()]
        time, paired = least(setup, schedules), replace(setup, schedule=schedules[0])
        assert max(certified.bound(paired), certified.schedule_bound(paired)) <= time


def steadily_paired(forward, microbatches, options):
    """One device; each forward but the first is one with the backward of the microbatch before."""
    plan, cluster = in_turn(1, 1, microbatches)
    row = [(0, FORWARD, 0)]
    row += [action for m in range(1, microbatches) for action in ((0, FORWARD, m), (0, BACKWARD, m - 1))]
    schedule = Schedule.of([[*row, (0, BACKWARD, microbatches - 1)]])
    paired = np.zeros(len(schedule.kind), bool)
    paired[1:-1:2] = True
    costs = costs_of(pipeline_trace([forward], [forward], None, 10**6))
    return Setup(plan, replace(schedule, paired=paired), costs, cluster, options)


def test_pairs_that_round_to_nothing_are_not_below_the_bounds():
    """Of 20 ns that a pair takes alone, 0.49 ns are left, and round to none: 20 ns in all, with 99 pairs."""
    setup = steadily_paired(10, 100, Options(pair_factor=0.0245))
    assert max(certified.bound(setup), certified.schedule_bound(setup)) <= simulated(setup) == 20e-9
    assert certified.bound(setup) == certified.schedule_bound(setup) == 0


def test_of_a_pair_half_a_nanosecond_is_lost_and_no_more():
    """60 ns become 1.494 ns, and 1 ns: 99 ns of pairs and 60 ns beside; the bounds would be 149 ns otherwise."""
    setup = steadily_paired(30, 100, Options(pair_factor=0.0249))
    assert simulated(setup) == 159e-9
    assert certified.schedule_bound(setup) == pytest.approx(99.4e-9)
    assert 94e-9 < certified.bound(setup) < 97e-9


@pytest.mark.parametrize("microbatches", [1, 2, 8, 1000])
@pytest.mark.parametrize("devices", [1, 2, 16])
def test_what_is_subtracted_suffices_without_chunks_and_for_pairs_that_overlap(microbatches, devices):
    """So no value changes by it: of plans of one stage a device, also where pairs take half or devices are faster."""
    plans, work = of_plans(microbatches, devices), of_work(microbatches, devices, 1)
    assert plans.subtracted == 2 * (2 * microbatches + 4 * devices) >= plans.lost
    assert work.subtracted == 2 * microbatches + 4 * devices >= work.lost
    for part in (UNSCALED, LeastPart(0.01), LeastPart(1.0, 0.5), LeastPart(0.3, 0.5)):
        assert plans.scaled(1.0, part) == part.product
    assert plans.scaled(1.0, LeastPart(1.0, 0.05)) < 0.05


def test_where_rounded_times_are_the_lesser_nothing_is_left_of_an_allowance():
    allowance = of_schedules(8, 4, 1)
    assert allowance.scaled(1.0, UNSCALED) == 1.0
    assert allowance.scaled(1.0, LeastPart(1.0, 0.5)) == pytest.approx(0.5 - 7e-9, abs=1e-12)  # 8 pairs and 6 others


def test_the_times_of_a_plan_are_exact_or_rounded_whichever_is_less():
    """A stage of 1.4 and 2.4 ns lasts 1 and 2 ns when simulated; one of 1.6 and 2.6 ns 2 and 3 ns."""
    plan, cluster = in_turn(1, 1, 10)
    for forward, backward, expected in ((1.4, 2.4, 30e-9), (1.6, 2.6, 42e-9), (1.4, 2.8, 40e-9)):
        costs = costs_of(pipeline_trace([forward], [backward]))
        assert schedule_bound(plan, costs, cluster) == pytest.approx(expected)
