"""Plans that fit in memory, in place of those that do not."""

import pytest

import pipesim as ps
from helpers.strategies import even_trace
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


MB = 10**6


def two_layers(first_stash=120 * MB, first_parameters=MB, second_parameters=20 * MB):
    """A layer that keeps much and one of many parameters, which take 8 bytes each: fp16 with Adam."""
    layers = {
        "layer": [0, 1], "name": ["wide", "deep"], "forward_s": [1e-3, 1e-3], "backward_s": [2e-3, 2e-3],
        "output_bytes": [MB, MB], "parameter_bytes": [first_parameters, second_parameters],
        "stash_bytes": [first_stash, MB],
    }  # fmt: skip
    return ps.Trace("two", "by hand", 1, layers, precision="fp16")


@pytest.mark.parametrize("planner", ["dapple", "alpa", "spp"])
def test_stages_of_different_numbers_of_replicas_are_tried_where_equal_ones_do_not_fit(planner):
    """One stage: 208 MB on each of three devices. Two of one device: 248 MB on the first, which keeps two microbatches.
    With two replicas of the first stage 128 MB and 161 MB.
    """
    cluster = 'flat(3, bandwidth="25GB/s", device="any", memory="200MB")'
    setup = ps.make_setup(two_layers(), cluster, planner, microbatches=4)
    assert setup.plan.replication == (2, 1)
    assert peak_memory(setup).tolist() == [128 * MB, 128 * MB, 161 * MB]
    (note,) = setup.notes
    assert (
        note
        == f"the plan of {planner} does not fit in memory; 2 stages with replicas 2, 1 are used in its place, which fit"
    )


def test_spp_plus_plans_again_with_a_memory_limit_unless_the_user_states_one():
    """Its own plan among those that fit comes before other cuts of the plan that does not."""
    case = even_trace(6), 'flat(3, bandwidth="1GB/s", device="any", memory="17MB")'
    free, fitted = (ps.make_setup(*case, "spp_plus", "one_f_one_b", 4, fit=fit) for fit in (False, True))
    stated = ps.make_setup(*case, 'spp_plus(memory="one_f_one_b")', "one_f_one_b", 4, fit=False)
    assert not fits(free)
    assert fits(fitted)
    assert fitted.plan.stages == stated.plan.stages
    assert "the plan of spp_plus does not fit in memory" in fitted.notes[0]


def test_devices_are_tried_in_the_order_of_their_memory():
    """The first stage keeps two microbatches, 248 MB, and the second device alone has as many."""
    devices = ps.Device("small", "any", memory=170 * MB), ps.Device("large", "any", memory=300 * MB)
    cluster = ps.Cluster("two sizes", devices, (ps.Link("small", "large", bandwidth=25e9),))
    kept = ps.make_setup(two_layers(), cluster, "pipedream", microbatches=4, fit=False)
    assert not fits(kept)
    setup = ps.make_setup(two_layers(), cluster, "pipedream", microbatches=4)
    assert [stage.devices for stage in setup.plan.stages] == [("large",), ("small",)]
    assert fits(setup)
    assert "devices in the order of their memory" in setup.notes[0]


def test_where_no_uneven_plan_fits_either_the_plan_is_as_before():
    cluster = 'flat(3, bandwidth="25GB/s", device="any", memory="100MB")'
    setup = ps.make_setup(two_layers(), cluster, "pipedream", microbatches=4)
    assert setup.notes == ()
    assert setup.plan == ps.make_setup(two_layers(), cluster, "pipedream", microbatches=4, fit=False).plan
