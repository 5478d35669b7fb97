"""Plans that fit in memory, in place of those that do not."""

import pytest

import pipesim as ps
from pipesim.lowering.memory import peak_memory
from pipesim.planners import PLANNERS
from pipesim.studies.memory_fit import fits

TWO_NODES = 'servers(2, 4, intra="25GB/s", inter="10Gb/s", memory="{}")'
SMALL = "gpt2-xl", TWO_NODES.format("9GB")
# They keep what their names say: one stage, or equally many blocks on each device.
UNCHANGED = {"data_parallel", "megatron"}


@pytest.mark.parametrize("planner", sorted(set(PLANNERS) - UNCHANGED - {"brute", "hetpipe", "spp_plus", "annealing"}))
def test_where_one_device_per_stage_fits_no_plan_is_returned_that_does_not(planner):
    result = ps.simulate(*SMALL, planner, microbatches=16)
    assert result.fits_memory
    as_planned = ps.simulate(*SMALL, planner, microbatches=16, fit=False)
    assert as_planned.fits_memory == (not result.setup.notes)


def test_what_was_changed_is_a_note():
    setup = ps.make_setup(*SMALL, "uniform", microbatches=16)
    (note,) = setup.notes
    assert note == (
        "the plan of uniform does not fit in memory; its cuts 13, 25, 37, 49, 61, 73, 85 were moved to "
        "7, 17, 27, 39, 53, 69, 85, which fit"
    )


def test_megatron_takes_a_longer_pipeline_where_its_fastest_does_not_fit():
    where = 'flat(8, bandwidth="25GB/s", memory="18GB")'
    kept = ps.make_setup("gpt2-xl", where, "megatron", microbatches=16, fit=False)
    setup = ps.make_setup("gpt2-xl", where, "megatron", microbatches=16)
    assert not fits(kept)
    assert fits(setup)
    assert len(setup.plan.stages) > len(kept.plan.stages)


def test_a_layout_that_is_given_is_kept():
    given = {"planner": "megatron", "microbatches": 16, "pipeline": 8, "data": 1}
    assert ps.make_setup(*SMALL, **given).plan == ps.make_setup(*SMALL, **given, fit=False).plan


def test_of_a_given_number_of_stages_only_the_cuts_move():
    cluster = 'flat(8, bandwidth="1GB/s", memory="14GB")'
    setup = ps.make_setup("gpt2-xl", cluster, "balanced(stages=4)", microbatches=8)
    assert setup.plan.replication == (1, 1, 1, 1)
    assert fits(setup) == bool(setup.notes)


def test_a_plan_that_fits_is_left_alone():
    roomy = "gpt2-xl", TWO_NODES.format("40GB")
    for planner in ("uniform", "pipedream"):
        setup = ps.make_setup(*roomy, planner, microbatches=16)
        assert setup.plan == ps.make_setup(*roomy, planner, microbatches=16, fit=False).plan
        assert not setup.notes


def test_where_nothing_fits_the_plan_is_as_before():
    tiny = "gpt2-xl", TWO_NODES.format("2GB")
    setup = ps.make_setup(*tiny, "pipedream", microbatches=16)
    assert not fits(setup)
    assert setup.plan == ps.make_setup(*tiny, "pipedream", microbatches=16, fit=False).plan


@pytest.mark.parametrize("scheduler", ["interleaved", "zb_h1", "gpipe"])
def test_cuts_are_moved_for_the_schedule_that_is_simulated(scheduler):
    """GPipe keeps all microbatches, interleaving several stages of a device."""
    cluster = 'flat(8, bandwidth="25GB/s", memory="{}B")'
    most = peak_memory(ps.make_setup("gpt2-xl", cluster.format(0), "balanced", scheduler, 16)).max()
    before, after = (
        ps.make_setup("gpt2-xl", cluster.format(round(0.99 * most)), "balanced", scheduler, 16, fit=fit)
        for fit in (False, True)
    )
    assert not fits(before)
    assert fits(after)
    assert after.plan.replication == before.plan.replication


def test_plans_and_comparisons_fit_as_simulations_do():
    assert ps.make_plan(*SMALL, "dapple", microbatches=16) == ps.make_setup(*SMALL, "dapple", microbatches=16).plan
    (row,) = ps.compare(*SMALL, ["dapple"], ["one_f_one_b"], microbatches=16)
    assert row.result.fits_memory
