"""Layers and times for tests of rooflines."""

from pipesim.architectures.efficiency import Curve
from pipesim.core.model import Model

# A V100: 125 TFLOP/s in fp16, half of it used; 900 GB/s. In one second 62.5e12 FLOPs or 900e9 bytes.
FLOPS, BYTES = 62.5e12, 900e9


def model(*layers, precision="fp16"):
    return Model("toy", 1, layers, precision)


def seconds(trace, layer, kind="v100-16gb"):
    """Forward, gradient of the input, gradient of the weights, recompute."""
    table = trace.layers
    row = ((table["layer"] == layer) & (table["device_kind"] == kind)).nonzero()[0].item()
    return [
        float(table[name][row]) for name in ("forward_s", "backward_input_s", "backward_weight_s", "recompute_s")
    ]  # fmt: skip


CURVE = Curve(product=0.5, convolution=0.8, memory=0.25, start_s=0.125)
