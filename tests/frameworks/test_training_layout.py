"""Layouts in the terms that frameworks share."""

import pytest

from pipesim.base.errors import InputError
from pipesim.frameworks.training_layout import TrainingLayout, chunks


def test_sizes_follow_from_what_is_stated():
    layout = TrainingLayout(
        ("Et", "t", "t", "tL"), pipeline=2, data=3, tensor=4, context=2, microbatch_size=2, microbatches=5
    )
    assert (layout.gpus, layout.global_batch, layout.interleave, layout.blocks) == (48, 30, 2, (1, 1, 1, 1))
    assert TrainingLayout(("Et", "tL"), pipeline=2).gpus is None
    assert TrainingLayout(("Et", "tL"), pipeline=2, data=1).global_batch is None


def test_a_wave_goes_down_the_positions_and_up_again():
    stages = ("Et", "t", "t", "tL")
    assert TrainingLayout(stages, pipeline=2).positions == [0, 1, 0, 1]
    assert TrainingLayout(stages, pipeline=2, placement="wave").positions == [0, 1, 1, 0]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"stages": ("Et", "t", "tL"), "pipeline": 2}, "3 stages found; a multiple of pipeline = 2"),
        ({"stages": ("Et", "xL"), "pipeline": 2}, "'x' found; E, t, m, L, u were expected"),
        ({"stages": ("Et", "LtE"), "pipeline": 2}, "found as the order of layers"),
        ({"stages": ("E", "L"), "pipeline": 2}, "found as the order of layers"),
        ({"stages": ("uu", "ut"), "pipeline": 2}, "found as the order of layers"),
        ({"stages": ("Et", "tL"), "pipeline": 2, "placement": "wave"}, "an even number was expected of a wave"),
        ({"stages": ("EtL",), "pipeline": 0}, "pipeline"),
        ({"stages": ("EtL",), "pipeline": 1, "data": 0}, "data"),
        ({"stages": ("EtL",), "pipeline": 1, "sharding": "zero9"}, "sharding"),
        ({"stages": ("E" + "t" * 100_000 + "L",), "pipeline": 1}, "100000 at most"),
    ],
)
def test_what_is_no_layout_is_refused(fields, message):
    with pytest.raises(InputError, match=message):
        TrainingLayout(**fields)


def test_layers_at_the_ends_are_gathered_in_one_stage():
    layout = TrainingLayout(("E", "E", "tt", "ttL", "L"), pipeline=5)
    assert layout.divided()
    gathered = layout.gathered()
    assert gathered.stages == ("E", "t", "t", "tt", "L")
    assert not gathered.divided()
    assert not TrainingLayout(("EEt", "tLL"), pipeline=2).divided()


def test_several_layers_at_the_ends_are_the_same_layout_as_one():
    one, several = (TrainingLayout((f"{e}t", f"t{lo}"), pipeline=2) for e, lo in (("E", "L"), ("EE", "LLL")))
    assert several.joined() == one
    assert one.differences(several) == []
    assert one.differences(TrainingLayout(("Ett", "L"), pipeline=2, tensor=2)) == ["stages", "tensor"]


def test_what_has_no_effect_is_no_difference():
    one = TrainingLayout(("Et", "tL"), pipeline=2, data=1)
    other = TrainingLayout(("Et", "tL"), pipeline=2, data=1, sequence_parallel=True, sharding="zero1")
    assert one.differences(other) == []
    wide = {"stages": ("Et", "tL"), "pipeline": 2, "data": 2, "tensor": 2}
    both = TrainingLayout(**wide, sequence_parallel=True, sharding="zero1")
    assert TrainingLayout(**wide).differences(both) == ["sequence_parallel", "sharding"]


def test_equal_stages_in_a_row_are_one():
    assert list(chunks(("t", "t", "tt"))) == [("t", 2), ("tt", 1)]
