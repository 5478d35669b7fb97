"""FLOPs and parameters of architectures against PyTorch's own counter, on modules without data (the meta device).

The modules are PyTorch's where it has them, so that nothing is counted twice by the same hand.
"""

import pytest

# Not "torch": without PyTorch, this folder itself could be imported by that name.
counter = pytest.importorskip(
    "torch.utils.flop_counter", reason="PyTorch is not installed: pip install 'pipesim[torch]'"
)

import torch
from torch import nn

from pipesim.architectures import ARCHITECTURES
from pipesim.base import lookup

BATCH = 2
META = torch.device("meta")


def build(text, **arguments):
    return lookup.resolve(text, ARCHITECTURES, "architecture")(microbatch=BATCH, **arguments)


def counted(module, *inputs):
    """FLOPs of a forward, and of a backward that needs gradients of parameters alone."""
    with counter.FlopCounterMode(display=False) as forward:
        output = module(*inputs)
    with counter.FlopCounterMode(display=False) as backward:
        output.sum().backward()
    return forward.get_total_flops(), backward.get_total_flops()


def parameters(module):
    return sum(parameter.numel() for parameter in module.parameters())


def of_products(model):
    """FLOPs of the layers that have products; PyTorch does not count what pools, sums and norms do."""
    return [layer.forward_flops for layer in model.layers if layer.kind not in {"pool", "add", "norm", "embedding"}]


def images(side):
    return torch.empty(BATCH, 3, side, side, device=META)


def words(tokens):
    return torch.empty(BATCH, tokens, dtype=torch.long, device=META)


# --- convolutional networks ------------------------------------------------------------------------------------------


def vgg16():
    layers, channels = [], 3
    for group, count in enumerate((2, 2, 3, 3, 3)):
        for _ in range(count):
            wide = min(64 * 2**group, 512)
            layers += [nn.Conv2d(channels, wide, 3, padding=1), nn.ReLU()]
            channels = wide
        layers.append(nn.MaxPool2d(2))
    layers += [nn.Flatten(), nn.Linear(512 * 49, 4096), nn.ReLU(), nn.Linear(4096, 4096), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(4096, 1000))


class Bottleneck(nn.Module):
    def __init__(self, channels, narrow, stride):
        super().__init__()
        wide = 4 * narrow
        self.body = nn.Sequential(
            nn.Conv2d(channels, narrow, 1, bias=False), nn.BatchNorm2d(narrow), nn.ReLU(),
            nn.Conv2d(narrow, narrow, 3, stride, 1, bias=False), nn.BatchNorm2d(narrow), nn.ReLU(),
            nn.Conv2d(narrow, wide, 1, bias=False), nn.BatchNorm2d(wide),
        )  # fmt: skip
        same = channels == wide and stride == 1
        shortcut = nn.Sequential(nn.Conv2d(channels, wide, 1, stride, bias=False), nn.BatchNorm2d(wide))
        self.skip = nn.Identity() if same else shortcut

    def forward(self, x):
        return torch.relu(self.body(x) + self.skip(x))


def resnet50():
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    channels = 64
    for group, count in enumerate((3, 4, 6, 3)):
        for block in range(count):
            narrow = 64 * 2**group
            layers.append(Bottleneck(channels, narrow, 2 if group and not block else 1))
            channels = 4 * narrow
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000))


@pytest.mark.parametrize(("name", "make"), [("vgg-16", vgg16), ("resnet-50", resnet50)])
def test_a_convolutional_network_has_the_flops_that_pytorch_counts(name, make):
    """Forward, and twice as many backward, but for the images' gradient."""
    model = build(name)
    with META:
        module = make()
    products = of_products(model)
    assert counted(module, images(224)) == (sum(products), 2 * sum(products) - products[0])
    assert parameters(module) == model.parameter_bytes.sum() / 2


# --- transformers ----------------------------------------------------------------------------------------------------


class Words(nn.Module):
    """Blocks of PyTorch's between an embedding with positions and a head that is tied to it."""

    def __init__(self, blocks, hidden, vocabulary, positions, norm):
        super().__init__()
        self.table, self.places = nn.Embedding(vocabulary, hidden), nn.Embedding(positions, hidden)
        self.blocks, self.norm = blocks, norm

    def forward(self, tokens):
        x = self.table(tokens) + self.places.weight[: tokens.shape[1]]
        return self.norm(self.blocks(x)) @ self.table.weight.T


def test_a_gpt_has_the_flops_that_pytorch_counts():
    """GPT-2 medium; twice as many backward, since the embedding's output needs a gradient."""
    model = build("gpt2-medium", sequence=256)
    with META:
        block = nn.TransformerEncoderLayer(1024, 16, 4096, activation="gelu", batch_first=True, norm_first=True)
        body = nn.TransformerEncoder(block, 24, enable_nested_tensor=False)
        module = Words(body, 1024, 50257, 1024, nn.LayerNorm(1024))
    total = sum(of_products(model))
    assert counted(module, words(256)) == (total, 2 * total)
    assert parameters(module) == model.parameter_bytes.sum() / 2


class Translation(nn.Module):
    """PyTorch's own transformer, whose encoder and decoder end with a norm that Vaswani's have not."""

    def __init__(self, hidden, heads, layers, vocabulary):
        super().__init__()
        self.table = nn.Embedding(vocabulary, hidden)
        self.body = nn.Transformer(hidden, heads, layers, layers, 4 * hidden, batch_first=True)

    def forward(self, source, target):
        return self.body(self.table(source), self.table(target)) @ self.table.weight.T


def test_an_encoder_and_a_decoder_have_the_flops_that_pytorch_counts():
    """The base transformer with 48 tokens to read and 32 to write."""
    model = build("translation(6, 512, 8, sequence=48, target=32)")
    with META:
        module = Translation(512, 8, 6, 37000)
    total = sum(layer.forward_flops for layer in model.layers if "embedding" not in layer.kind)
    assert counted(module, words(48), words(32)) == (total, 2 * total)
    assert parameters(module) - 2 * 2 * 512 == model.parameter_bytes.sum() / 2


class Llama(nn.Module):
    """Grouped queries, gated mlps, gains only; rotations have no products and no parameters."""

    def __init__(self, layers, hidden, heads, *, key_heads, inner, vocabulary):
        super().__init__()
        self.heads, self.key_heads = heads, key_heads
        keys = hidden * key_heads // heads
        linear = lambda a, b: nn.Linear(a, b, bias=False)  # noqa: E731 - a short word for it
        self.table, self.head = nn.Embedding(vocabulary, hidden), linear(hidden, vocabulary)
        self.norms = nn.ModuleList(nn.RMSNorm(hidden) for _ in range(2 * layers + 1))
        self.attentions = nn.ModuleList(
            nn.ModuleList([linear(hidden, hidden), linear(hidden, keys), linear(hidden, keys), linear(hidden, hidden)])
            for _ in range(layers)
        )
        self.mlps = nn.ModuleList(
            nn.ModuleList([linear(hidden, inner), linear(hidden, inner), linear(inner, hidden)]) for _ in range(layers)
        )

    def forward(self, tokens):
        x = self.table(tokens)
        for block, (attention, mlp) in enumerate(zip(self.attentions, self.mlps, strict=True)):
            x = x + self.attend(self.norms[2 * block](x), *attention)
            y = self.norms[2 * block + 1](x)
            x = x + mlp[2](nn.functional.silu(mlp[0](y)) * mlp[1](y))
        return self.head(self.norms[-1](x))

    def attend(self, x, query, key, value, out):
        """Heads apart, each key and value for several queries."""
        shaped = [
            linear(x).unflatten(-1, (heads, -1)).transpose(1, 2)
            for linear, heads in ((query, self.heads), (key, self.key_heads), (value, self.key_heads))
        ]
        q, k, v = shaped[0], *(part.repeat_interleave(self.heads // self.key_heads, 1) for part in shaped[1:])
        scores = torch.softmax(q @ k.transpose(-1, -2), -1)
        return out((scores @ v).transpose(1, 2).flatten(-2))


def test_a_llama_has_the_flops_that_pytorch_counts():
    """Four blocks of Llama 3 8B."""
    model = build("llama(4, 4096, 32, inner=14336, key_heads=8, vocabulary=128256, sequence=128)")
    with META:
        module = Llama(4, 4096, 32, key_heads=8, inner=14336, vocabulary=128256)
    total = sum(of_products(model))
    assert counted(module, words(128)) == (total, 2 * total)
    assert parameters(module) == model.parameter_bytes.sum() / 2
