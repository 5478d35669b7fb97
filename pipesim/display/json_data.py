"""Clusters and traces as plain data for JSON: their file form, and what follows from it."""

from typing import Any

import numpy as np

from pipesim.base import serialisation
from pipesim.core.cluster import Cluster
from pipesim.core.costs import Phase, costs_of
from pipesim.core.model import Model
from pipesim.core.trace import Trace


def cluster_data(cluster: Cluster) -> dict[str, Any]:
    """A cluster as `pipesim show --json` prints it: its file form, and the bandwidth between devices."""
    matrix = [[None if np.isinf(value) else value for value in row] for row in cluster.bandwidth_matrix.tolist()]
    head = {"format": Cluster.FORMAT, "version": Cluster.VERSION, **serialisation.to_data(cluster)}
    return head | {"bandwidth_matrix": matrix}


def trace_data(trace: Trace) -> dict[str, Any]:
    """A trace as `pipesim show --json` prints it: where it comes from, and its layers' costs by device kind."""
    costs = costs_of(trace)
    layers = [serialisation.to_data(layer) for layer in costs.model.layers]
    phases: tuple[Phase, ...] = ("forward", "backward")
    return {
        "model": trace.model,
        "source": trace.source,
        "machine": trace.machine,
        "microbatch_size": trace.microbatch_size,
        "device_kinds": list(trace.device_kinds),
        "widths": [widths.by_name for widths in trace.widths],
        "sequence": trace.sequence or None,
        "sequence_parallel": trace.sequence_parallel,
        "layers": layers,
        "seconds": {kind: {phase: costs.seconds(phase, kind).tolist() for phase in phases} for kind in costs.kinds},
    }


def model_data(model: Model) -> dict[str, Any]:
    """What `pipesim show` prints of a model, with all layers; bytes and FLOPs are of one microbatch."""
    return {
        "model": model.name,
        "precision": model.precision,
        "microbatch_size": model.microbatch_size,
        "parameter_bytes": int(model.parameter_bytes.sum()),
        "forward_flops": model.forward_flops,
        "stash_bytes": float(model.stash_bytes.sum()),
        "layers": [
            {
                "name": layer.name,
                "kind": layer.kind,
                "parameter_bytes": layer.parameter_bytes,
                "forward_flops": layer.forward_flops,
                "stash_bytes": layer.stash_bytes,
                "output_bytes": layer.output_bytes,
                "inputs": list(model.inputs(index)),
            }
            for index, layer in enumerate(model.layers)
        ],
    }
