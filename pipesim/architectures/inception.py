"""Inception-V3: modules of parallel branches, whose outputs are concatenated.

              ┌─ 1x1 ───────────────┐
              ├─ 1x1 ── 5x5 ────────┤
    module: ──┤                     ├── concat        a letter for each type of module: A B C D E
              ├─ 1x1 ── 3x3 ── 3x3 ─┤
              └─ pool ── 1x1 ───────┘

    stem ── A A A ── B ── C C C C ── D ── E E ── mean ── fc
                              └── auxiliary classifier, for training only

Szegedy et al., "Rethinking the Inception Architecture for Computer Vision" (2015), as in torchvision: branches
are in the order of their concatenation, each with all of its layers.
"""

from pipesim.architectures import convolutional, operations
from pipesim.architectures.network import LayerOutput, NetworkBuilder
from pipesim.core.model import Model

# A branch is a chain of (channels, kernel, stride); stride 2 is not padded, so it halves an odd side.
_Step = tuple[int, int | tuple[int, int], int]
_ROW, _COLUMN = (1, 7), (7, 1)


def inception_v3(
    *, image: int = 299, classes: int = 1000, auxiliary: bool = True, microbatch: int = 1, precision: str = "fp16"
) -> Model:
    """Inception-V3, by default with its auxiliary classifier, which reads the last C."""
    operations.check_sizes(classes=classes)
    operations.check_flags(auxiliary=auxiliary)
    network = NetworkBuilder()
    x = _stem(network, LayerOutput(-1, convolutional.pixels(image, microbatch, precision)))
    for number, pooled in enumerate((32, 64, 64)):
        x = _module_a(network, f"A{number}", x, pooled)
    x = _module_b(network, "B", x)
    for number, narrow in enumerate((128, 160, 160, 192)):
        x = _module_c(network, f"C{number}", x, narrow)
    if auxiliary:
        _classifier(network, x, classes)
    x = _module_d(network, "D", x)
    for number in range(2):
        x = _module_e(network, f"E{number}", x)
    x = network.mean("mean", x)
    network.fully_connected("fc", classes, dropout=False, read=x)
    return Model("inception-v3", microbatch, tuple(network.layers), precision)


def _stem(network: NetworkBuilder, x: LayerOutput) -> LayerOutput:
    x = network.conv("conv1", x, 32, 3, stride=2, padding=0)
    x = network.conv("conv2", x, 32, 3, padding=0)
    x = network.conv("conv3", x, 64, 3)
    x = network.pool("pool3", x, 3)
    x = network.conv("conv4", x, 80, 1)
    x = network.conv("conv5", x, 192, 3, padding=0)
    return network.pool("pool5", x, 3)


def _chain(network: NetworkBuilder, name: str, x: LayerOutput, *steps: _Step) -> LayerOutput:
    """One convolution after the other."""
    for number, (channels, kernel, stride) in enumerate(steps, 1):
        padding = None if stride == 1 else 0
        x = network.conv(f"{name}.conv{number}", x, channels, kernel, stride=stride, padding=padding)
    return x


def _pooled(network: NetworkBuilder, name: str, x: LayerOutput, channels: int) -> LayerOutput:
    """The mean around each position, then a convolution."""
    mean = network.pool(f"{name}.pool", x, 3, stride=1, padding=1, maximum=False)
    return network.conv(f"{name}.conv", mean, channels, 1)


def _module_a(network: NetworkBuilder, name: str, x: LayerOutput, pooled: int) -> LayerOutput:
    branches = [
        _chain(network, f"{name}.one", x, (64, 1, 1)),
        _chain(network, f"{name}.five", x, (48, 1, 1), (64, 5, 1)),
        _chain(network, f"{name}.double", x, (64, 1, 1), (96, 3, 1), (96, 3, 1)),
        _pooled(network, f"{name}.mean", x, pooled),
    ]
    return network.concat(f"{name}.concat", branches)


def _module_b(network: NetworkBuilder, name: str, x: LayerOutput) -> LayerOutput:
    branches = [
        _chain(network, f"{name}.three", x, (384, 3, 2)),
        _chain(network, f"{name}.double", x, (64, 1, 1), (96, 3, 1), (96, 3, 2)),
        network.pool(f"{name}.pool", x, 3),
    ]
    return network.concat(f"{name}.concat", branches)


def _module_c(network: NetworkBuilder, name: str, x: LayerOutput, narrow: int) -> LayerOutput:
    long: tuple[_Step, ...] = (
        (narrow, 1, 1), (narrow, _COLUMN, 1), (narrow, _ROW, 1), (narrow, _COLUMN, 1), (192, _ROW, 1)
    )  # fmt: skip
    branches = [
        _chain(network, f"{name}.one", x, (192, 1, 1)),
        _chain(network, f"{name}.seven", x, (narrow, 1, 1), (narrow, _ROW, 1), (192, _COLUMN, 1)),
        _chain(network, f"{name}.double", x, *long),
        _pooled(network, f"{name}.mean", x, 192),
    ]
    return network.concat(f"{name}.concat", branches)


def _module_d(network: NetworkBuilder, name: str, x: LayerOutput) -> LayerOutput:
    branches = [
        _chain(network, f"{name}.three", x, (192, 1, 1), (320, 3, 2)),
        _chain(network, f"{name}.seven", x, (192, 1, 1), (192, _ROW, 1), (192, _COLUMN, 1), (192, 3, 2)),
        network.pool(f"{name}.pool", x, 3),
    ]
    return network.concat(f"{name}.concat", branches)


def _module_e(network: NetworkBuilder, name: str, x: LayerOutput) -> LayerOutput:
    """Two branches fork once more at their end, into a row and a column."""
    one = _chain(network, f"{name}.one", x, (320, 1, 1))
    three = _forked(network, f"{name}.three", x, (384, 1, 1))
    double = _forked(network, f"{name}.double", x, (448, 1, 1), (384, 3, 1))
    return network.concat(f"{name}.concat", [one, *three, *double, _pooled(network, f"{name}.mean", x, 192)])


def _forked(network: NetworkBuilder, name: str, x: LayerOutput, *steps: _Step) -> list[LayerOutput]:
    trunk = _chain(network, name, x, *steps)
    return [
        network.conv(f"{name}.{side}", trunk, 384, kernel) for side, kernel in (("row", (1, 3)), ("column", (3, 1)))
    ]


def _classifier(network: NetworkBuilder, x: LayerOutput, classes: int) -> None:
    x = network.pool("auxiliary.pool", x, 5, stride=3, maximum=False)
    x = network.conv("auxiliary.conv1", x, 128, 1)
    x = network.conv("auxiliary.conv2", x, 768, 5, padding=0)
    x = network.mean("auxiliary.mean", x)
    network.fully_connected("auxiliary.fc", classes, dropout=False, read=x)
