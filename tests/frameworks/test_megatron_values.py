"""Fields of Megatron-LM's configuration: which blocks each stage has, and which fields state a layout."""

import pytest

from pipesim.base.errors import InputError
from pipesim.frameworks.megatron_values import block_counts, layout_from, values_of
from pipesim.frameworks.training_layout import InexpressibleError, TrainingLayout

PP = "pipeline_model_parallel_size"
CHUNKS = "virtual_pipeline_model_parallel_size"
EMBEDDING, LOSS = "account_for_embedding_in_pipeline_split", "account_for_loss_in_pipeline_split"
FIRST, LAST = "num_layers_in_first_pipeline_stage", "num_layers_in_last_pipeline_stage"


@pytest.mark.parametrize(
    ("values", "pipeline", "layers", "counts"),
    [
        ({}, 4, 8, [2, 2, 2, 2]),
        ({CHUNKS: 2}, 2, 8, [2, 2, 2, 2]),
        ({EMBEDDING: True, LOSS: True}, 4, 6, [1, 2, 2, 1]),
        ({EMBEDDING: True, LOSS: True, CHUNKS: 8}, 16, 126, [0, *[1] * 126, 0]),
        ({FIRST: 5}, 4, 26, [5, 7, 7, 7]),
        ({FIRST: 5, LAST: 1}, 4, 26, [5, 10, 10, 1]),
        ({LAST: 2, CHUNKS: 2}, 3, 10, [2, 2, 1, 2, 2, 1]),
    ],
)
def test_blocks_are_divided_as_megatron_does(values, pipeline, layers, counts):
    assert block_counts(values, pipeline, layers) == counts


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({PP: 4, "num_layers": 10}, "a multiple of pipeline_model_parallel_size = 4"),
        ({PP: 4}, "num_layers is missing"),
        ({PP: 4, "num_layers": 8, FIRST: 3}, "a multiple of the other 3"),
        ({PP: 2, "num_layers": 8, FIRST: 9}, "multiple of the other"),
        ({PP: 2, "num_layers": 8, FIRST: 3, EMBEDDING: True}, "one of both kinds"),
        ({PP: 2, "num_layers": 8, CHUNKS: 3}, "a multiple of its 3 chunks"),
        ({"num_layers": 8, CHUNKS: 2}, "on one position"),
        ({PP: 2, "num_layers": 8, CHUNKS: 2, "num_layers_per_virtual_pipeline_stage": 2}, "one of them was expected"),
        ({PP: 2, "pipeline_model_parallel_layout": "Ett|ttL", "num_layers": 5}, r"4 blocks \(t\) found; 5"),
        ({PP: 2, "pipeline_model_parallel_layout": "Ett|tt|L"}, "3 stages found; a multiple of"),
        ({PP: 2, "pipeline_model_parallel_layout": "tt|ttL"}, "one E as the first letter"),
        ({PP: 2, "pipeline_model_parallel_layout": "Ett|ttL", CHUNKS: 2}, "1 was expected"),
        ({PP: 2, "pipeline_model_parallel_layout": "Ett|ttL", FIRST: 2}, "one of them was expected"),
        ({PP: 2, "num_layers": 4, "world_size": 3}, "a multiple of tensor x pipeline x context"),
        (
            {"num_layers": 4, "world_size": 2, "micro_batch_size": 2, "global_batch_size": 6},
            "a multiple of micro_batch",
        ),
        ({"num_layers": 4, "recompute_granularity": "full"}, "selective, or full with uniform or block"),
        ({"num_layers": 4, "recompute_granularity": "full", "recompute_method": "block"}, "recompute_num_layers is"),
        ({"num_layers": 4, "num_distributed_optimizer_instances": 3, "use_distributed_optimizer": True}, "WORLD_SIZE"),
    ],
)
def test_fields_that_contradict_each_other_are_refused(values, message):
    with pytest.raises(InputError, match=message):
        layout_from(values)


@pytest.mark.parametrize(
    ("stages", "pipeline", "expected"),
    [
        (("Ett", "ttL"), 2, {}),
        (("Et", "ttL"), 2, {EMBEDDING: True}),
        (("Et", "tt", "tt", "tL"), 2, {EMBEDDING: True, LOSS: True, CHUNKS: 2}),
        (("Ettt", "tt", "ttL"), 3, {FIRST: 3}),
        (("Ettt", "tt", "tt", "tL"), 4, {FIRST: 3, LAST: 1}),
        (("Et", "tt", "t", "tL"), 4, {"pipeline_model_parallel_layout": "Et|tt|t|tL"}),
        (("Et", "", "tL"), 3, {FIRST: 1, LAST: 1}),
        (("Et", "", "t", "tL"), 4, {"pipeline_model_parallel_layout": "Et||t|tL"}),
    ],
)
def test_the_fewest_fields_that_lead_to_the_stages_are_written(stages, pipeline, expected):
    scheduler = "one_f_one_b" if len(stages) == pipeline else "interleaved"
    found = values_of(TrainingLayout(stages, pipeline=pipeline, scheduler=scheduler))
    assert {key: value for key, value in found.items() if key in {*expected, EMBEDDING, LOSS, FIRST, LAST}} == expected


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"stages": ("uu", "u")}, "the layers of this model are none"),
        ({"scheduler": "gpipe"}, "scheduler 'gpipe' found; Megatron-LM has one_f_one_b"),
        ({"stages": ("Et", "t", "t", "tL"), "placement": "wave"}, "only loops"),
        ({"sharding": "zero3"}, r"shards the optimizer only \(zero1\)"),
        ({"stages": ("EttL", "L")}, "in several stages found"),
        ({"precision": "tf32"}, "tf32"),
        ({"recompute": "full", "recompute_blocks": 2, "recompute_unit": 2}, "one or the other"),
        ({"stages": ("Et", "t", "t", "tL"), "scheduler": "interleaved", "microbatches": 3}, "a multiple of 2"),
        ({"stages": ("tt", "tL")}, "has an embedding and a loss"),
    ],
)
def test_what_megatron_has_no_field_for_is_refused_by_name(fields, message):
    with pytest.raises(InexpressibleError, match=message):
        values_of(TrainingLayout(**{"stages": ("Ett", "ttL"), "pipeline": 2} | fields))
