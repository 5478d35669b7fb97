"""Small models of every architecture, and what to look up in them."""

from helpers.places import TESTS
from pipesim.architectures import ARCHITECTURES
from pipesim.base import lookup
from pipesim.core.model import Model

SMALL = {
    "gpt": "gpt(3, 24, 4, vocabulary=100, sequence=16)",
    "llama": "llama(3, 24, 4, inner=40, key_heads=2, vocabulary=100, sequence=16)",
    "moe": "moe(3, 24, 4, inner=40, experts=3, active=2, every=2, key_heads=2, vocabulary=100, sequence=16)",
    "qwen": "qwen(3, 24, 4, inner=40, key_heads=2, head_width=8, key_bias=True, key_norm=True, vocabulary=100, "
    "sequence=16)",
    "gemma": "gemma(3, 24, 4, inner=40, key_heads=2, head_width=8, key_norm=True, window=12, vocabulary=100, "
    "sequence=16)",
    "neox": "neox(3, 24, 4, vocabulary=100, sequence=16)",
    "opt": "opt(3, 24, 4, embedding_width=12, vocabulary=100, sequence=16)",
    "deepseek": "deepseek(3, 24, 4, inner=20, dense_inner=40, experts=3, active=2, query_rank=6, key_rank=10, "
    "plain_width=4, rotary_width=2, value_width=6, vocabulary=100, sequence=16)",
    "huggingface": f"huggingface({str(TESTS / 'frameworks' / 'small_qwen3_moe.json')!r}, sequence=16)",
    "bert": "bert(3, 24, 4, vocabulary=100, sequence=16)",
    "xlnet": "xlnet(3, 24, 4, vocabulary=100, sequence=16)",
    "t5": "t5(3, 24, 4, inner=40, head_width=8, vocabulary=100, sequence=16, target=12)",
    "translation": "translation(3, 24, 4, vocabulary=100, sequence=16, target=12)",
    "vit": "vit(3, 24, 4, patch=8, image=32, classes=7)",
    "alexnet": "alexnet(image=67, classes=7)",
    "vgg": "vgg((1, 1, 1, 1, 1), image=32, classes=7)",
    "resnet": "resnet((2, 1, 1, 1), width=4, image=32, classes=7)",
    "amoebanet": "amoebanet(3, 16, image=32, classes=7)",
}


# Several names may stand for one function; the first is that of the model which it builds.
FIRST = {target: name for name, target in reversed(ARCHITECTURES.items())}


def build(text, **arguments) -> Model:
    return lookup.resolve(text, ARCHITECTURES, "architecture")(**arguments)


def parameters(model):
    return int(model.parameter_bytes.sum()) // {"fp16": 2, "bf16": 2, "fp32": 4}[model.precision]
