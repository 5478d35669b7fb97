"""ResNet: blocks of three convolutions (1x1 narrow, 3x3, 1x1 wide), each with a skip connection.

    x ── conv1 ── conv2 ── conv3 ── add ── conv1 ── conv2 ── conv3 ── add
     └────────── shortcut ─────────┘    └────────────────────────────┘
          first block of a group             all other blocks

The first block of a group changes the size, so its skip connection has a 1x1 convolution; `add` reads two layers. From
the second group on, the 3x3 convolution of the first block halves the image ("v1.5", as in torchvision).
"""

from pipesim.architectures import convolutional, operations
from pipesim.architectures.convolutional import Image
from pipesim.architectures.presets import of_images
from pipesim.core.model import Layer, Model

_WIDER = 4
_GROUPS = 4


def resnet(
    blocks: tuple[int, ...] = (3, 8, 36, 3),
    *,
    width: int = 64,
    image: int = 224,
    classes: int = 1000,
    microbatch: int = 1,
    precision: str = "fp16",
) -> Model:
    """A ResNet with these numbers of bottleneck blocks in its four groups; named after its depth.

    `width` is the narrow width of the first group, a quarter of its wide one; it doubles from group to group.
    """
    operations.check_size_list("blocks", blocks, _GROUPS)
    operations.check_sizes(width=width, classes=classes)
    maps = convolutional.pixels(image, microbatch, precision)
    stem, maps = convolutional.conv("conv1", maps, width, 7, stride=2, batch_norm=True)
    pool, maps = convolutional.pool("pool1", maps, 3, padding=1)
    layers = [stem, pool]
    for group, count in enumerate(blocks):
        for block in range(count):
            stride = 2 if group > 0 and block == 0 else 1
            maps = _append_block(layers, maps, f"conv{group + 2}_{block + 1}", width * 2**group, stride)
    mean, maps = convolutional.mean("mean", maps)
    fc, _ = convolutional.fully_connected("fc", maps, classes, dropout=False)
    return Model(f"resnet-{3 * sum(blocks) + 2}", microbatch, (*layers, mean, fc), precision)


def _append_block(layers: list[Layer], x: Image, name: str, narrow: int, stride: int) -> Image:
    """Append one block that reads the last layer, and return its output for `x`."""
    source = len(layers) - 1
    wide = narrow * _WIDER
    first, maps = convolutional.conv(f"{name}.conv1", x, narrow, 1, batch_norm=True)
    second, maps = convolutional.conv(f"{name}.conv2", maps, narrow, 3, stride=stride, batch_norm=True)
    third, maps = convolutional.conv(f"{name}.conv3", maps, wide, 1, batch_norm=True)
    layers += [first, second, third]
    skip, last = source, len(layers) - 1
    if x.channels != wide or stride > 1:
        shortcut, _ = convolutional.conv(
            f"{name}.shortcut", x, wide, 1, stride=stride, batch_norm=True, inputs=(source,)
        )
        layers.append(shortcut)
        skip = len(layers) - 1
    layers.append(convolutional.add(f"{name}.add", maps, (last, skip)))
    return maps


# He et al. (2015).
resnet_50 = of_images(resnet, "resnet-50", (3, 4, 6, 3), side=224, about="16 bottleneck blocks, 1000 classes")
resnet_101 = of_images(resnet, "resnet-101", (3, 4, 23, 3), side=224, about="33 bottleneck blocks, 1000 classes")
resnet_152 = of_images(resnet, "resnet-152", (3, 8, 36, 3), side=224, about="50 bottleneck blocks, 1000 classes")
