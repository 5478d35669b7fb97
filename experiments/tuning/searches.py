"""Searches for the best layout of large models, with what was left out and how long each took.

python experiments/tuning/searches.py          prints a row for each search and writes searches.csv
"""

import csv
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pipesim as ps
from pipesim.core.cluster import Cluster
from pipesim.core.devices import device_kind

HERE = Path(__file__).parent


def mixed() -> Cluster:
    """Eight nodes of eight A100 with 40 GB, and eight nodes of eight V100 with 32 GB, one NIC for two GPUs."""
    cluster = ps.load_cluster('servers(16, 8, intra="300GB/s", inter="100Gb/s", nics=4, device="a100-40gb")')
    slow = device_kind("v100-32gb")
    later = {f"node{n}" for n in range(8, 16)}
    devices = tuple(
        replace(one, kind=slow.name, memory=slow.memory, flops=slow.peak["fp16"]) if one.node in later else one
        for one in cluster.devices
    )
    return replace(cluster, devices=devices, name="64 a100-40gb and 64 v100-32gb")


SEARCHES: dict[str, dict[str, Any]] = {
    "llama3-70b on 64": {"trace": "llama3-70b", "cluster": "hgx_h100(8)", "sequence": 8192, "global_batch": 1024},
    "llama3-70b on 256": {"trace": "llama3-70b", "cluster": "hgx_h100(32)", "sequence": 8192, "global_batch": 1024},
    "llama3-70b on 1,024": {"trace": "llama3-70b", "cluster": "hgx_h100(128)", "sequence": 8192, "global_batch": 1024},
    "qwen2.5-32b on 256": {"trace": "qwen2.5-32b", "cluster": "hgx_h100(32)", "sequence": 4096, "global_batch": 1024},
    "gpt3-175b on 64 A100 and 64 V100": {"trace": "gpt3-175b", "cluster": mixed, "global_batch": 1536},
}


def searched(name: str) -> dict[str, Any]:
    """The row of a search: the best layout, what was left out, and seconds of this process."""
    fields = dict(SEARCHES[name])
    if callable(fields["cluster"]):
        fields["cluster"] = fields["cluster"]()
    began, clock = time.process_time(), time.perf_counter()
    found = ps.tune(framework="megatron", **fields)
    best, counts = found.best.as_data(), found.counts.as_data()
    names = ("tensor", "pipeline", "data", "interleave", "microbatch_size", "recompute", "sharding", "scheduler")
    return {
        "search": name,
        **{key: best[key] for key in names},
        "blocks": "even" if best["blocks"] is None else " ".join(map(str, best["blocks"])),
        "iteration_s": f"{best['iteration_time_s']:.3f}",
        "tokens_per_s_per_gpu": f"{best['tokens_per_s_per_gpu']:.0f}",
        "mfu": f"{best['mfu']:.4f}",
        "memory_gib": f"{best['peak_memory_bytes'] / 2**30:.2f}",
        "gap": f"{found.own_gap(found.best):.4f}",
        "any_gap": f"{found.gap(found.best):.4f}",
        **counts,
        "cpu_s": f"{time.process_time() - began:.1f}",
        "wall_s": f"{time.perf_counter() - clock:.1f}",
    }


def main() -> None:
    """All searches, or those whose names contain a word that is given."""
    wanted = sys.argv[1:]
    rows = [searched(name) for name in SEARCHES if not wanted or any(word in name for word in wanted)]
    for row in rows:
        sys.stdout.write(", ".join(f"{key} {value}" for key, value in row.items()) + "\n")
    if not wanted:
        with (HERE / "searches.csv").open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
