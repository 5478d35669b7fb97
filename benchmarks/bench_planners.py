"""The planners: PRM and its growth, RDO, and seconds per answer on 16 devices and 100 layers."""

import math
import resource
import time
from collections.abc import Callable

import numpy as np

from pipesim.base import kernels
from pipesim.core.cluster import Cluster
from pipesim.core.costs import Costs, costs_of
from pipesim.core.trace import Trace
from pipesim.planners import PLANNERS
from pipesim.planners.spp.bottlenecks import least_bottlenecks
from pipesim.planners.spp.prm import scope_of, tables_of
from pipesim.planners.spp.rdo import rdo
from pipesim.studies import loading, setups

Row = tuple[str, str, str]
SHAPES = {(50, 16): "≤ 0.010", (100, 32): "≤ 0.1", (200, 64): "≤ 1", (400, 128): "≤ 20"}


def costs(layers: int, seed: int = 0) -> Costs:
    """Layers of very different times and sizes."""
    rng = np.random.default_rng(seed)
    columns = {
        "layer": np.arange(layers),
        "name": np.array([f"layer{i}" for i in range(layers)], object),
        "forward_s": rng.uniform(1e-3, 2e-2, layers),
        "backward_s": rng.uniform(2e-3, 4e-2, layers),
        "output_bytes": rng.integers(10**5, 10**7, layers),
        "parameter_bytes": rng.integers(10**5, 10**8, layers),
    }
    return costs_of(Trace("random layers", "benchmark", 1, columns))


def servers(devices: int) -> Cluster:
    """Servers of eight devices each."""
    return loading.load_cluster(f'servers({devices // 8}, 8, intra="25GB/s", inter="25Gb/s")')


def seconds(call: Callable[[], object]) -> float:
    """Seconds of one call."""
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def rows() -> list[Row]:
    """(what, measured, bar) for the tables of benchmarks/README.md."""
    return [*_partitioning(), *_ordering(), *_answers()]


def _partitioning() -> list[Row]:
    """PRM for all numbers of stages together, warm, and how its time grows."""
    found, before = [], 0.0
    for (layers, devices), bar in SHAPES.items():
        tables = tables_of(costs(layers), servers(devices), list(range(devices)), 64)
        kernel, scope = kernels.compiled(least_bottlenecks), scope_of(tables, math.inf)
        kernel(tables, 1, scope)
        args = tables, devices, scope
        took = min(seconds(lambda k=kernel, a=args: k(*a)) for _ in range(1 if devices > 64 else 3))
        growth = f" ({took / before:.0f} times the row above)" if before else ""
        found.append(
            (f"PRM, {layers} layers on {devices} devices, all numbers of stages", f"{took:.4f} s{growth}", f"{bar} s")
        )
        before = took
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    return [*found, ("... most memory of the process by then", f"{memory:.2f} GB", "≤ 1.5 GB")]


def _ordering() -> list[Row]:
    cluster = loading.load_cluster('random(256, seed=1, bandwidths=["1GB/s", "10GB/s"], distribution="uniform")')
    cluster.bandwidth_matrix  # noqa: B018 - computed once, before the measurement
    rdo(servers(32))
    return [("RDO, literal, 256 devices of random connectivity", f"{seconds(lambda: rdo(cluster)):.2f} s", "about 1 s")]


def _answers() -> list[Row]:
    """Each planner as `pipesim plan` calls it, warm; `brute` is for tiny inputs only."""
    model, cluster = costs(100), servers(16)
    found = []
    for name in PLANNERS:
        if name == "brute":
            continue
        setups.plan_with(name, model, cluster, 4)
        took = seconds(lambda n=name: setups.plan_with(n, model, cluster, 16))
        found.append((f"{name}: 100 layers on 2 x 8 devices, 16 microbatches", f"{took:.3f} s", "≤ 2 s"))
    return found
