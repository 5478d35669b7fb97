"""Settings of Megatron-Bridge's recipes: overrides and lines of Python."""

import random

import pytest

from helpers.layouts import random_layout
from pipesim.base.errors import InputError
from pipesim.frameworks.bridge_overrides import read, recognised, write

RECIPE = """
def llama3_70b_pretrain():
    cfg = pretrain()  # num_gpus=64
    cfg.model.tensor_model_parallel_size = 4
    cfg.model.pipeline_model_parallel_size = 8  # positions
    cfg.model.virtual_pipeline_model_parallel_size = 5
    cfg.model.pipeline_model_parallel_layout = "Et*2|(t*2|)*34,t*3|(t*2|)*3,tL"
    cfg.model.sequence_parallel = True
    cfg.train.global_batch_size = 256
    cfg.train.micro_batch_size = 1
    cfg.model.context_parallel_size = 1
"""


def test_a_recipe_is_read():
    layout = read(RECIPE)
    assert (layout.tensor, layout.pipeline, layout.interleave, layout.data) == (4, 8, 5, 2)
    assert sum(layout.blocks) == 80
    assert layout.sequence_parallel
    assert layout.microbatches == 128


def test_overrides_in_one_line_and_lists_are_read():
    text = (
        "model.pipeline_model_parallel_size=2 model.virtual_pipeline_model_parallel_size=null "
        "train.micro_batch_size=2 train.global_batch_size=8"
    )
    assert recognised(text)
    assert read(text, blocks=4, gpus=2).microbatches == 4
    listed = 'cfg.model.pipeline_model_parallel_layout = [["embedding","decoder"],["decoder","loss"]]\n'
    assert read(f"{listed}cfg.model.pipeline_model_parallel_size = 2").stages == ("Et", "tL")


def test_arguments_of_a_call_are_read_as_nemo_has_them():
    layout = read(
        """
    strategy = run.Config(
        nl.MegatronStrategy,
        tensor_model_parallel_size=8,
        pipeline_model_parallel_size=9,
        virtual_pipeline_model_parallel_size=7,
        sequence_parallel=True,
        account_for_embedding_in_pipeline_split=False,
    )
    trainer = run.Config(nl.Trainer, devices=8, num_nodes=72, strategy=strategy)
    data = run.Config(MockDataModule, seq_length=8192, global_batch_size=512, micro_batch_size=1)
    """,
        blocks=126,
    )
    assert (layout.tensor, layout.pipeline, layout.interleave, layout.data) == (8, 9, 7, 8)
    assert layout.blocks == (2,) * 63
    assert layout.sequence_parallel


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("model.pipeline_model_parallel_size='two'", "a whole number was expected"),
        ("model.pipeline_model_parallel_size=-2", "0 to"),
        ("model.sequence_parallel=3", "True or False"),
        ("model.pipeline_model_parallel_layout=[['x']]", "lists of embedding"),
    ],
)
def test_settings_that_cannot_be_read_are_refused(text, message):
    with pytest.raises(InputError, match=message):
        read(text, blocks=4)


def test_what_is_written_reads_back_as_the_same_layout():
    rng = random.Random(1)
    for _ in range(300):
        layout = random_layout(rng)
        assert layout.differences(read(write(layout))) == [], write(layout)
