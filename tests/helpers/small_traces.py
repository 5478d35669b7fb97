"""Small traces by hand."""

import numpy as np

from pipesim.core.trace import Trace


def trace_of(**columns):
    """Two layers with plain values, but for the given columns."""
    values = {
        "layer": [0, 1],
        "name": ["a", "b"],
        "forward_s": [1.0, 2.0],
        "backward_s": [2.0, 4.0],
        "output_bytes": [10, 20],
    }
    return Trace("m", "by hand", 4, values | columns)


def rows_of(*rows):
    """A trace of rows (layer, device kind, microbatch size, sample, forward seconds)."""
    layer, kind, size, sample, seconds = zip(*rows, strict=True)
    return trace_of(
        layer=layer,
        name=[f"layer{n}" for n in layer],
        device_kind=kind,
        microbatch_size=size,
        sample=sample,
        forward_s=seconds,
        backward_s=[0.0] * len(rows),
        output_bytes=[1] * len(rows),
    )


def sampled_trace(*layers, model="m", names=None):
    """Layers with these forward samples; the backward takes twice as long."""
    layer = np.concatenate([np.full(len(samples), index) for index, samples in enumerate(layers)])
    forward = np.concatenate([np.asarray(samples, float) for samples in layers])
    columns = {
        "layer": layer,
        "name": np.array([(names or [f"layer {n}" for n in range(len(layers))])[n] for n in layer], object),
        "sample": np.concatenate([np.arange(len(samples)) for samples in layers]),
        "forward_s": forward,
        "backward_s": 2 * forward,
        "output_bytes": np.full(len(layer), 8),
    }
    return Trace(model, "test", 1, columns)
