"""Plans are laid out as schedulers ask for, and what cannot be laid out so is refused."""

import pytest
from hypothesis import given, settings

from helpers.splits import straight
from helpers.strategies import any_jobs, even_trace, for_drawn, jobs
from pipesim.analysis import metrics
from pipesim.base.errors import DeadlockError, InputError, PipesimError, ScheduleError
from pipesim.core import legality
from pipesim.core.costs import costs_of
from pipesim.core.members import SchedulerInfo, infos
from pipesim.core.plan import Plan, Stage
from pipesim.core.program import ALL_REDUCE
from pipesim.engines import by_name
from pipesim.lowering import Options, Setup, lower
from pipesim.schedulers import SCHEDULERS
from pipesim.schedulers.layouts import has_layout, laid_out, lane_order
from pipesim.studies import loading, results
from pipesim.studies.ordering import ordered_with

DECLARED = infos(SCHEDULERS, "scheduler", SchedulerInfo)
LAID_OUT = [name for name, info in DECLARED.items() if info.layout is not None]


def test_lanes_follow_the_drawings():
    assert lane_order("loop", 4, 2) == [0, 1, 2, 3, 0, 1, 2, 3]
    assert lane_order("wave", 4, 2) == [0, 1, 2, 3, 3, 2, 1, 0]
    assert lane_order("wave", 2, 4) == [0, 1, 1, 0, 0, 1, 1, 0]


@pytest.mark.parametrize("name", LAID_OUT)
def test_a_plan_brought_into_a_shape_has_it_and_can_be_scheduled(name):
    """Or the refusal says why; all layers and all devices stay."""

    def judge(job):
        try:
            plan, schedule = ordered_with(name, job.plan, job.costs, job.cluster)
        except ScheduleError:
            return
        assert has_layout(plan, DECLARED[name].layout)
        assert set(plan.devices) == set(job.plan.devices)
        assert plan.layers == job.plan.layers
        legality.check(schedule, plan)
        by_name.run(lower(Setup(plan, schedule, job.costs, job.cluster))).verify()

    for_drawn(any_jobs, 100, judge)


@pytest.mark.parametrize("name", sorted(SCHEDULERS))
def test_every_scheduler_is_simulated_on_any_job_under_every_sharing_or_says_why_not(name):
    """Replicas that split microbatches, devices of several kinds: legal, and the timeline keeps every rule."""

    def judge(job):
        try:
            plan, schedule = ordered_with(name, job.plan, job.costs, job.cluster, job.options)
        except ScheduleError:  # what they say: contracts.check_scheduler
            return
        legality.check(schedule, plan)
        case = Setup(plan, schedule, job.costs, job.cluster, job.options, job.scenario)
        by_name.run(lower(case)).verify()

    for_drawn(any_jobs, 6 if DECLARED[name].is_search else 100, judge)


def test_auto_leaves_out_what_never_ends_where_transfers_block():
    cluster, options = 'ring(4, bandwidth="10GB/s")', Options("fifo", "blocking")
    pe, plain, best = (
        results.make_setup("bert-large", cluster, "uniform", name, 4, options=options)
        for name in ("pe", "one_f_one_b", "auto")
    )
    with pytest.raises(DeadlockError):
        by_name.run(lower(pe))
    assert by_name.run(lower(best)).makespan <= by_name.run(lower(plain)).makespan


def test_auto_among_a_few_is_the_best_of_those_that_order_the_plan():
    """Stages on 3, 1 and 2 devices that take whole microbatches: pe orders no such plans, and is left out."""
    costs, cluster = costs_of(even_trace(6)), loading.load_cluster('servers(2, 3, intra="4GB/s", inter="1GB/s")')
    names = [device.name for device in cluster.devices]
    stages = (Stage(0, 3, tuple(names[:3])), Stage(3, 4, (names[3],)), Stage(4, 6, tuple(names[4:])))
    plan = Plan("even", 6, 12, stages, "whole")

    def seconds(name):
        made = ordered_with(name, plan, costs, cluster)
        return by_name.run(lower(Setup(*made, costs, cluster))).makespan

    asked = ["gpipe", "one_f_one_b", "one_f_one_b(warm_up='3A')"]
    each = [seconds(name) for name in asked]
    assert min(each) < max(each)
    assert seconds(f"auto(among={['pe', *asked]})") == min(each)
    with pytest.raises(ScheduleError, match="none of pe, zb_v orders this plan"):
        seconds("auto(among=['pe', 'zb_v'])")


def test_two_copies_share_their_devices_in_opposite_directions():
    plan = laid_out(straight(4, 4), None, None, "both", 1, "chimera")
    assert [stage.devices for stage in plan.stages] == [("g0", "g3"), ("g1", "g2"), ("g2", "g1"), ("g3", "g0")]
    assert plan.devices == ("g0", "g1", "g2", "g3")
    assert laid_out(plan, None, None, "both", 1, "chimera") is plan


@pytest.mark.parametrize("name", ["chimera", "dualpipe"])
def test_two_copies_are_two_stages_of_parameters_on_every_device_and_are_added_up_at_the_end(name):
    cluster = 'flat(4, bandwidth="1GB/s")'
    one, two = (lower(results.make_setup("bert-large", cluster, "uniform", n, 8)) for n in ("one_f_one_b", name))
    assert two.static_memory.tolist() == (one.static_memory + one.static_memory[::-1]).tolist()
    assert not (one.kind == ALL_REDUCE).any()
    assert set(two.stage[two.kind == ALL_REDUCE].tolist()) == {0, 1, 2, 3}


@pytest.mark.parametrize(
    ("plan", "shape", "message"),
    [
        (straight(3, 4), "both", "on an even number of stages with one device each, .*; 3 stages with 1"),
        (straight(2, 4, [2, 2]), "both", "2 stages with 2 devices at most were found"),
        (straight(2, 4), "wave", "needs 2 stages on each of 2 devices; the model has 2 layers"),
        (
            Plan("m", 3, 2, tuple(Stage(n, n + 1, (("g0", "g1", "g0")[n],)) for n in range(3))),
            "loop",
            "only plans with one stage per device, or equally many in a loop or a wave, are converted",
        ),
    ],
)
def test_what_cannot_be_laid_out_is_refused(plan, shape, message):
    with pytest.raises(ScheduleError, match=message):
        laid_out(plan, None, None, shape, 2, "it")


@settings(max_examples=6)
@given(job=jobs())
def test_auto_is_at_least_as_good_as_every_member_that_fits_on_any_job(job):
    """Simulated as the options say, in whatever shape."""
    options = Options(sharing="fair")

    def judged(name):
        made = ordered_with(name, job.plan, job.costs, job.cluster, options)
        timeline = by_name.run(lower(Setup(*made, job.costs, job.cluster, options)))
        return metrics.memory_excess(timeline), timeline.makespan

    best = judged("auto")
    for name in (name for name, info in DECLARED.items() if not info.is_search):
        try:
            assert best <= judged(name), name
        except PipesimError:
            continue


@pytest.mark.parametrize(
    ("scheduler", "message"),
    [
        ("interleaved(chunks=0)", "chunks = 0 found; a whole number, at least 1"),
        ("interleaved(chunks='two')", "chunks = 'two' found"),
        ("hanayo(waves=-1)", "waves = -1 found"),
        ("interleaved(group=1)", "group = 1 found; at least 2 was expected"),
        ("one_f_one_b(warm_up='C')", "warm_up = 'C' found; A, B, a multiple such as 3A, or a number"),
        ("one_f_one_b(warm_up=0)", "warm_up = 0 found"),
        ("list_schedule(priority='deep')", "did you mean 'depth'"),
        ("list_schedule(limit=0.5)", "limit = 0.5 found; at least 1"),
        ("dualpipe", r"3 microbatches found; dualpipe orders an even number, at least 4 on 2 devices"),
        ("dualpipe_v", "3 microbatches found; dualpipe_v orders at least 4"),
        ("interlaeved", "did you mean 'interleaved'"),
    ],
)
def test_options_that_mean_nothing_are_refused(scheduler, message):
    cluster = 'flat(2, bandwidth="1GB/s")'
    with pytest.raises(InputError, match=message):
        results.make_setup("bert-large", cluster, "uniform", scheduler, 3)


def test_a_limit_that_causes_a_deadlock_is_an_error():
    with pytest.raises(ScheduleError, match="no device can go on; use a larger limit"):
        results.make_setup(
            "bert-large", 'flat(2, bandwidth="1GB/s")', "megatron(interleave=2)", "list_schedule(limit=1)", 4
        )
