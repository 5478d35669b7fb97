"""Arguments of Megatron-LM: of a command, a script, a YAML list; written and read back."""

import random

import pytest

from helpers.layouts import random_layout
from pipesim.base.errors import InputError, PipesimError
from pipesim.frameworks.megatron_arguments import read, recognised, write

SCRIPT = """#!/bin/bash
GPUS_PER_NODE=8
NNODES=4
TP=4
LAYOUT="Et*2|(tt|)*2ttt|tL"
# --tensor-model-parallel-size 16 was slower
MODEL_ARGS=(
    --tensor-model-parallel-size $TP
    --pipeline-model-parallel-size ${PP:-4}
    --pipeline-model-parallel-layout "$LAYOUT"
    --lr 1e-4
)
MODEL_ARGS+=(
    --micro-batch-size=1 --global-batch-size 16 --sequence-parallel
)
torchrun --nproc_per_node $GPUS_PER_NODE --nnodes ${NNODES} pretrain_gpt.py ${MODEL_ARGS[@]} --bf16
"""


def test_a_script_is_read_with_its_variables():
    layout = read(SCRIPT.replace("${PP:-4}", "${PP:-5}").replace("--nnodes ${NNODES}", "--nnodes 5"))
    assert (layout.tensor, layout.pipeline, layout.data, layout.gpus) == (4, 5, 2, 40)
    assert layout.stages == ("Ett", "tt", "tt", "ttt", "tL")
    assert (layout.microbatches, layout.sequence_parallel, layout.precision) == (8, True, "bf16")


def test_a_yaml_list_is_read_as_megatrons_own_tests_have_it():
    layout = read(
        "MODEL_ARGS:\n  --num-layers: 8\n  --pipeline-model-parallel-size: 5\n  --sequence-parallel: true\n"
        "  --use-distributed-optimizer: false\n  --pipeline-model-parallel-layout: Et*2|(tt|)*2t|tL\n"
    )
    assert layout.stages == ("Ett", "tt", "tt", "t", "tL")
    assert (layout.sequence_parallel, layout.sharding) == (True, "none")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("--num-layers", "--num-layers: a value was expected after it"),
        ("--num-layers x", "--num-layers: 'x' found; a whole number"),
        ("--num-layers -4", "whole number"),
        ("--num-layers $N", r"'\$N' found, and no line N=\.\.\."),
        ("--num-layers 4 --hybrid-layer-pattern M*", "--hybrid-layer-pattern found"),
        ("--num-layers '4", "closed quotes"),
        ("--pipeline-model-parallel-size 2", "num_layers is missing"),
    ],
)
def test_arguments_that_cannot_be_read_are_refused(text, message):
    with pytest.raises(PipesimError, match=message):
        read(text)


def test_what_is_written_reads_back_as_the_same_layout():
    rng = random.Random(0)
    for _ in range(300):
        layout = random_layout(rng)
        text = write(layout)
        assert recognised(text)
        assert layout.differences(read(text)) == [], text


def test_numbers_of_gpus_and_blocks_may_come_from_elsewhere():
    text = "--pipeline-model-parallel-size 2 --micro-batch-size 1 --global-batch-size 8"
    layout = read(text, blocks=4, gpus=8)
    assert (layout.data, layout.microbatches, layout.blocks) == (4, 2, (2, 2))
    with pytest.raises(InputError, match="4 was expected, the blocks of the model"):
        read(f"{text} --num-layers 6", blocks=4)


@pytest.mark.parametrize(
    "text",
    [
        "--num-layers 99999999999",
        "--num-layers 4 --pipeline-model-parallel-size 9999999999 --decoder-first-pipeline-num-layers 4",
        "--num-layers 4 --mtp-num-layers 9999999999",
        (
            "--num-layers 100000 --pipeline-model-parallel-size 100000 --decoder-first-pipeline-num-layers 100000 "
            "--num-virtual-stages-per-pipeline-rank 100000"
        ),
        "--num-layers 8 --pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 9999999999",
    ],
)
def test_numbers_that_would_fill_the_memory_are_refused_first(text):
    with pytest.raises(InputError, match=r"100000|chunks"):
        read(text)
