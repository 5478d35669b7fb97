"""AlexNet: five convolutions, of which three are followed by a pool, then three linear layers.

    conv1 ── pool1 ── conv2 ── pool2 ── conv3 ── conv4 ── conv5 ── pool5 ── fc6 ── fc7 ── fc8

The variant of torchvision: a single column, 64 channels in the first layer, no local response norms.
"""

from pipesim.architectures import convolutional, operations
from pipesim.core.model import Layer, Model

# Channels, kernel, stride, padding, and whether a pool of 3x3 follows.
_CONVOLUTIONS = ((64, 11, 4, 2, True), (192, 5, 1, 2, True), (384, 3, 1, 1, False), (256, 3, 1, 1, False), (256, 3, 1, 1, True))  # fmt: skip  # noqa: E501
_HIDDEN = 4096


def alexnet(*, image: int = 224, classes: int = 1000, microbatch: int = 1, precision: str = "fp16") -> Model:
    """AlexNet for images of this side; the first linear layer reads the whole output of the last pool."""
    operations.check_sizes(classes=classes)
    maps = convolutional.pixels(image, microbatch, precision)
    layers: list[Layer] = []
    for number, (channels, kernel, stride, padding, pooled) in enumerate(_CONVOLUTIONS, 1):
        layer, maps = convolutional.conv(
            f"conv{number}", maps, channels, kernel, stride=stride, padding=padding, batch_norm=False
        )
        layers.append(layer)
        if pooled:
            layer, maps = convolutional.pool(f"pool{number}", maps, 3)
            layers.append(layer)
    for number, outputs in ((6, _HIDDEN), (7, _HIDDEN), (8, classes)):
        layer, maps = convolutional.fully_connected(f"fc{number}", maps, outputs, dropout=number < 8)
        layers.append(layer)
    return Model("alexnet", microbatch, tuple(layers), precision)
