import numpy as np
import pytest

from pipesim.core.trace import Trace
from pipesim.recorders import noise


def test_mad_and_scatter_are_those_of_a_worked_example():
    """1 2 3 4 9: median 3, distances 2 1 0 1 6, their median 1."""
    assert noise.mad(np.array([[1.0], [2.0], [3.0], [4.0], [9.0]])) == [1.0]
    assert noise.scatter(np.array([[1.0], [2.0], [3.0], [4.0], [9.0]])) == pytest.approx([1 / 3])
    assert noise.scatter(np.zeros((3, 1))) == [0.0]


def test_the_noise_of_a_trace_is_that_of_each_layer_at_each_size():
    """Layer b at size 2: forwards 1 2 3 (MAD 1), backwards 4 4 7 (MAD 0)."""
    rows = [(0, 4), (1, 4), (0, 2), (1, 2)]
    table = {
        "layer": [layer for _ in range(3) for layer, _ in rows],
        "name": ["ab"[layer] for _ in range(3) for layer, _ in rows],
        "microbatch_size": [size for _ in range(3) for _, size in rows],
        "sample": [sample for sample in range(3) for _ in rows],
        "forward_s": [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 2.0, 1.0, 1.0, 1.0, 3.0],
        "backward_s": [1.0, 1.0, 1.0, 4.0, 1.0, 1.0, 1.0, 4.0, 1.0, 1.0, 1.0, 7.0],
        "output_bytes": [size for _ in range(3) for _, size in rows],
    }
    found = {(one.name, one.microbatch_size): one for one in noise.noise(Trace("m", "by hand", 4, table))}
    assert set(found) == {("a", 4), ("b", 4), ("a", 2), ("b", 2)}
    assert found["b", 2].seconds() == (2.0, 1.0, 4.0, 0.0)
    assert found["b", 2].scatter == 0.5
    assert found["a", 4].scatter == 0.0
    assert {one.samples for one in found.values()} == {3}
