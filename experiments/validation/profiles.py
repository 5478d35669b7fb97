"""Profiled times that belong to rows, as traces: those of zero_bubble by stage, those of sailor by layer.

zero_bubble   F, I, W of the median stage, which has k blocks: each block gets 1/k. First and last stage have
              k - 1; the embedding, and the final norm with the head, count as a block each, which is why the paper
              leaves out a block there
sailor        forward, backward of 26 layers at microbatch sizes 1 to 128, tensor width 4

Sizes of layers are those of the architecture, or of the profile.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache

import numpy as np
from numpy.typing import NDArray
from tables import Row, number, read, whole

from pipesim.architectures.roofline import roofline
from pipesim.core.model import Model
from pipesim.core.trace import OptimizerStep, Trace

PHASES = {
    "forward_s": "profiled_forward_s",
    "backward_input_s": "profiled_backward_input_s",
    "backward_weight_s": "profiled_backward_weight_s",
    "recompute_s": "profiled_forward_s",
}


def of_stages(row: Row, model: Model, profile: Row, *, others: str = "as blocks") -> Trace:
    """The sizes of the model's layers with the profiled times of another row, or of this one.

    `others`: embedding, and norm with head, count as a block each ("as blocks"), or have computed times ("computed").
    """
    trace = roofline(model, ["a100-80gb"], efficiency="device")
    share = _shares([layer.name for layer in model.layers], others) / ((whole(row, "layers") + 2) / whole(row, "pp"))
    timed = {
        phase: np.where(np.isnan(share), trace.layers[phase], share * float(number(profile, name) or 0))
        for phase, name in PHASES.items()
    }
    return replace(
        trace,
        source="profile",
        layers=trace.layers | timed,
        machine="times of the median stage as published (table 9 of the zero-bubble paper), in equal parts for each "
        "of its blocks",
    )


def _shares(names: Sequence[str], others: str) -> NDArray[np.float64]:
    """The part of a block that each layer is; nan where it was not profiled."""
    parts = {"attention": 0.5, "mlp": 0.5}
    if others == "as blocks":
        parts |= {"embedding": 1.0, "norm": 0.0, "head": 1.0}
    return np.array([parts.get(name.partition(".")[2] or name, np.nan) for name in names])


def profile_of(row: Row, rows: Sequence[Row]) -> Row | None:
    """The row itself if it has profiled times; else one of the same layers, stages and microbatch size."""
    keys = ("layers", "pp", "microbatch")
    same = (other for other in (row, *rows) if all(other[key] == row[key] for key in keys))
    return next((other for other in same if other["profiled_forward_s"]), None)


@cache
def of_layers() -> Trace:
    """Sailor's profile of OPT-350 on a GH200 at tensor width 4, per GPU."""
    sizes: Mapping[str, Row] = {row["layer"]: row for row in read("sailor_layer_sizes")}
    profile = read("sailor_profiles")
    columns: dict[str, list[int | float | str]] = {
        name: []
        for name in (
            "layer", "name", "device_kind", "microbatch_size", "forward_s", "backward_s", "output_bytes",
            "parameter_bytes", "stash_bytes", "tensor",
        )
    }  # fmt: skip
    names = ("embedding", *(f"block{n}" for n in range(24)), "head")
    for row in profile:
        layer, samples, size = whole(row, "layer"), whole(row, "microbatch"), sizes[row["layer"]]
        values = (
            layer, names[layer], "any", samples, float(row["forward_s"]), float(row["backward_s"]),
            samples * whole(size, "output_bytes"), whole(size, "parameter_bytes"),
            samples * whole(size, "activation_bytes"), whole(row, "tp"),
        )  # fmt: skip
        for name, value in zip(columns, values, strict=True):
            columns[name].append(value)
    ones = [row for row in profile if row["microbatch"] == "1"]
    parameters = sum(whole(size, "parameter_bytes") for size in sizes.values())
    step = sum(float(row["update_s"]) for row in ones) / parameters
    return Trace(
        model="opt-350",
        source="profile",
        microbatch_size=1,
        layers={name: np.array(values) for name, values in columns.items()},
        machine="GH200 of Alps, 4 per node; layers at tensor width 4 as published by Sailor",
        optimizers=(OptimizerStep("adam", step, 2.0),),
    )
