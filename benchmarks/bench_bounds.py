"""The certified bound over all plans of one stage per device: seconds of CPU, with kernels that are compiled."""

import time
from pathlib import Path

from pipesim.analysis.bounds import plan_bound
from pipesim.architectures import ARCHITECTURES
from pipesim.architectures.roofline import roofline
from pipesim.base import lookup
from pipesim.core.costs import Costs, costs_of
from pipesim.studies import loading

Row = tuple[str, str, str]
SLOW = Path(__file__).parents[1] / "experiments" / "planners" / "clusters" / "4x4-slow.toml"
CASES = [
    ("bert-large(microbatch=4)", 'servers(2, 8, intra="25GB/s", inter="25Gb/s")', 16, "≤ 0.3 s"),
    ("resnet-152(microbatch=32)", 'servers(2, 8, intra="25GB/s", inter="25Gb/s")', 16, ""),
    ("gpt2-xl(microbatch=1)", str(SLOW), 16, ""),
    ("gpt2-xl(microbatch=1)", 'servers(4, 8, intra="25GB/s", inter="100Gb/s")', 16, ""),
    ("resnet-152(microbatch=32)", 'servers(4, 8, intra="25GB/s", inter="100Gb/s")', 8, "≤ 3 s"),
    ("gpt2-xl(microbatch=1)", 'servers(16, 8, intra="25GB/s", inter="100Gb/s")', 32, "≤ 10 s"),
    ("resnet-152(microbatch=32)", 'servers(16, 8, intra="25GB/s", inter="100Gb/s")', 32, ""),
]


def costs(model: str) -> Costs:
    """Times of a roofline over the V100's data sheet."""
    return costs_of(roofline(lookup.call(model, ARCHITECTURES, "architecture"), ["v100-16gb"]))


def rows() -> list[Row]:
    """(what, measured, bar) for the tables of benchmarks/README.md."""
    for nodes in (2, 9):  # compiles, or loads, what the others need
        cluster = loading.load_cluster(f'servers({nodes}, 2, intra="25GB/s", inter="25Gb/s")')
        plan_bound(costs("vgg-19"), cluster, 4)
    return [_row(*case) for case in CASES]


def _row(model: str, cluster: str, microbatches: int, bar: str) -> Row:
    of, among = costs(model), loading.load_cluster(cluster)
    began = time.process_time()
    plan_bound.__wrapped__(of, among, microbatches)
    took = time.process_time() - began
    where = cluster.partition(", intra")[0].removeprefix("servers(").replace(", ", " x ") + " devices"
    where = "4 x 4 devices, one slow link" if cluster == str(SLOW) else where
    name = model.partition("(")[0]
    return f"{name} on {where}, {microbatches} microbatches", f"{took:.2f} s of CPU", bar
