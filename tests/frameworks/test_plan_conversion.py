"""Plans as layouts of frameworks, and back."""

from dataclasses import replace

import pytest

import pipesim as ps
from pipesim.base.errors import InputError
from pipesim.core.model import Layer, Model
from pipesim.core.plan import Plan, Stage
from pipesim.frameworks.plan_conversion import ModelUnits, layout_of_plan, plan_of_layout, ranks_of, uncut
from pipesim.frameworks.training_layout import InexpressibleError, TrainingLayout

NAMES = ("embedding", "block0.attention", "block0.mlp", "block1.attention", "block1.mlp", "norm", "head")
UNITS = ModelUnits.of(Model("m", 1, tuple(Layer(name, 1.0, 10) for name in NAMES)))


def plan(*cuts, replicas="whole", devices=None, microbatches=4, layers=7, **fields):
    bounds = (0, *cuts, layers)
    devices = devices or [(f"g{n}",) for n in range(len(bounds) - 1)]
    stages = tuple(Stage(a, b, group) for a, b, group in zip(bounds, bounds[1:], devices, strict=False))
    return Plan("m", layers, microbatches, stages, replicas=replicas, **fields)


def test_blocks_and_what_is_around_them_are_units():
    assert (UNITS.letters, UNITS.names) == ("EttLL", ("embedding", "block0", "block1", "norm", "head"))
    assert UNITS.bounds == (0, 1, 3, 5, 6, 7)
    assert UNITS.parameters == (10, 20, 20, 10, 10)
    assert UNITS.blocks == 2


def test_a_model_without_blocks_has_layers():
    units = ModelUnits.of(Model("m", 1, tuple(Layer(name, 1.0) for name in ("conv", "block0.a", "pool", "block1.a"))))
    assert (units.letters, units.bounds, units.blocks) == ("uuuu", (0, 1, 2, 3, 4), None)


def test_a_plan_is_a_layout_and_the_layout_that_plan():
    cluster = ps.load_cluster('flat(8, bandwidth="1GB/s")')
    names = [device.name for device in cluster.devices]
    for layout in (
        TrainingLayout(("Et", "tLL"), pipeline=2, data=2, tensor=2, microbatches=3),
        TrainingLayout(("E", "t", "tL", "L"), pipeline=2, data=1, microbatches=3, scheduler="interleaved"),
        TrainingLayout(("E", "t", "t", "LL"), pipeline=2, data=4, microbatches=1, scheduler="zb_v", placement="wave"),
    ):
        made = plan_of_layout(layout, UNITS, cluster)
        assert layout_of_plan(made, UNITS, scheduler=layout.scheduler) == layout
        assert ranks_of(made) == tuple(names[: layout.gpus]), "GPUs are numbered tensor first, then data, then position"


def test_replicas_that_divide_microbatches_are_replicas_of_smaller_ones():
    divided = plan(3, devices=[("a", "b"), ("c", "d")], replicas="split")
    layout = layout_of_plan(divided, UNITS, 8)
    assert (layout.data, layout.microbatch_size, layout.microbatches) == (2, 4, 4)
    with pytest.raises(InexpressibleError, match="2 replicas that divide microbatches of 3"):
        layout_of_plan(divided, UNITS, 3)


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (plan(3, devices=[("a", "b"), ("c",)]), "stages with 1, 2 replicas found"),
        (plan(3, devices=[("a", "b"), ("c", "d")], microbatches=3), "3 microbatches for 2 replicas"),
        (plan(3, teams=(("g0", "h0"),)), "different widths"),
        (plan(1, 3, 5, devices=[("a",), ("b",), ("b",), ("b",)]), "neither in a loop nor down"),
        (plan(1, 3, 5, devices=[("a",), ("b",), ("c",), ("a",)]), "neither in a loop nor down"),
        (plan(2, 3), r"1 cuts inside of a block found \(before layer 2\)"),
    ],
)
def test_plans_that_no_framework_has_are_refused_by_name(made, message):
    with pytest.raises(InexpressibleError, match=message):
        layout_of_plan(made, UNITS, 4)


def test_cuts_inside_of_blocks_are_moved_to_both_sides():
    assert [one.cuts for one in uncut(plan(2), UNITS)] == [(1,), (3,)]
    assert [one.cuts for one in uncut(plan(2, 3), UNITS)] == [(1, 3)], "a stage would be empty"
    assert [one.cuts for one in uncut(plan(3), UNITS)] == [(3,)]


@pytest.mark.parametrize(
    ("stages", "message"),
    [
        (("Ett", "tL"), "3 blocks found; 'm' has 2"),
        (("Et", "tmL"), "multi-token prediction"),
        (("Et", "", "tL"), "stage 1 holds no layer"),
        (("Et", "tLLL"), "3 x L found in stages; 1 or 2"),
    ],
)
def test_layouts_that_a_model_has_not_are_refused(stages, message):
    with pytest.raises(InputError, match=message):
        UNITS.divided(stages)


def test_layouts_need_microbatches_and_as_many_gpus_as_a_cluster_has():
    cluster = ps.load_cluster('flat(2, bandwidth="1GB/s")')
    layout = TrainingLayout(("Et", "tL"), pipeline=2, data=2, microbatches=1)
    with pytest.raises(InputError, match="4 GPUs found in the layout; 2 at most"):
        plan_of_layout(layout, UNITS, cluster)
    with pytest.raises(InputError, match="number of microbatches is not stated"):
        plan_of_layout(replace(layout, microbatches=None), UNITS, cluster)
