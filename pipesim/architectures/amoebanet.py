"""AmoebaNet: an image classifier of cells that a search found; each cell reads the two cells before it.

    stem ── stem_cell0 ── stem_cell1 ── cells ── reduction ── cells ── reduction ── cells ── mean ── fc

    states in a cell:   0 = a 1x1 convolution of the last cell's output
                        1 = a 1x1 convolution of the output of the cell before it
                        2, 3, ... = op(i) + op(j), of two earlier states i and j
                        output: some of the states, concatenated

A layer here is a cell: no stage can begin inside a cell. This is AmoebaNet-D of Real et
al., "Regularized Evolution for Image Classifier Architecture Search" (2018), in the sizes of GPipe (2018): a third of
the normal cells at each of three resolutions; a reduction halves the image and doubles the channels. Convolutions
larger than 1x1 work on a quarter of the channels, between two 1x1. The stem is simplified.
"""

from dataclasses import dataclass

from pipesim.architectures import convolutional, operations
from pipesim.architectures.convolutional import Image
from pipesim.architectures.presets import of_images
from pipesim.base.errors import InputError
from pipesim.core.model import Layer, Model

_GROUPS = 3
_HALVINGS = 32
_NARROWER = 4
_ROW, _COLUMN = (1, 7), (7, 1)

# Five sums, each of two (operation, state that it reads); then the states that are the output.
_Pair = tuple[tuple[str, int], tuple[str, int]]
_NORMAL: tuple[_Pair, ...] = (
    (("1x1", 1), ("max", 1)),
    (("same", 1), ("1x7", 0)),
    (("1x1", 0), ("1x7", 0)),
    (("max", 2), ("same", 2)),
    (("mean", 1), ("1x1", 5)),
)
_REDUCTION: tuple[_Pair, ...] = (
    (("max", 0), ("max", 0)),
    (("same", 2), ("3x3", 1)),
    (("1x7", 2), ("max", 2)),
    (("same", 3), ("max", 1)),
    (("mean", 2), ("1x1", 3)),
)
_NORMAL_OUT, _REDUCTION_OUT = (0, 3, 4, 6), (4, 5, 6)


def amoebanet(
    layers: int = 18,
    filters: int = 256,
    *,
    image: int = 224,
    classes: int = 1000,
    microbatch: int = 1,
    precision: str = "fp16",
) -> Model:
    """An AmoebaNet-D with `layers` normal cells, a multiple of 3; `filters` are the channels of a state in the first.

    `image` is a multiple of 32.
    """
    operations.check_sizes(layers=layers, filters=filters, image=image, classes=classes)
    operations.check_divides(f"{_GROUPS} groups of layers", _GROUPS, "layers", layers)
    operations.check_divides("4 * 4 parts of filters", _NARROWER**2, "filters", filters)
    if image % _HALVINGS:
        raise InputError(f"image = {image} found; a multiple of {_HALVINGS} was expected")
    pixels = convolutional.pixels(image, microbatch, precision)
    stem, first = convolutional.conv("stem", pixels, filters // _NARROWER, 3, stride=2, batch_norm=True)
    cells = _Cells([stem], first, first)
    for number, channels in enumerate((filters // 2, filters)):
        cells.append(f"stem_cell{number}", channels, reduction=True)
    for group in range(_GROUPS):
        if group:
            cells.append(f"reduction{group - 1}", filters * 2**group, reduction=True)
        for cell in range(layers // _GROUPS):
            cells.append(f"cell{group * layers // _GROUPS + cell}", filters * 2**group, reduction=False)
    mean, maps = convolutional.mean("mean", cells.last)
    fc, _ = convolutional.fully_connected("fc", maps, classes, dropout=False)
    return Model(f"amoebanet-{layers}x{filters}", microbatch, (*cells.layers, mean, fc), precision)


@dataclass(slots=True)
class _Cells:
    """The cells so far, and the outputs of the last two."""

    layers: list[Layer]
    before: Image
    last: Image

    def append(self, name: str, channels: int, *, reduction: bool) -> None:
        """One more cell, which reads the last two."""
        parts, out = _cell(self.last, self.before, channels, reduction=reduction)
        inputs = tuple(range(max(len(self.layers) - 2, 0), len(self.layers)))
        self.layers.append(_merged(name, parts, out, inputs))
        self.before, self.last = self.last, out


def _cell(last: Image, before: Image, channels: int, *, reduction: bool) -> tuple[list[Layer], Image]:
    """The operations of a cell, and its output."""
    parts: list[Layer] = []
    # The output before the last can be larger by a factor of 2: its convolution then has a stride of 2.
    states = [
        _convolved(parts, last, channels, (1,)),
        _convolved(parts, before, channels, (1,), stride=before.side // last.side),
    ]
    for pair in _REDUCTION if reduction else _NORMAL:
        images = [_operated(parts, operation, states[i], halve=reduction and i < 2) for operation, i in pair]
        parts.append(convolutional.add("sum", images[0], (0, 0)))
        states.append(images[0])
    used = [states[i] for i in (_REDUCTION_OUT if reduction else _NORMAL_OUT)]
    return parts, Image(last.microbatch, channels * len(used), used[-1].side, last.precision)


def _operated(parts: list[Layer], operation: str, state: Image, *, halve: bool) -> Image:
    """The result of an operation on a state; in a reduction, operations on the inputs of the cell halve the image."""
    stride = 2 if halve else 1
    quarter = state.channels // _NARROWER
    if operation == "1x1":
        return _convolved(parts, state, state.channels, (1,), stride=stride)
    if operation == "3x3":
        return _convolved(parts, state, quarter, (1, 3), stride=stride, wide=state.channels)
    if operation == "1x7":
        return _convolved(parts, state, quarter, (1, _ROW, _COLUMN), wide=state.channels)
    if operation in {"max", "mean"}:
        layer, image = convolutional.pool("pool", state, 3, stride=stride, padding=1, maximum=operation == "max")
        parts.append(layer)
        return image
    return state


def _convolved(
    parts: list[Layer],
    state: Image,
    channels: int,
    kernels: tuple[int | tuple[int, int], ...],
    *,
    stride: int = 1,
    wide: int | None = None,
) -> Image:
    """Convolutions to `channels` channels, the last of them with the stride, then a 1x1 to `wide` channels."""
    for kernel in kernels:
        step = stride if kernel == kernels[-1] else 1
        layer, state = convolutional.conv("conv", state, channels, kernel, stride=step, batch_norm=True)
        parts.append(layer)
    if wide:
        layer, state = convolutional.conv("conv", state, wide, 1, batch_norm=True)
        parts.append(layer)
    return state


def _merged(name: str, parts: list[Layer], out: Image, inputs: tuple[int, ...]) -> Layer:
    """All operations of a cell as one layer."""
    return Layer(
        name=name,
        kind="cell",
        output_bytes=out.bytes,
        parameter_bytes=sum(part.parameter_bytes for part in parts),
        stash_bytes=sum(part.stash_bytes for part in parts),
        inputs=inputs,
        forward_flops=float(sum(part.forward_flops or 0 for part in parts)),
    )


# The sizes that papers on pipelines measure; GPipe (2018) writes them (18, 416), (18, 544), (36, 544).
amoebanet_18x416 = of_images(amoebanet, "amoebanet-18x416", 18, 416, side=224, about="18 cells of 416 filters")
amoebanet_18x512 = of_images(amoebanet, "amoebanet-18x512", 18, 512, side=224, about="18 cells of 512 filters")
amoebanet_36x544 = of_images(amoebanet, "amoebanet-36x544", 36, 544, side=224, about="36 cells of 544 filters")
