"""A row of measured runs -> its iteration, in closed form: what the fit of a device's constants needs, and no more.

    1F1B         m microbatches of the slowest stage, and one of each other stage (of 1/v with v chunks)
    replicas     a ring over the NICs that they reach, after the last backward; gradients in 2 bytes
    optimizer    Adam, over the replicas if it is sharded
    transfers    left out: the rows that are fitted spend next to no time on them

Blocks are divided as evenly as possible, the first stages have one more; the embedding is on the first stage, head and
loss on the last. Where a source leaves something open, the rules are those of experiments/validation.
"""

import csv
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pipesim.architectures.device_curves import DeviceCurve, Speed
from pipesim.architectures.gpt import gpt
from pipesim.architectures.llama import llama
from pipesim.architectures.operations import value_bytes
from pipesim.architectures.roofline import ADAM_MOVED, LINK_DELAY_S, PHASES
from pipesim.architectures.team_links import NCCL_EFFICIENCY, NCCL_STEP_S, TeamLink
from pipesim.core.devices import DeviceKind, device_kind
from pipesim.core.model import Layer

HERE = Path(__file__).resolve().parent
MEASURED = Path(os.environ.get("PIPESIM_DATA") or HERE.parents[2] / "shared") / "measured"

Row = Mapping[str, str]

# GPU of a source -> kind of device.
KINDS = {
    "A100": "a100-80gb",
    "A100-80GB": "a100-80gb",
    "A100-40GB?": "a100-40gb",
    "V100-16GB": "v100-16gb",
    "V100-32GB": "v100-32gb",
    "B200": "b200-180gb",
    "H100-80GB": "h100-80gb",
}
# Source -> bytes/s of all NICs of a node: vTrain's configuration, 8 HDR ports of a DGX A100, and of H100s NDR.
NETWORK = {"vtrain": 100e9, "megatron_published": 200e9, "simumax": 400e9, "mlperf": 400e9}


def read(source: str) -> list[Row]:
    """The usable rows of a source, each measurement once."""
    with (MEASURED / source / "rows.csv").open(newline="") as file:
        rows: list[Row] = list(csv.DictReader(file))
    return [row for row in rows if row["usable"] == "1" and not row.get("duplicate_of")]


def whole(row: Row, name: str, otherwise: int = 0) -> int:
    """A whole number in a row."""
    return int(float(row[name])) if row.get(name) else otherwise


def microbatch(row: Row) -> int:
    """As stated; by the rule 4 without a pipeline and 1 with one."""
    return whole(row, "microbatch", 4 if whole(row, "pp") == 1 else 1)


def chunks(row: Row) -> int:
    """As stated; the tables of April 2021 have the least number that divides the blocks of a stage, if Megatron can."""
    stages, count = whole(row, "pp"), whole(row, "global_batch") // whole(row, "dp") // microbatch(row)
    if row["vpp"] or row.get("group") != "apr2021" or stages == 1 or count % stages:
        return whole(row, "vpp", 1)
    each = whole(row, "layers") // stages
    return next((n for n in range(2, each + 1) if each % n == 0), 1)


@cache
def layers_of(  # noqa: PLR0917 - sizes, in the order of TransformerShape
    family: str, hidden: int, heads: int, sequence: int, samples: int, width: int, more: tuple[tuple[str, int], ...]
) -> tuple[Layer, ...]:
    """Embedding, attention, mlp, norm and head of a model, on one of `width` GPUs."""
    sizes = dict(more)
    vocabulary = -(-sizes.pop("vocabulary") // (128 * width)) * 128 * width
    common = {"vocabulary": vocabulary, "sequence": sequence, "microbatch": samples, "tensor_parallel": width}
    parallel = bool(sizes.pop("sequence_parallel"))
    if family == "llama":
        return llama(1, hidden, heads, **sizes, **common, sequence_parallel=parallel, fused_loss=True).layers
    return gpt(1, hidden, heads, **common, sequence_parallel=parallel, fused_attention=bool(sizes["fused"])).layers


def layers_in(row: Row) -> tuple[Layer, ...]:
    """The layers of a row's model."""
    family = "llama" if "llama" in row["model"] else "gpt"
    more = {"vocabulary": whole(row, "vocab", 51200), "sequence_parallel": int(row["sequence_parallel"] == "1")}
    if family == "llama":
        more |= {"inner": whole(row, "ffn"), "key_heads": whole(row, "kv_heads")}
    else:
        more["fused"] = int(row["gpu"].startswith("H100"))
    names = ("hidden", "heads", "sequence")
    sizes = [whole(row, name, 2048) for name in names]
    return layers_of(family, *sizes, microbatch(row), whole(row, "tp"), tuple(more.items()))


@dataclass(frozen=True, slots=True)
class Fitted:
    """What is fitted: a device's curve, and the bytes/s of a network that no source states."""

    curve: DeviceCurve
    network: float = 0.0


def seconds(row: Row, fitted: Fitted, source: str) -> float:
    """The time of an iteration."""
    kind, width, per_node = device_kind(KINDS[row["gpu"]]), whole(row, "tp"), whole(row, "gpus_per_node")
    precision = "fp8" if row["precision"].startswith("fp8") else row["precision"].partition("/")[0]
    speed = Speed.of(fitted.curve, kind, precision, value_bytes(precision))
    network = NETWORK[source] * NCCL_EFFICIENCY if source in NETWORK else fitted.network
    inside = TeamLink(kind.interconnect * NCCL_EFFICIENCY, LINK_DELAY_S + NCCL_STEP_S)
    across = TeamLink(network * min(width, per_node) / per_node, 2 * LINK_DELAY_S + NCCL_STEP_S, -(-width // per_node))
    team = inside if width <= per_node else across
    embedding, attention, mlp, norm, head = (phases(layer, speed, team, width) for layer in layers_in(row))
    again = attention[0] + mlp[0] if row["recompute"] == "full" else 0.0
    block = sum(attention) + sum(mlp) + again
    count, stages = whole(row, "layers"), whole(row, "pp")
    times = [(count // stages + (n < count % stages)) * block for n in range(stages)]
    times[0] += sum(embedding)
    times[-1] += sum(norm) + sum(head)
    batches = whole(row, "global_batch") // (microbatch(row) * whole(row, "dp"))
    slowest = max(times)
    steady = batches * slowest + (sum(times) - slowest) / chunks(row)
    return steady + after(row, speed, kind, network)


def phases(layer: Layer, speed: Speed, team: TeamLink, width: int) -> tuple[float, ...]:
    """Forward and both gradients of a layer, with the exchanges of its team."""
    work = layer.work
    if work is None:
        raise TypeError(f"{layer.name} states no operations")
    return tuple(
        sum(speed.seconds(one, phase) for one in work.operations)
        + sum(team.seconds(one.collective, one.bytes, width) for one in work.exchanges if one.phase == phase)
        for phase in PHASES
    )


def after(row: Row, speed: Speed, kind: DeviceKind, network: float) -> float:
    """Seconds from the last backward to the end: gradients and parameters of the replicas, the optimizer's step."""
    embedding, attention, mlp, *_ = layers_in(row)
    stages, width, replicas = whole(row, "pp"), whole(row, "tp"), whole(row, "dp")
    blocks = -(-whole(row, "layers") // stages)
    held = blocks * (attention.parameter_bytes + mlp.parameter_bytes) + embedding.parameter_bytes
    per_node = whole(row, "gpus_per_node")
    reached = max(1, min(replicas, per_node // width))
    rate = kind.interconnect * NCCL_EFFICIENCY
    if whole(row, "gpus") > per_node:
        rate = network * reached / per_node
    ring = TeamLink(rate).seconds("all_reduce", held, replicas)
    shards = replicas if row["zero_stage"] == "1" or row["distributed_optimizer"] == "1" else 1
    step = ADAM_MOVED * held / 2 / shards / (speed.memory_bandwidth * speed.curve.memory)
    return ring + step
