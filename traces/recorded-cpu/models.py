"""A small GPT and a small VGG, as `pipesim record` takes them; their layers are those of the architectures' names."""

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

GROUPS = (64, 128, 256, 512, 512)


class Embedding(nn.Module):
    """Tokens and their positions to vectors."""

    def __init__(self, vocabulary: int, sequence: int, width: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(sequence, width)

    def forward(self, tokens: Tensor) -> Tensor:
        """[sample, token] -> [sample, token, width]."""
        return self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1], device=tokens.device))


class Attention(nn.Module):
    """Causal self-attention, its norm before it, and the residual sum."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.project = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """[sample, token, width] -> the same."""
        parts = self.project(self.norm(x)).chunk(3, dim=-1)
        query, key, value = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in parts)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return x + self.out(mixed.transpose(1, 2).flatten(2))


class Mlp(nn.Module):
    """Two linear maps with GELU between, their norm before them, and the residual sum."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.inner = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: Tensor) -> Tensor:
        """[sample, token, width] -> the same."""
        return x + self.inner(x)


class Head(nn.Module):
    """Logits with the embedding's own matrix, and the loss against the next tokens."""

    def __init__(self, matrix: nn.Parameter, targets: Tensor) -> None:
        super().__init__()
        self.matrix = matrix
        self.register_buffer("targets", targets, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """[sample, token, width] -> the loss."""
        return functional.cross_entropy(functional.linear(x, self.matrix).flatten(0, 1), self.targets.flatten())


class Loss(nn.Module):
    """The loss of images' classes."""

    def __init__(self, targets: Tensor) -> None:
        super().__init__()
        self.register_buffer("targets", targets, persistent=False)

    def forward(self, logits: Tensor) -> Tensor:
        """[sample, class] -> the loss."""
        return functional.cross_entropy(logits, self.targets)


def gpt(
    *, microbatch: int, depth: int = 8, width: int = 256, heads: int = 8, sequence: int = 128, vocabulary: int = 8192
) -> tuple[dict[str, nn.Module], Tensor]:
    """A GPT with a tied head: 8.4 million parameters by default."""
    torch.manual_seed(0)
    tokens, targets = torch.randint(0, vocabulary, (2, microbatch, sequence))
    embedding = Embedding(vocabulary, sequence, width)
    layers: dict[str, nn.Module] = {"embedding": embedding}
    for block in range(depth):
        layers[f"block{block}.attention"] = Attention(width, heads)
        layers[f"block{block}.mlp"] = Mlp(width)
    layers["norm"] = nn.LayerNorm(width)
    layers["head"] = Head(embedding.tokens.weight, targets)
    return layers, tokens


def vgg(
    *,
    microbatch: int,
    blocks: tuple[int, ...] = (1, 1, 2, 2, 2),
    image: int = 64,
    hidden: int = 1024,
    classes: int = 100,
) -> tuple[dict[str, nn.Module], Tensor]:
    """A VGG of 11 layers for small images: 12.5 million parameters by default."""
    torch.manual_seed(0)
    layers: dict[str, nn.Module] = {}
    channels = 3
    for group, (count, wide) in enumerate(zip(blocks, GROUPS, strict=True), start=1):
        for part in range(1, count + 1):
            layers[f"conv{group}_{part}"] = nn.Sequential(nn.Conv2d(channels, wide, 3, padding=1), nn.ReLU())
            channels = wide
        layers[f"pool{group}"] = nn.MaxPool2d(2)
    sizes = (channels * (image // 2 ** len(blocks)) ** 2, hidden, hidden)
    for number, (inputs, outputs) in enumerate(pairwise(sizes), start=6):
        layers[f"fc{number}"] = nn.Sequential(
            *([nn.Flatten()] if number == 6 else []), nn.Linear(inputs, outputs), nn.ReLU(), nn.Dropout()
        )
    layers["fc8"] = nn.Linear(hidden, classes)
    layers["loss"] = Loss(torch.randint(0, classes, (microbatch,)))
    return layers, torch.randn(microbatch, 3, image, image)
