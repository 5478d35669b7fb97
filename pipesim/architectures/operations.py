"""Shared arithmetic of architectures: FLOPs, parameters and sizes of single operations.

A multiply-add is 2 FLOPs. Where a layer has matrix products or convolutions, they alone are its FLOPs: norms,
activation functions, dropout, biases and residual sums inside such a layer take time by the bytes they move, not by
their arithmetic. In layers without products (sums, pools, norms, embeddings), their arithmetic counts.
"""

from pipesim.base.checks import check_whole
from pipesim.base.errors import InputError, shown

PRECISIONS = {"fp16": 2, "bf16": 2, "fp32": 4, "tf32": 4, "fp8": 2}
"""Bytes of one value, parameter or activation.

tf32 is fp32 whose products run on matrix cores; fp8 is bf16 whose products with weights take operands in fp8.
"""

MASK_BYTES = 1
"""The mask of dropout, per value."""
INDEX_BYTES = 8
"""A token's id, or the position of a maximum."""
SUM_BYTES = 4
"""A sum in fp32, whatever the precision: fused attention keeps one for each row of scores."""

NORM_FLOPS = 7
"""Per value: mean 1, distance from it 1, its square summed 2, scaled by the deviation 1, gain 1, bias 1."""


def value_bytes(precision: str) -> int:
    """Bytes of one value in this precision."""
    if precision not in PRECISIONS:
        *others, last = PRECISIONS
        raise InputError(f"precision = {precision!r} found; {', '.join(others)} or {last} was expected")
    return PRECISIONS[precision]


MOST_SIZE = 2**40
MOST_LAYERS = 2**16
"""Building a model with more layers would take hours."""


def check_sizes(**sizes: object) -> None:
    """Refuse a size that is not a whole number of at least 1, or larger than that of any model, by its name."""
    for name, value in sizes.items():
        check_whole(name, value, 1, MOST_LAYERS if name.endswith("layers") else MOST_SIZE)


def check_some_sizes(**sizes: object) -> None:
    """As `check_sizes`, for those that are stated: not None."""
    check_sizes(**{name: value for name, value in sizes.items() if value is not None})


def check_flags(**flags: object) -> None:
    """Refuse a flag that is neither True nor False."""
    for name, value in flags.items():
        if not isinstance(value, bool):
            raise InputError(f"{name} = {value!r} found; True or False was expected")


def check_size_list(name: str, values: object, length: int) -> None:
    """Refuse a value that is not a list of this many whole numbers of at least 1."""
    if not isinstance(values, tuple | list) or len(values) != length:
        raise InputError(f"{name} = {shown(values)} found; {length} whole numbers were expected")
    check_sizes(**{f"{name}[{index}]": value for index, value in enumerate(values)})


def check_divides(part_name: str, part: int, whole_name: str, whole: int) -> None:
    """Refuse a number of parts that does not divide a whole."""
    if whole % part:
        raise InputError(f"{part_name} = {part} found; a divisor of {whole_name} = {whole} was expected")


def linear_flops(rows: int, inputs: int, outputs: int) -> int:
    """FLOPs of `rows` vectors, `inputs` long, times a matrix."""
    return 2 * rows * inputs * outputs


def linear_parameters(inputs: int, outputs: int) -> int:
    """A matrix and a bias."""
    return (inputs + 1) * outputs


def norm_parameters(width: int) -> int:
    """A gain and a bias for each component or channel."""
    return 2 * width


def convolution_flops(places: int, kernel_places: int, inputs: int, outputs: int) -> int:
    """FLOPs of a kernel at `places` positions, from `inputs` to `outputs` channels."""
    return 2 * places * kernel_places * inputs * outputs


def convolution_parameters(kernel_places: int, inputs: int, outputs: int) -> int:
    """The kernels, without bias."""
    return kernel_places * inputs * outputs


def places_along(size: int, kernel: int, stride: int, padding: int) -> int:
    """The positions of a kernel along a side."""
    return (size + 2 * padding - kernel) // stride + 1
