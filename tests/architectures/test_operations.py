import pytest

from pipesim.architectures import operations
from pipesim.base.errors import InputError


def test_flops_and_parameters_of_a_linear_map_and_a_convolution():
    assert operations.linear_flops(3, 4, 5) == 2 * 3 * 4 * 5
    assert operations.linear_parameters(4, 5) == 4 * 5 + 5
    assert operations.convolution_flops(10, 9, 3, 8) == 2 * 10 * 9 * 3 * 8
    assert operations.convolution_parameters(9, 3, 8) == 9 * 3 * 8
    assert operations.norm_parameters(7) == 14


@pytest.mark.parametrize(
    ("kernel", "stride", "padding", "places"), [(3, 1, 1, 8), (3, 2, 1, 4), (8, 1, 0, 1), (9, 1, 0, 0)]
)
def test_the_positions_of_a_kernel_along_a_side_of_eight(kernel, stride, padding, places):
    assert operations.places_along(8, kernel, stride, padding) == places


def test_bytes_of_a_value_by_precision():
    assert {name: operations.value_bytes(name) for name in operations.PRECISIONS} == operations.PRECISIONS
    with pytest.raises(InputError, match="precision = 'int8' found; fp16, bf16, fp32, tf32 or fp8 was expected"):
        operations.value_bytes("int8")


@pytest.mark.parametrize(
    ("check", "message"),
    [
        (lambda: operations.check_sizes(hidden=0), "hidden = 0 found; a whole number from 1"),
        (lambda: operations.check_sizes(layers=2**16 + 1), f"layers = 65537 found; a whole number from 1 to {2**16}"),
        (lambda: operations.check_flags(tied=1), "tied = 1 found; True or False"),
        (lambda: operations.check_size_list("blocks", (1, 2), 3), r"blocks = \(1, 2\) found; 3 whole numbers"),
        (lambda: operations.check_size_list("blocks", (1, 0, 2), 3), r"blocks\[1\] = 0 found"),
        (lambda: operations.check_divides("heads", 5, "hidden", 24), "heads = 5 found; a divisor of hidden = 24"),
    ],
)
def test_an_impossible_size_is_refused_by_its_name(check, message):
    with pytest.raises(InputError, match=message):
        check()
