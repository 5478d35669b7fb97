"""Models from the config.json of published checkpoints."""

import json

import pytest

from helpers.models import parameters
from helpers.places import TESTS
from pipesim.architectures import described
from pipesim.base.errors import InputError
from pipesim.frameworks import huggingface

# Sizes in the config.json of published checkpoints (keys that matter), and their parameters: counted by making each
# model with its modelling code (transformers 5.23, on PyTorch's meta device). Counted otherwise: deepseek-v3 with the
# 58 · 256 biases of its routers, which are buffers there; flan-t5 with the head that its files have. Left out of the
# published totals are gemma-3's vision tower and deepseek-v3's module for a further token.
PUBLISHED = json.loads((TESTS / "frameworks" / "published.json").read_text(encoding="utf-8"))
UNDIVIDED = {"google/gemma-3-1b-pt": "key_heads = 1", "openai-community/gpt2-xl": "heads = 25"}
LLAMA = PUBLISHED["meta-llama/Llama-3.1-8B"]["config"]


@pytest.fixture
def written(tmp_path):
    def write(data, **changed):
        path = tmp_path / "config.json"
        path.write_text(json.dumps({key: value for key, value in {**data, **changed}.items() if value != "left out"}))
        return path

    return write


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters_of_a_file_are_those_of_the_checkpoint(name, written):
    made = huggingface.model(written(PUBLISHED[name]["config"]))
    assert parameters(made) == PUBLISHED[name]["parameters"]


def test_every_kind_of_model_has_a_published_checkpoint_here():
    assert set(huggingface.READERS) == {one["config"]["model_type"] for one in PUBLISHED.values()}


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_device_of_two_has_half_of_what_is_divided(name, written):
    """Heads, experts and the vocabulary; norms and what every device has whole are little."""
    path = written(PUBLISHED[name]["config"])
    if name in UNDIVIDED:
        with pytest.raises(InputError, match=f"tensor_parallel = 2 found; a divisor of {UNDIVIDED[name]} was expected"):
            huggingface.model(path, tensor_parallel=2)
        return
    whole, half = (huggingface.model(path, tensor_parallel=width) for width in (1, 2))
    assert parameters(whole) / 2 < parameters(half) < parameters(whole) * 0.55
    assert half.forward_flops == pytest.approx(whole.forward_flops / 2, rel=0.05)
    assert [layer.output_bytes for layer in half.layers[:-1]] == [layer.output_bytes for layer in whole.layers[:-1]]


@pytest.mark.parametrize(
    ("name", "preset"),
    [
        ("meta-llama/Llama-3.1-405B", "llama3.1-405b"),
        ("mistralai/Mistral-7B-v0.1", "mistral-7b"),
        ("mistralai/Mixtral-8x7B-v0.1", "mixtral-8x7b"),
        ("Qwen/Qwen2.5-7B", "qwen2.5-7b"),
        ("Qwen/Qwen3-32B", "qwen3-32b"),
        ("Qwen/Qwen3-235B-A22B", "qwen3-235b-a22b"),
        ("google/gemma-2-9b", "gemma2-9b"),
        ("google/gemma-3-27b-pt", "gemma3-27b"),
        ("deepseek-ai/DeepSeek-V2-Lite", "deepseek-v2-lite"),
        ("deepseek-ai/DeepSeek-V3", "deepseek-v3"),
        ("EleutherAI/gpt-neox-20b", "gpt-neox-20b"),
        ("facebook/opt-350m", "opt-350m"),
        ("google-bert/bert-large-uncased", "bert-large"),
        ("google-t5/t5-11b", "t5-11b"),
        ("openai-community/gpt2-xl", "gpt2-xl"),
    ],
)
def test_a_file_has_the_layers_of_the_preset_of_the_same_name(name, preset, written):
    sizes = {"sequence": 512, "precision": "bf16", "microbatch": 2}
    assert huggingface.model(written(PUBLISHED[name]["config"]), **sizes).layers == (
        described.model_called(preset, sizes).layers
    )


def test_a_path_is_a_model_by_itself(written):
    """As `pipesim trace` takes it: the file, or the folder that has it."""
    path = written(LLAMA, _name_or_path="meta-llama/Llama-3.1-8B")
    sizes = {"sequence": 64, "tensor_parallel": 2}
    models = [described.model_called(text, sizes) for text in (str(path), str(path.parent), f"huggingface('{path}')")]
    assert models[0] == models[1] == models[2] == huggingface.model(path, **sizes)
    assert models[0].name == "Llama-3.1-8B"


def test_sizes_that_a_user_leaves_out_are_those_of_the_file(written):
    """At most 4096 tokens: Llama 3.1 has 131072 positions."""
    made = huggingface.model(written(LLAMA))
    assert (made.precision, made.layers[0].output_bytes) == ("bf16", 4096 * 4096 * 2)
    short = huggingface.model(written(LLAMA, max_position_embeddings=128, torch_dtype="float32"))
    assert (short.precision, short.layers[0].output_bytes) == ("fp16", 128 * 4096 * 2)


def test_a_model_without_a_name_is_named_after_its_folder(written, tmp_path):
    assert huggingface.model(written(LLAMA)).name == tmp_path.name
    (tmp_path / "mine.json").write_text(json.dumps(LLAMA))
    assert huggingface.model(tmp_path / "mine.json").name == "mine"


def test_keys_that_files_leave_out_have_the_defaults_of_the_library(written):
    """As many key heads as heads in Llama, 8 in Mistral; Gemma 3's 4B states neither heads nor words."""
    assert huggingface.model(written(LLAMA, num_key_value_heads="left out")) == huggingface.model(
        written(LLAMA, num_key_value_heads=32)
    )
    mistral = PUBLISHED["mistralai/Mistral-7B-v0.1"]["config"]
    left_out = {"num_key_value_heads": "left out", "sliding_window": "left out"}
    assert huggingface.model(written(mistral, **left_out)) == huggingface.model(written(mistral))


def test_a_window_saves_work_only_in_the_layers_that_have_it(written):
    """Gemma 3: five of six blocks attend to the last 1024 tokens."""
    made = huggingface.model(written(PUBLISHED["google/gemma-3-27b-pt"]["config"]), sequence=4096)
    attention = [layer.forward_flops for layer in made.layers if layer.kind == "attention"]
    scores = 2 * 2 * 4096 * (4096 - 1024) * 32 * 128
    assert [flops == attention[5] for flops in attention[:12]] == [*[False] * 5, True] * 2
    assert attention[5] - attention[0] == scores


def test_layer_types_state_which_blocks_have_a_window(written):
    text = PUBLISHED["google/gemma-3-1b-pt"]["config"]
    kinds = [*["sliding_attention"] * 5, "full_attention"] * 4 + ["sliding_attention"] * 2
    stated = written(text, sliding_window_pattern="left out", layer_types=kinds)
    assert huggingface.model(stated) == huggingface.model(written(text))
    with pytest.raises(InputError, match=r"config.json: layer_types = \[.* found; 26 were expected"):
        huggingface.model(written(text, layer_types=kinds[1:]))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"model_type": "bloom"}, "model_type = 'bloom' found; .*known are llama, mistral, .*deepseek_v3, .*gpt2"),
        ({"model_type": "left out"}, "model_type is missing; known are llama"),
        ({"model_type": ["llama"]}, r"model_type = \['llama'\] found; "),
        ({"hidden_size": "left out"}, "hidden_size is missing; a whole number was expected, for model_type 'llama'"),
        ({"hidden_size": None}, "hidden_size is missing"),
        ({"num_hidden_layers": "32"}, "num_hidden_layers = '32' found; a whole number, at least 1, was expected"),
        ({"num_hidden_layers": 0}, "num_hidden_layers = 0 found"),
        ({"tie_word_embeddings": "no"}, "tie_word_embeddings = 'no' found; true or false was expected"),
        ({"attention_bias": True}, "attention_bias = True found; only False is modelled"),
        ({"hidden_act": "relu"}, "hidden_act = 'relu' found; only 'silu' is modelled"),
        ({"num_key_value_heads": 7}, "key_heads = 7 found; a divisor of heads = 32 was expected"),
    ],
)
def test_what_cannot_be_a_model_is_refused_with_file_and_key(changed, message, written):
    with pytest.raises(InputError, match=f"config.json: {message}"):
        huggingface.model(written(LLAMA, **changed))


def test_a_file_that_is_no_json_or_is_missing_is_refused_by_name(tmp_path):
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(InputError, match=r"config\.json: is not JSON"):
        huggingface.model(tmp_path)
    with pytest.raises(InputError, match=r"other\.json"):
        huggingface.model(tmp_path / "other.json")
