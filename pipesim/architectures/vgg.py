"""VGG: groups of 3x3 convolutions, then three linear layers.

    conv1_1 ── conv1_2 ── pool1 ── conv2_1 ── ... ── pool5 ── fc6 ── fc7 ── fc8

A pool after each group halves the image; there are no skip connections.
"""

from pipesim.architectures import convolutional, operations
from pipesim.architectures.presets import of_images
from pipesim.core.model import Layer, Model

_CHANNELS = (64, 128, 256, 512, 512)
_HIDDEN = 4096


def vgg(
    blocks: tuple[int, ...] = (2, 2, 4, 4, 4),
    *,
    image: int = 224,
    classes: int = 1000,
    microbatch: int = 1,
    precision: str = "fp16",
) -> Model:
    """A VGG without batch norm, with these numbers of convolutions in its five groups; named after its depth."""
    operations.check_size_list("blocks", blocks, len(_CHANNELS))
    operations.check_sizes(classes=classes)
    layers: list[Layer] = []
    maps = convolutional.pixels(image, microbatch, precision)
    for group, (count, channels) in enumerate(zip(blocks, _CHANNELS, strict=True), start=1):
        for part in range(1, count + 1):
            layer, maps = convolutional.conv(f"conv{group}_{part}", maps, channels, 3, batch_norm=False)
            layers.append(layer)
        layer, maps = convolutional.pool(f"pool{group}", maps, 2)
        layers.append(layer)
    for number, outputs in ((6, _HIDDEN), (7, _HIDDEN), (8, classes)):
        layer, maps = convolutional.fully_connected(f"fc{number}", maps, outputs, dropout=number < 8)
        layers.append(layer)
    return Model(f"vgg-{sum(blocks) + 3}", microbatch, tuple(layers), precision)


# Simonyan and Zisserman (2014), configurations A, B, D and E.
vgg_11 = of_images(vgg, "vgg-11", (1, 1, 2, 2, 2), side=224, about="8 convolutions and 3 linear layers, 1000 classes")
vgg_13 = of_images(vgg, "vgg-13", (2, 2, 2, 2, 2), side=224, about="10 convolutions and 3 linear layers, 1000 classes")
vgg_16 = of_images(vgg, "vgg-16", (2, 2, 3, 3, 3), side=224, about="13 convolutions and 3 linear layers, 1000 classes")
vgg_19 = of_images(vgg, "vgg-19", (2, 2, 4, 4, 4), side=224, about="16 convolutions and 3 linear layers, 1000 classes")
