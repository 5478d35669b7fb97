"""A builder of convolutional networks: each method appends a layer that reads earlier outputs."""

from dataclasses import dataclass, field

from pipesim.architectures import convolutional
from pipesim.architectures.convolutional import Image
from pipesim.core.model import Layer


@dataclass(frozen=True, slots=True)
class LayerOutput:
    """The output of a layer. `layer` is -1 for the images that the network reads."""

    layer: int
    image: Image


@dataclass(slots=True)
class NetworkBuilder:
    """The layers so far, all with batch norm. Each method appends one layer and returns its output."""

    layers: list[Layer] = field(default_factory=list)

    def conv(
        self,
        name: str,
        read: LayerOutput,
        channels: int,
        kernel: int | tuple[int, int],
        *,
        stride: int = 1,
        padding: int | None = None,
    ) -> LayerOutput:
        """A convolution with batch norm and ReLU."""
        made = convolutional.conv(
            name, read.image, channels, kernel, stride=stride, padding=padding, batch_norm=True, inputs=self._from(read)
        )
        return self._append(*made)

    def pool(
        self, name: str, read: LayerOutput, kernel: int, *, stride: int = 2, padding: int = 0, maximum: bool = True
    ) -> LayerOutput:
        """The maximum, or the mean, of each square."""
        made = convolutional.pool(
            name, read.image, kernel, stride=stride, padding=padding, maximum=maximum, inputs=self._from(read)
        )
        return self._append(*made)

    def mean(self, name: str, read: LayerOutput) -> LayerOutput:
        """The mean of each map."""
        return self._append(*convolutional.mean(name, read.image, self._from(read)))

    def concat(self, name: str, read: list[LayerOutput]) -> LayerOutput:
        """The channels of several outputs, one after the other."""
        images, inputs = [one.image for one in read], tuple(one.layer for one in read)
        return self._append(*convolutional.concat(name, images, inputs))

    def fully_connected(self, name: str, outputs: int, *, dropout: bool, read: LayerOutput) -> LayerOutput:
        """A linear layer on an output."""
        return self._append(*convolutional.fully_connected(name, read.image, outputs, dropout=dropout))

    def _append(self, layer: Layer, image: Image) -> LayerOutput:
        self.layers.append(layer)
        return LayerOutput(len(self.layers) - 1, image)

    def _from(self, read: LayerOutput) -> tuple[int, ...] | None:
        """The `inputs` of a layer: None if it reads the layer before it."""
        return None if read.layer == len(self.layers) - 1 else (read.layer,)
