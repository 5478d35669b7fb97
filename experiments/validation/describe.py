"""A row -> the description of its simulation: fields of `Simulation`, by the rules of README.md.

Each source has a function `NAME(row, **choice) -> dict`; its keywords are what the source leaves open, with the rule as
the default. `OTHERS` lists the other plausible choices, of which each is tried alone.
"""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import layouts
import profiles
from tables import Row, number, read, whole

from pipesim.architectures import ARCHITECTURES
from pipesim.base import lookup
from pipesim.core.devices import device_kind
from pipesim.studies.simulation import FRAMEWORKS

Description = dict[str, Any]

SCHEDULERS = {"zb_1p": "zb_1p", "zb_2p": "zb_2p", "zb_v": "zb_v"}
NVSWITCH_A100 = "300 GB/s"
# Clocks of an A100: its boost, and what its power limit sustains under HPL (glennklockwood.com/garden/peak-FLOPS).
BOOST_MHZ, SUSTAINED_MHZ = 1410, 1305
# What each message between stages takes in Sailor's engine beside its links: fitted on all of its rows with pipelines.
SAILOR_HOST_S = 3.1e-3
# Bytes/s of a node's network on Jean Zay: of 4 Omni-Path links, and what its users' all-reduces reached.
JEAN_ZAY = {
    "hardware": {"A100": "100 Gb/s", "V100": "100 Gb/s"},
    "two nodes": {"A100": "33.75 Gb/s", "V100": "33.75 Gb/s"},
    "four nodes": {"A100": "10.14 Gb/s", "V100": "21.1 Gb/s"},
}


def servers(shape: tuple[int, int], intra: str, inter: str, nics: int, device: str) -> str:
    """A cluster as an expression; a machine that is not full is one node of what is used."""
    return f"servers({shape[0]}, {shape[1]}, {intra!r}, {inter!r}, nics={nics}, device={device!r})"


def nodes_of(row: Row) -> tuple[int, int]:
    """Nodes, and GPUs of each."""
    gpus, per_node = whole(row, "gpus"), whole(row, "gpus_per_node")
    return (1, gpus) if gpus < per_node else (-(-gpus // per_node), per_node)


def model(family: str, row: Row, vocabulary: int, **sizes: Any) -> str:  # noqa: ANN401 - sizes of an architecture
    """An architecture with its sizes as an expression."""
    given = "".join(f", {name}={value}" for name, value in {"vocabulary": vocabulary, **sizes}.items())
    return f"{family}({row['layers']}, {row['hidden']}, {row['heads']}{given})"


def common(row: Row, framework: str, **fields: Any) -> Description:  # noqa: ANN401 - fields of Simulation
    """What all descriptions have."""
    made: Description = {
        "framework": framework,
        "tensor": whole(row, "tp"),
        "pipeline": whole(row, "pp"),
        "data": whole(row, "dp"),
        "interleave": whole(row, "vpp", 1),
        "global_batch": whole(row, "global_batch"),
        "microbatch_size": whole(row, "microbatch", 0),
        "sequence": whole(row, "sequence"),
        "precision": row.get("precision") or "fp16",
        "sequence_parallel": row.get("sequence_parallel") == "1",
        "recompute": row.get("recompute") or "none",
        "sharding": "zero1" if "1" in {row.get("zero_stage"), row.get("distributed_optimizer")} else "none",
    } | fields
    if "scheduler" not in made and made["interleave"] > 1:
        made["scheduler"] = "interleaved"
    return made


TENSORS_ONLY = {"reserve": 0}  # memory of these rows is what PyTorch has allocated, without CUDA and NCCL
# PyTorch had reserved so many times what it had allocated, on 624 ranks of BigScience's logs (memory_by_rank.csv).
CACHED = 1.215


def shown_bytes(row: Row, peak: int) -> int:
    """What `nvidia-smi` shows of a run that has allocated this peak: freed blocks too, up to its device's memory."""
    reserve = FRAMEWORKS["deepspeed"]["reserve"]
    return min(round((peak - reserve) * CACHED + reserve), device_kind(row["gpu"].lower()).memory)


def is_shown(source: str, row: Row) -> bool:
    """Whether the memory of a row is that of `nvidia-smi`: BigScience's tables, not its logs."""
    return source == "bigscience" and not row["id"].startswith("log_")


def zero_bubble(
    row: Row,
    *,
    vocabulary: int = 32000,
    fused: bool = False,
    message: str = "delay",
    others: str = "as blocks",
    clock: str = "sustained",
    unit: float = 1e9,
) -> Description:
    """Stages with profiled times where there are any; else computed."""
    del unit  # of memory, for the scores
    expression = model("gpt", row, vocabulary, tied=False, fused_attention=fused)
    profile = profiles.profile_of(row, _rows("zero_bubble"))
    blocks = layouts.padded(row)
    scheduler = SCHEDULERS.get(row["schedule"], "one_f_one_b" if whole(row, "vpp") == 1 else "interleaved")
    if scheduler == "interleaved":
        scheduler = f"interleaved(chunks={row['vpp']})"
    fields: Description = {
        "scheduler": scheduler,
        "planner": layouts.planner(blocks, v_shape=scheduler == "zb_v"),
        **TENSORS_ONLY,
    }
    if "post-validation" in row["flags"]:  # no stage waits for the norm of all gradients
        fields["gradient_norm"] = False
    if not profile:
        cluster = servers(nodes_of(row), NVSWITCH_A100, "200 Gb/s", 8, "a100-80gb")
        return common(row, "megatron-v2", trace=expression, cluster=cluster, **fields)
    sizes = f"sequence={row['sequence']}, microbatch={row['microbatch']}, precision={row['precision']!r}"
    made = lookup.call(f"{expression[:-1]}, {sizes})", ARCHITECTURES, "architecture")
    delay = number(profile, "profiled_comm_s") or 0.0
    bandwidth, latency = 1e15, delay / 2
    if message == "bandwidth":
        bandwidth, latency = made.layers[0].output_bytes / delay, 0.0
    cluster = f"flat({row['gpus']}, {bandwidth!r}, latency={latency!r}, device='a100-80gb')"
    trace = profiles.of_stages(row, made, profile, others=others)
    if clock == "sustained":  # the profile's passes were timed one by one, synchronized before and after
        fields["sustained"] = BOOST_MHZ / SUSTAINED_MHZ
    return common(row, "megatron-v2", trace=trace, cluster=cluster, **fields)


def megatron_published(
    row: Row, *, microbatch: int | None = None, chunks: str = "rule", device: str = "a100-40gb"
) -> Description:
    """Microbatch size and chunks by rule where the tables state none."""
    size = whole(row, "microbatch", microbatch or (1 if whole(row, "pp") > 1 else 4))
    size = min(size, whole(row, "global_batch") // whole(row, "dp"))
    nodes, per_node = nodes_of(row)
    if row["gpu"].startswith("V100"):
        cluster = servers((nodes, per_node), "150 GB/s", "100 Gb/s", min(8, per_node), "v100-sxm3-32gb")
    else:
        kind = "a100-80gb" if row["gpu"] == "A100-80GB" else device
        cluster = servers((nodes, per_node), NVSWITCH_A100, "200 Gb/s", per_node, kind)
    fields: Description = {}
    if row["group"] == "jan2021":  # before tensors were scattered for sends
        fields["scatter_sends"] = False
    elif row["group"] == "tp_scaling_2020":  # torch's wrapper, which their README of 2020 advises for large models
        fields["gradient_overlap"] = True
    return common(
        row,
        "megatron-v2",
        trace=model("gpt", row, whole(row, "vocab")),
        cluster=cluster,
        microbatch_size=size,
        interleave=chunks_of(row, size, chunks),
        **fields,
    )


def chunks_of(row: Row, microbatch: int, chunks: str) -> int:
    """Chunks of a stage: as stated, or by the rule for the tables of April 2021; Megatron's conditions hold."""
    pipeline = whole(row, "pp")
    if row["vpp"] or row["group"] != "apr2021" or pipeline == 1 or chunks == "none":
        return whole(row, "vpp", 1)
    share = whole(row, "global_batch") // whole(row, "dp") // microbatch
    if share % pipeline:
        return 1
    each = whole(row, "layers") // pipeline
    fitting = [n for n in range(2, each + 1) if each % n == 0]
    if chunks == "largest":
        return max((n for n in fitting if n <= 4), default=1)
    return min(fitting, default=1)


def bigscience(row: Row, *, precision: str = "fp16", network: str = "two nodes") -> Description:
    """Jean Zay; DeepSpeed on A100s, Megatron-LM or DeepSpeed on V100s."""
    nodes, per_node = nodes_of(row)
    is_a100 = row["gpu"].startswith("A100")
    speed = JEAN_ZAY[network][row["gpu"][:4]]
    inside = NVSWITCH_A100 if is_a100 else "150 GB/s"
    cluster = servers((nodes, per_node), inside, speed, min(4, per_node), row["gpu"].lower())
    fields: Description = {"precision": row["precision"] if row["precision"] in {"fp16", "bf16"} else precision}
    if row["optimizer_note"].startswith("fp32 gradient"):
        fields["gradient_precision"] = "fp32"
    if "7 layers on 11 stages" in row["layout"]:
        fields["planner"] = layouts.stated_blocks([7] * 11 + [1])
    elif "6 slots per stage, first and last hold 5" in row["layout"]:
        fields["planner"] = layouts.stated_blocks([5] + [6] * (whole(row, "pp") - 2) + [5])
    if not is_shown("bigscience", row):
        fields |= TENSORS_ONLY
    framework = "deepspeed" if is_a100 or "DeepSpeed" in row["flags"] else "megatron-v2"
    return common(row, framework, trace=model("gpt", row, whole(row, "vocab")), cluster=cluster, **fields)


def vtrain(row: Row, *, vocabulary: int | None = None, device: str = "a100-80gb") -> Description:
    """Megatron-DeepSpeed on 8 A100s per node; gradients are reduced after the last backward."""
    unit = 128 * whole(row, "tp")
    cluster = servers(nodes_of(row), NVSWITCH_A100, "200 Gb/s", 4, device)
    expression = model("gpt", row, vocabulary or -(-50257 // unit) * unit)
    return common(row, "deepspeed", trace=expression, cluster=cluster, gradient_overlap=False)


def mlperf(row: Row, *, calibrated: str = "smallest") -> Description:
    """Megatron on H100s with fp8; `efficiency` is calibrated on one row of each round."""
    del calibrated
    expression = model("gpt", row, whole(row, "vocab"), fused_attention=True)
    nodes = whole(row, "gpus") // 8
    cluster = f"hgx_h100({nodes})"
    return common(row, "megatron", trace=expression, cluster=cluster, precision="fp8", gradient_overlap=True)


def simumax(row: Row) -> Description:
    """Megatron on one node of B200s; nothing is overlapped."""
    fields = {"inner": row["ffn"], "key_heads": row["kv_heads"], "tied": False}
    cluster = servers((1, 8), "900 GB/s", "400 Gb/s", 8, "b200-180gb")
    made = common(
        row, "megatron", trace=model("llama", row, whole(row, "vocab"), **fields), cluster=cluster,
        gradient_overlap=False, **TENSORS_ONLY,
    )  # fmt: skip
    made |= {name: width for name, key in (("context", "cp"), ("expert", "ep")) if (width := whole(row, key)) > 1}
    return made


def sailor(row: Row, *, host: float = SAILOR_HOST_S) -> Description:
    """DeepSpeed on GH200s with the profile of its layers; the host reads what describes each message."""
    cluster = f"servers({row['nodes_N']}, 4, '150 GB/s', '200 Gb/s', nics=4, device='gh200', memory='96 GiB')"
    planner = layouts.stated_blocks(layouts.stated(row))
    return common(
        row, "deepspeed", trace=profiles.of_layers(), cluster=cluster, planner=planner, optimizer="adam",
        message_time=host, **TENSORS_ONLY,
    )  # fmt: skip


@cache
def _rows(source: str) -> list[Row]:
    return read(source)


Describe = Callable[..., Description]

SOURCES: Mapping[str, Describe] = {
    "zero_bubble": zero_bubble,
    "megatron_published": megatron_published,
    "bigscience": bigscience,
    "vtrain": vtrain,
    "mlperf": mlperf,
    "simumax": simumax,
    "sailor": sailor,
}

OTHERS: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "zero_bubble": {
        "vocabulary 50304": {"vocabulary": 50304},
        "fused attention": {"fused": True},
        "messages as bytes over a bandwidth": {"message": "bandwidth"},
        "embedding and head with computed times": {"others": "computed"},
        "profile at the clock of the iteration": {"clock": "of the profile"},
        "GB of 2^30 bytes": {"unit": 2**30},
    },
    "megatron_published": {
        "no chunks": {"chunks": "none"},
        "the most chunks up to 4": {"chunks": "largest"},
        **{f"microbatch size {size}": {"microbatch": size} for size in (1, 2, 4, 8)},
        "A100s of 2020 with 80 GB": {"device": "a100-80gb"},
    },
    "bigscience": {
        "bf16 where not stated": {"precision": "bf16"},
        "network of the hardware": {"network": "hardware"},
        "network as all-reduces of 4 nodes reached": {"network": "four nodes"},
    },
    "vtrain": {"vocabulary 51200": {"vocabulary": 51200}, "A100s with 40 GB": {"device": "a100-40gb"}},
    "mlperf": {"calibrated on the largest system": {"calibrated": "largest"}},
    "simumax": {},
    "sailor": {"no time of the host": {"host": 0.0}},
}
