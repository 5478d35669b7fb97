"""The layers of convolutional networks.

    b samples   c, c' channels in and out   k × k kernel   q places of the kernel in one image   p bytes of a value

    layer   forward FLOPs   parameters                  kept for the backward (stash)
    conv    2bqk²cc'        k²cc' + c' (bias)           input
            2bqk²cc'        k²cc' + 2c' (batch norm)    input, and the norm's input (as large as the output)
    pool    k²bqc           none                        input, and 8 bytes for the place of each maximum (mean: none)
    mean    bqc (input)     none                        input
    add     bqc             none                        nothing
    concat  none            none                        nothing
    fc      2bcc'           cc' + c'                    input and output (for ReLU or the loss), dropout's mask

Batch norm and ReLU are part of the layer that they follow. ReLU works in place: its output is kept as the input of the
layers that read it. A tensor that two layers keep counts for both, since they can be on different devices.
"""

from dataclasses import dataclass

from pipesim.architectures import operations
from pipesim.architectures.operations import INDEX_BYTES, MASK_BYTES
from pipesim.base.errors import InputError
from pipesim.core.model import Layer


@dataclass(frozen=True, slots=True)
class Image:
    """The data between two layers: square maps in channels, for each sample of a microbatch."""

    microbatch: int
    channels: int
    side: int
    precision: str

    @property
    def value(self) -> int:
        """Bytes of one value."""
        return operations.value_bytes(self.precision)

    @property
    def places(self) -> int:
        """Places in all maps of one channel."""
        return self.microbatch * self.side**2

    @property
    def values(self) -> int:
        """Values in all channels."""
        return self.places * self.channels

    @property
    def bytes(self) -> int:
        """Bytes of all values."""
        return self.values * self.value

    def seen_by(self, name: str, kernel: int, stride: int, padding: int, channels: int) -> "Image":
        """The image after a kernel."""
        side = operations.places_along(self.side, kernel, stride, padding)
        if side < 1:
            raise InputError(f"image is too small: at {name} its side is {self.side}, and the kernel is {kernel}")
        return Image(self.microbatch, channels, side, self.precision)


def pixels(image: int, microbatch: int, precision: str) -> Image:
    """The colour images that a network reads."""
    operations.check_sizes(image=image, microbatch=microbatch)
    operations.value_bytes(precision)
    return Image(microbatch, 3, image, precision)


def conv(
    name: str,
    image: Image,
    channels: int,
    kernel: int | tuple[int, int],
    *,
    stride: int = 1,
    padding: int | None = None,
    batch_norm: bool,
    inputs: tuple[int, ...] | None = None,
) -> tuple[Layer, Image]:
    """A convolution with a bias or a batch norm; by default padded so that only the stride reduces the image.

    A kernel of two sizes keeps the size of the image.
    """
    if isinstance(kernel, tuple):
        out, places = Image(image.microbatch, channels, image.side, image.precision), kernel[0] * kernel[1]
    else:
        edge = kernel // 2 if padding is None else padding
        out, places = image.seen_by(name, kernel, stride, edge, channels), kernel * kernel
    weights = operations.convolution_parameters(places, image.channels, channels)
    others = operations.norm_parameters(channels) if batch_norm else channels
    layer = Layer(
        name=name,
        kind="conv",
        output_bytes=out.bytes,
        parameter_bytes=(weights + others) * image.value,
        stash_bytes=image.bytes + (out.bytes if batch_norm else 0),
        inputs=inputs,
        forward_flops=float(operations.convolution_flops(out.places, places, image.channels, channels)),
    )
    return layer, out


def pool(
    name: str,
    image: Image,
    kernel: int,
    *,
    stride: int = 2,
    padding: int = 0,
    maximum: bool = True,
    inputs: tuple[int, ...] | None = None,
) -> tuple[Layer, Image]:
    """The maximum, or the mean, of each square."""
    out = image.seen_by(name, kernel, stride, padding, image.channels)
    layer = Layer(
        name=name,
        kind="pool",
        output_bytes=out.bytes,
        stash_bytes=image.bytes + (out.values * INDEX_BYTES if maximum else 0),
        inputs=inputs,
        forward_flops=float(kernel * kernel * out.values),
    )
    return layer, out


def mean(name: str, image: Image, inputs: tuple[int, ...] | None = None) -> tuple[Layer, Image]:
    """The mean of each map."""
    out = Image(image.microbatch, image.channels, 1, image.precision)
    layer = Layer(
        name=name,
        kind="pool",
        output_bytes=out.bytes,
        stash_bytes=image.bytes,
        inputs=inputs,
        forward_flops=float(image.values),
    )
    return layer, out


def add(name: str, image: Image, inputs: tuple[int, int]) -> Layer:
    """The sum of two layers' outputs."""
    return Layer(name=name, kind="add", output_bytes=image.bytes, inputs=inputs, forward_flops=float(image.values))


def concat(name: str, images: list[Image], inputs: tuple[int, ...]) -> tuple[Layer, Image]:
    """The channels of several layers' outputs, one after the other."""
    out = Image(images[0].microbatch, sum(image.channels for image in images), images[0].side, images[0].precision)
    return Layer(name=name, kind="concat", output_bytes=out.bytes, inputs=inputs, forward_flops=0.0), out


def fully_connected(name: str, image: Image, outputs: int, *, dropout: bool) -> tuple[Layer, Image]:
    """Every output from every value of a sample."""
    values = image.values // image.microbatch
    out = Image(image.microbatch, outputs, 1, image.precision)
    layer = Layer(
        name=name,
        kind="fc",
        output_bytes=out.bytes,
        parameter_bytes=operations.linear_parameters(values, outputs) * image.value,
        stash_bytes=image.bytes + out.bytes + (out.values * MASK_BYTES if dropout else 0),
        forward_flops=float(operations.linear_flops(image.microbatch, values, outputs)),
    )
    return layer, out
