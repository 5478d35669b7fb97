"""Job files of torchtitan. What it makes of each number of stages was compared with its own code."""

import random
import re
from dataclasses import replace

import pytest

from helpers.layouts import random_stages
from pipesim.base.errors import InputError
from pipesim.frameworks.torchtitan_config import generated, read, recognised, write
from pipesim.frameworks.training_layout import InexpressibleError, TrainingLayout

JOB = """
[model]
name = "llama3"
[training]
local_batch_size = 8
seq_len = 8192
[parallelism]
data_parallel_shard_degree = -1
tensor_parallel_degree = 8
pipeline_parallel_degree = 4
pipeline_parallel_schedule = "Interleaved1F1B"
[activation_checkpoint]
mode = "full"
"""


def test_a_job_file_is_read_with_the_stages_that_torchtitan_would_make():
    assert recognised(JOB)
    layout = read(JOB, blocks=32, gpus=64)
    assert layout.stages == ("Etttt", "ttttt", *["tttt"] * 5, "tttL")
    assert (layout.interleave, layout.data, layout.tensor, layout.sequence_parallel) == (2, 2, 8, True)
    assert (layout.microbatch_size, layout.microbatches, layout.sharding, layout.recompute) == (1, 8, "zero1", "full")
    assert layout.stages == generated(8, 32, 1, 1)


def test_stages_are_even_with_less_at_the_ends():
    assert generated(4, 10, 1, 1) == ("Ett", "ttt", "ttt", "ttL")
    assert generated(4, 11, 1, 1) == ("Ettt", "ttt", "ttt", "ttL")
    assert generated(1, 3, 1, 1) == ("EtttL",)
    with pytest.raises(InputError, match="fewer stages"):
        generated(8, 4, 1, 1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("tensor_parallel_degree = 8", "tensor_parallel_degree = 0"), "tensor_parallel_degree"),
        (('"Interleaved1F1B"', '"Zigzag"'), "'Zigzag' found; 1F1B"),
        (('mode = "full"', 'mode = "selective"'), "none or full was expected"),
        (("local_batch_size = 8", "local_batch_size = 8\nglobal_batch_size = 32"), "2 passes through the pipeline"),
        (("data_parallel_shard_degree = -1", "data_parallel_replicate_degree = 5"), "64 GPUs found"),
        (("[parallelism]", '[parallelism]\nmodule_fqns_per_model_part = [["tok_embeddings", "layers.1"]]'), "layers.0"),
        (("[parallelism]", "[parallelism]\nmodule_fqns_per_model_part = 3"), "a list of lists"),
        (("[parallelism]", "[parallelism"), "line 7"),
    ],
)
def test_job_files_that_cannot_be_read_are_refused(change, message):
    with pytest.raises(InputError, match=re.escape(message)):
        read(JOB.replace(*change), blocks=32, gpus=64)


def test_without_blocks_the_stages_have_to_be_stated():
    with pytest.raises(InputError, match="add --model"):
        read(JOB, gpus=64)


def test_what_is_written_reads_back_as_the_same_layout():
    rng = random.Random(2)
    for _ in range(200):
        pipeline, chunks = rng.choice([(1, 1), (2, 1), (4, 1), (2, 2), (4, 2)])
        scheduler, placement = ("one_f_one_b", "loop") if chunks == 1 else ("interleaved", "loop")
        if chunks == 2 and rng.random() < 0.5:
            scheduler, placement = "zb_v", "wave"
        tensor, data = rng.choice([1, 4]), rng.choice([1, 2, 6])
        sharding = rng.choice(["none", "zero1", "zero3"]) if data > 1 else "none"
        layout = TrainingLayout(
            random_stages(rng, pipeline, chunks),
            pipeline=pipeline,
            scheduler=scheduler,
            placement=placement,
            tensor=tensor,
            data=data,
            context=rng.choice([1, 2]),
            expert=rng.choice([1, 4]),
            microbatch_size=rng.choice([1, 2]),
            microbatches=rng.choice([1, 8]),
            sequence=rng.choice([None, 4096]),
            sequence_parallel=tensor > 1,
            sharding=sharding,
            sharding_size=rng.choice([None, 3]) if data == 6 and sharding != "none" else None,
            gradient_overlap=True,
            gather_overlap=sharding != "none",
            precision=rng.choice([None, "bf16", "fp32"]),
            recompute=rng.choice(["none", "full"]),
        )
        assert layout.differences(read(write(layout))) == [], write(layout)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"stages": ("uu", "u")}, "transformers of embedding, blocks"),
        ({"stages": ("Ett", "mL")}, "transformers of embedding, blocks"),
        ({"stages": ("Ett", "ttL"), "tensor": 2}, "add --sequence-parallel"),
        ({"sharding": "zero2"}, "zero2"),
        ({"precision": "fp16"}, "fp16 found; torchtitan has bfloat16"),
        ({"recompute": "selective"}, "of a part"),
        ({"scheduler": "zb_h1"}, "others as a .csv file"),
        ({"stages": ("Et", "t", "t", "tL"), "placement": "wave", "scheduler": "hanayo"}, "ZBVZeroBubble and DualPipeV"),
        ({"stages": ("E", "E", "ttL"), "pipeline": 3}, "in several stages found"),
    ],
)
def test_what_torchtitan_has_no_setting_for_is_refused_by_name(fields, message):
    with pytest.raises(InexpressibleError, match=message):
        write(TrainingLayout(**{"stages": ("Ett", "ttL"), "pipeline": 2} | fields))


def test_norm_and_output_may_be_in_two_stages_and_schedules_in_a_file():
    layout = TrainingLayout(("Ett", "ttL", "L"), pipeline=3, data=1, scheduler="zb.csv", gradient_overlap=True)
    text = write(replace(layout, microbatch_size=1, microbatches=3))
    assert '["layers.2", "layers.3", "norm"],\n    ["output"],' in text
    assert 'pipeline_parallel_schedule_csv = "zb.csv"' in text
    assert read(text).scheduler == "zb.csv"
    assert read(text).stages == layout.stages
