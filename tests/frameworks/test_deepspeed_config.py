"""Configurations of DeepSpeed. Parts by weight were compared with its own function."""

import json
import random
from itertools import pairwise

import pytest

from pipesim.base.errors import InputError
from pipesim.frameworks.deepspeed_config import balanced, read, recognised, uniform, write
from pipesim.frameworks.training_layout import InexpressibleError, TrainingLayout

LETTERS = "Ettttttttt" + "LL"
WEIGHTS = [50.0, *[12.0] * 9, 0.1, 50.0]


def test_parts_are_those_of_deepspeed():
    assert uniform(10, 4) == [0, 3, 6, 8, 10]
    assert uniform(2, 4) == [0, 1, 2, 2, 2]
    assert balanced([1, 1, 1, 1, 1, 1], 3) == [0, 2, 4, 6]
    assert balanced([0, 1, 1, 1, 0, 0], 3) == [0, 2, 3, 6]
    assert balanced([5, 1, 1, 1, 1, 1], 2) == [0, 1, 6]


def test_a_configuration_is_read_with_the_parts_that_its_method_makes():
    config = {
        "train_batch_size": 64,
        "train_micro_batch_size_per_gpu": 2,
        "zero_optimization": {"stage": 1},
        "bf16": {"enabled": True},
        "pipeline": {"stages": 3, "partition": "parameters", "activation_checkpoint_interval": 1},
    }
    text = json.dumps(config)
    assert recognised(text)
    layout = read(text, gpus=12, letters=LETTERS, parameters=WEIGHTS)
    assert [len(stage) for stage in layout.stages] == [3, 6, 3]
    assert (layout.data, layout.microbatches, layout.sharding, layout.precision) == (4, 8, "zero1", "bf16")
    assert (layout.recompute, layout.recompute_unit) == ("full", 1)


def test_names_of_gpt_neox_are_read():
    text = json.dumps(
        {"pipe-parallel-size": 2, "model-parallel-size": 4, "pipe_partition_method": "type:transformer|mlp"}
    )
    layout = read(text, blocks=8)
    assert (layout.pipeline, layout.tensor, layout.blocks) == (2, 4, (4, 4))


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"pipeline": {"stages": 2}}, "--model"),
        ({"pipeline": {"stages": 0}}, "pipeline.stages"),
        ({"pipeline": []}, "an object was expected"),
        ({"pipeline": {"stages": 2, "partition": "uniform"}, "zero_optimization": {"stage": 7}}, "0 to 3"),
        ({"pipeline": {"stages": 2, "partition": "uniform", "data": 2}, "train_batch_size": 9}, "train_batch_size = 9"),
    ],
)
def test_configurations_that_cannot_be_read_are_refused(config, message):
    with pytest.raises(InputError, match=message):
        read(json.dumps(config), blocks=None if "--model" in message else 6)


def test_what_is_written_reads_back_as_the_same_layout():
    rng = random.Random(4)
    for _ in range(60):
        pipeline = rng.choice([1, 2, 3, 4])
        bounds = balanced(WEIGHTS, pipeline) if rng.random() < 0.5 else uniform(len(LETTERS), pipeline)
        layout = TrainingLayout(
            tuple(LETTERS[a:b] for a, b in pairwise(bounds)),
            pipeline=pipeline,
            data=rng.choice([1, 4]),
            tensor=rng.choice([1, 8]),
            microbatch_size=2,
            microbatches=4,
            precision=rng.choice([None, "bf16", "fp16"]),
            sharding=rng.choice(["none", "zero1"]),
            recompute=rng.choice(["none", "full"]),
        )
        text = write(layout, WEIGHTS)
        assert read(text, letters=LETTERS, parameters=WEIGHTS) == layout
        bare = json.loads(text)
        bare["pipeline"].pop("holds")
        assert read(json.dumps(bare), letters=LETTERS, parameters=WEIGHTS) == layout, "the method makes the same parts"


def test_parts_that_no_method_makes_are_refused_with_the_nearest():
    layout = TrainingLayout((LETTERS[:1], LETTERS[1:]), pipeline=2)
    with pytest.raises(InexpressibleError, match=r"parts \[0, 1, 12\] found; DeepSpeed's methods make") as refused:
        write(layout, WEIGHTS)
    assert refused.value.nearest
    for nearest in refused.value.nearest:
        assert '"partition"' in write(nearest, WEIGHTS)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"scheduler": "zb_h1"}, "1F1B with one"),
        ({"stages": ("Et", "t", "t", "tL"), "scheduler": "interleaved"}, "1F1B with one"),
        ({"context": 2}, "context width 2"),
        ({"sharding": "zero3"}, "refuses it with pipelines"),
        ({"sequence_parallel": True}, "sequence parallelism"),
        ({"recompute": "selective"}, "of a part"),
        ({"precision": "fp8"}, "fp8"),
    ],
)
def test_what_deepspeed_has_not_is_refused_by_name(fields, message):
    with pytest.raises(InexpressibleError, match=message):
        write(TrainingLayout(**{"stages": ("Ett", "ttL"), "pipeline": 2} | fields))
