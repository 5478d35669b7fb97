"""Pipelines side by side are ordered one by one, and run as Megatron runs them."""

import itertools

import numpy as np
import pytest

from helpers.contracts import check_engine
from helpers.splits import straight
from helpers.strategies import even_trace
from pipesim.base.errors import InputError, ScheduleError
from pipesim.core import legality
from pipesim.core.cluster import Cluster, Device, Link
from pipesim.core.costs import costs_of
from pipesim.core.members import SchedulerInfo, infos
from pipesim.core.plan import Plan, Stage
from pipesim.core.schedule import Schedule
from pipesim.engines import compiled, event
from pipesim.lowering import lower
from pipesim.schedulers import SCHEDULERS
from pipesim.schedulers.gpipe import gpipe
from pipesim.schedulers.interleaved import interleaved
from pipesim.schedulers.one_f_one_b import one_f_one_b
from pipesim.schedulers.side_by_side import alike, merged, one_by_one, pipelines_of
from pipesim.studies import results

DECLARED = infos(SCHEDULERS, "scheduler", SchedulerInfo)
ONE_STAGE = ("one_f_one_b", "eager_1f1b", "pe", "zb_h1", "zb_1p", "zb_2p")


def sizes(name):
    """Sizes p x d x v as Megatron runs it: pipelines of p devices, d of them, v stages on each device."""
    info = DECLARED[name]
    for p, d, v in itertools.product((2, 3, 4), (2, 3), (1, 2)):
        if v == 2 and (name in ONE_STAGE or info.layout == "both"):
            continue
        if p % 2 and info.layout == "both":
            continue
        if info.is_search and (p, d) not in {(2, 2), (3, 2), (2, 3)}:
            continue
        yield p, d, v


CASES = [(name, *size) for name in SCHEDULERS for size in sizes(name)]


def setup(name, pipelines, microbatches, trace):
    p, d, v = pipelines
    for extra in DECLARED[name].requires:
        pytest.importorskip(extra, reason="an extra is not installed")
    cluster = f'servers({p}, {d}, intra="4GB/s", inter="1GB/s")' if d > 1 else f'flat({p}, bandwidth="1GB/s")'
    return results.make_setup(trace, cluster, f"megatron(pipeline={p}, data={d}, interleave={v})", name, microbatches)


@pytest.mark.parametrize(("name", "p", "d", "v"), CASES)
def test_every_schedule_orders_pipelines_side_by_side_and_engines_agree(name, p, d, v):
    count = max(p, DECLARED[name].fewest * p)
    made = setup(name, (p, d, v), d * count, even_trace(4 * p))
    legality.check(made.schedule, made.plan)
    copies = 2 if DECLARED[name].layout == "both" else 1
    assert set(made.plan.replication) == {d * copies} or name == "auto"
    assert len(made.plan.devices) == p * d
    program = lower(made)
    check_engine(compiled.run, program, event.run(program))


@pytest.mark.parametrize(("name", "p", "d", "v"), CASES)
def test_pipelines_side_by_side_take_the_time_of_one_on_free_links(name, p, d, v):
    free, count = even_trace(4 * p, output_bytes=0, parameter_bytes=0), max(p, DECLARED[name].fewest * p)
    one, several = (setup(name, (p, n, v), n * count, free) for n in (1, d))
    assert compiled.run(lower(several)).makespan == compiled.run(lower(one)).makespan > 0


@pytest.mark.parametrize("name", [name for name, info in DECLARED.items() if not info.is_search])
def test_microbatches_that_do_not_divide_take_the_time_of_the_slowest_pipeline(name):
    free = even_trace(8, output_bytes=0, parameter_bytes=0)
    least, extra = 4 * DECLARED[name].fewest, 2 if name == "dualpipe" else 1
    alone = [compiled.run(lower(setup(name, (4, 1, 1), count, free))).makespan for count in (least, least + extra)]
    together = compiled.run(lower(setup(name, (4, 2, 1), 2 * least + extra, free)))
    assert together.makespan == max(alone)


def test_a_pipeline_has_its_replica_of_every_stage_and_its_microbatches():
    plan = straight(2, 5, [2, 2], "whole")
    first, second = pipelines_of(plan)
    assert [stage.devices for stage in first.plan.stages] == [("g0",), ("g2",)]
    assert (first.plan.microbatches, second.plan.microbatches) == (3, 2)
    assert second.microbatches(np.arange(2)).tolist() == [1, 3]


def test_copies_of_a_model_that_share_devices_are_one_pipeline():
    """Microbatch m of the plan is of pipeline m mod 4 // 2, and of its copy m mod 2."""
    both = [("a", "b", "c", "d"), ("b", "a", "d", "c")]
    plan = Plan("m", 2, 7, tuple(Stage(n, n + 1, names) for n, names in enumerate(both)), "whole")
    first, second = pipelines_of(plan)
    assert (first.replicas, second.replicas) == ((0, 1), (2, 3))
    assert first.microbatches(np.arange(4)).tolist() == [0, 1, 4, 5]
    assert second.microbatches(np.arange(second.plan.microbatches)).tolist() == [2, 3, 6]


@pytest.mark.parametrize("plan", [straight(2, 4, [1, 2], "whole"), straight(2, 4, [2, 2], "split"), straight(3, 4)])
def test_other_plans_are_one_pipeline(plan):
    (part,) = pipelines_of(plan)
    assert part.plan is plan


def test_pipelines_that_no_microbatch_reaches_do_nothing():
    plan = straight(2, 1, [3, 3], "whole")
    assert len(pipelines_of(plan)) == 1
    assert str(one_by_one(gpipe, plan, *free_costs(plan))) == "0F0,0B0\n,\n,\n1F0,1B0\n,\n,"


def free_costs(plan, kinds=("any",)):
    devices = tuple(Device(name, kinds[n % len(kinds)]) for n, name in enumerate(plan.devices))
    links = tuple(Link(name, "switch", 1e9) for name in plan.devices)
    return costs_of(even_trace(plan.layers)), Cluster("star", devices, links)


@pytest.mark.parametrize("scheduler", [gpipe, one_f_one_b])
def test_schedules_that_know_whole_replicas_are_the_same_one_by_one(scheduler):
    plan = straight(3, 8, [3, 3, 3], "whole")
    assert one_by_one(scheduler, plan, *free_costs(plan)) == scheduler(plan)


def test_pipelines_that_are_alike_are_ordered_once():
    asked = []

    def scheduler(plan, costs, cluster):
        asked.append(plan)
        return one_f_one_b(plan, costs, cluster)

    plan = straight(2, 9, [4, 4], "whole")
    one_by_one(scheduler, plan, *free_costs(plan))
    assert [one.microbatches for one in asked] == [3, 2]
    asked.clear()
    one_by_one(scheduler, plan, *free_costs(plan, ("fast", "slow")))
    assert len(asked) == 3, "9 microbatches on a fast pipeline first; two slow ones and a fast one have 2 each"


def test_slower_links_make_another_pipeline():
    plan = straight(2, 4, [2, 2], "whole")
    costs, cluster = free_costs(plan)
    assert len(set(alike(pipelines_of(plan), cluster))) == 1
    links = (Link("g0", "switch", 5e8), *cluster.links[1:])
    slower = Cluster("star", cluster.devices, links)
    assert len(set(alike(pipelines_of(plan), slower))) == 2
    assert costs.kinds == ("any",)


def test_the_refusal_of_a_pipeline_says_that_it_is_one_of_several():
    with pytest.raises(
        InputError, match=r"replica 0, one of 2 side by side: 6 microbatches found; dualpipe_v orders at least 8"
    ):
        setup("dualpipe_v", (4, 2, 1), 12, even_trace(8))


def test_a_scheduler_that_returns_other_ranks_than_the_pipeline_has_is_refused():
    plan = straight(2, 4, [2, 2], "whole")
    parts = pipelines_of(plan)
    with pytest.raises(ScheduleError, match="1 ranks found; 2 were expected, one per device"):
        merged(plan, parts, [Schedule.of([[(0, 0, 0), (0, 1, 0)]])] * 2)


def test_an_interleaved_plan_keeps_its_chunks_unless_the_scheduler_states_another_number():
    cluster = 'servers(2, 2, intra="4GB/s", inter="1GB/s")'
    for scheduler, chunks in (("interleaved", 3), (interleaved, 3), ("interleaved(chunks=2)", 2), ("zb_v", 2)):
        made = results.make_setup(even_trace(12), cluster, "megatron(pipeline=2, data=2, interleave=3)", scheduler, 8)
        assert len(made.plan.stages) == 2 * chunks


def test_a_loop_is_made_a_wave_with_the_same_cuts():
    cluster, planner = 'servers(2, 2, intra="4GB/s", inter="1GB/s")', "megatron(data=2, interleave=2)"
    loop, wave = (results.make_setup(even_trace(5), cluster, planner, name, 8).plan for name in ("interleaved", "zb_v"))
    assert wave.cuts == loop.cuts
    assert [stage.devices for stage in wave.stages] == [loop.stages[n].devices for n in (0, 1, 1, 0)]
