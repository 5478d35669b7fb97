"""ViT: a transformer that reads an image as a sequence of square patches and one token for the class.

    patches ── block0.attention ── block0.mlp ── ... ── norm ── head

Positions are learned; the head reads only the token of the class. There is no dropout.
"""

from pipesim.architectures import convolutional, operations, transformer
from pipesim.architectures.presets import of_patches
from pipesim.architectures.transformer import Style, TransformerShape
from pipesim.core.model import Layer, Model

_CHANNELS = 3


def vit(
    layers: int,
    hidden: int,
    heads: int,
    *,
    patch: int = 16,
    image: int = 224,
    classes: int = 1000,
    fused_attention: bool = False,
    microbatch: int = 1,
    precision: str = "fp16",
    tensor_parallel: int = 1,
    name: str = "",
) -> Model:
    """A ViT with `layers` blocks; `patch` is the side of a patch, a divisor of `image`, the side of an image."""
    operations.check_sizes(patch=patch, image=image, classes=classes)
    operations.check_divides("patch", patch, "image", image)
    sequence = (image // patch) ** 2 + 1
    shape = TransformerShape(microbatch, sequence, hidden, heads, classes, precision, tensor_parallel)
    style = Style(dropout=False, fused_attention=fused_attention)
    parts = (
        _patches(shape, patch, image),
        *transformer.blocks(shape, layers, style),
        transformer.norm(shape, style),
        _head(shape, classes),
    )
    return Model(name or f"vit-{layers}x{hidden}-{patch}", microbatch, parts, precision)


def _patches(shape: TransformerShape, patch: int, image: int) -> Layer:
    """A linear map of each patch; the token of the class is added, then positions."""
    pixels = convolutional.pixels(image, shape.microbatch, shape.precision)
    places = shape.microbatch * (shape.sequence - 1)
    others = shape.hidden * (2 + shape.sequence)  # bias, token of the class, positions
    return Layer(
        name="patches",
        kind="conv",
        output_bytes=shape.values * shape.value,
        parameter_bytes=(operations.convolution_parameters(patch**2, _CHANNELS, shape.hidden) + others) * shape.value,
        stash_bytes=pixels.bytes,
        forward_flops=float(operations.convolution_flops(places, patch**2, _CHANNELS, shape.hidden)),
    )


def _head(shape: TransformerShape, classes: int) -> Layer:
    """From the token of the class of each sample to the classes. Keeps its input, and the logits for the loss."""
    return Layer(
        name="head",
        kind="linear",
        output_bytes=shape.microbatch * classes * shape.value,
        parameter_bytes=operations.linear_parameters(shape.hidden, classes) * shape.value,
        stash_bytes=shape.microbatch * (shape.hidden + classes) * shape.value,
        forward_flops=float(operations.linear_flops(shape.microbatch, shape.hidden, classes)),
    )


# Dosovitskiy et al. (2020).
vit_b_16 = of_patches(vit, "vit-b-16", 12, 768, 12, side=224, patch=16, about="ViT-Base, patches")
vit_b_32 = of_patches(vit, "vit-b-32", 12, 768, 12, side=224, patch=32, about="ViT-Base, patches")
vit_l_16 = of_patches(vit, "vit-l-16", 24, 1024, 16, side=224, patch=16, about="ViT-Large, patches")
vit_l_32 = of_patches(vit, "vit-l-32", 24, 1024, 16, side=224, patch=32, about="ViT-Large, patches")
vit_h_14 = of_patches(vit, "vit-h-14", 32, 1280, 16, side=224, patch=14, about="ViT-Huge, patches")
