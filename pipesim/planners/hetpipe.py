"""Virtual workers: groups of devices that each run a whole pipeline, data parallel between them; after HetPipe."""

from itertools import pairwise
from typing import Literal

import numpy as np

from pipesim.base.arrays import Floats
from pipesim.base.errors import InputError, shown
from pipesim.core import plan as plans
from pipesim.core.cluster import Cluster
from pipesim.core.costs import Costs
from pipesim.core.limits import PER_PAIR
from pipesim.core.members import PlannerInfo, ProblemSize
from pipesim.core.model import Model
from pipesim.core.plan import Plan, Stage
from pipesim.planners.groups import by_node, cut_bytes, layer_seconds, worst_bandwidths

Allocation = Literal["node", "equal"]


def table_bytes(size: ProblemSize) -> float:
    """Bytes of the bandwidths between devices, and of a table of layers x layers for each position."""
    tables = min(size.devices_per_node, size.layers) + 3
    return PER_PAIR * size.devices**2 + 8 * tables * size.layers**2


@PlannerInfo(tables=table_bytes, look=4, refits=("option", "cuts"), option="workers")
def hetpipe(
    model: Model,
    cluster: Cluster,
    costs: Costs,
    microbatches: int,
    *,
    workers: int | None = None,
    allocation: Allocation = "node",
) -> Plan:
    """Cuts that make the slowest stage of the slowest virtual worker as fast as possible.

    A stage's seconds are forward, backward, and the receiving of activations and gradients. `allocation` groups the
    devices: "node", by default one virtual worker per node; or "equal", by default one for each device of the smallest
    node, with one device of every node. The objective is the microbatches of one virtual worker times that slowest
    stage. Simplified: all virtual workers have the same cuts, balanced for the slowest member of each position, and the
    same number of devices; remaining devices, and devices beyond one per layer, are idle.
    Ignores the synchronisation between virtual workers (HetPipe's runs beside the computation, through parameter
    servers and with staleness; run flushed it is an all-reduce), the fill of the pipeline, latencies and memory.
    """
    plans.check_microbatches(microbatches)
    members = virtual_workers(cluster, workers, allocation)
    positions = min(len(members[0]), len(model))
    members = [worker[:positions] for worker in members]
    bounds, bottleneck = _least_bottleneck(_stage_seconds(cluster, costs, members))
    names = [tuple(cluster.devices[i].name for i in same) for same in zip(*members, strict=True)]
    return Plan(
        model=model.name,
        layers=len(model),
        microbatches=microbatches,
        stages=tuple(Stage(a, b, group) for (a, b), group in zip(pairwise(bounds), names, strict=True)),
        replicas="whole",
        planner="hetpipe",
        objective_s=-(-microbatches // len(members)) * bottleneck,
    )


def virtual_workers(cluster: Cluster, workers: int | None, allocation: Allocation) -> list[list[int]]:
    """The same number of devices for each virtual worker, as positions in the cluster.

    nodes      a b c d | e f g h
    "node"     2 workers: abcd, efgh      4 workers: ab, cd, ef, gh
    "equal"    4 workers: ae, bf, cg, dh  2 workers: aceg, bdfh

    Devices that cannot be divided evenly are not used.
    """
    if allocation not in {"node", "equal"}:
        raise InputError(f"allocation {shown(allocation)} found; 'node' or 'equal' was expected")
    nodes, devices = by_node(cluster), len(cluster.devices)
    smallest = min(len(node) for node in nodes)
    usual = len(nodes) if allocation == "node" else smallest
    count = usual if workers is None else workers
    if not 1 <= count <= devices:
        raise InputError(f"workers = {count} found; 1 to {devices} was expected ({devices} devices)")
    order = [position for node in nodes for position in node]
    if allocation == "node":
        size = devices // count
        groups = nodes if count == len(nodes) else [order[n * size : (n + 1) * size] for n in range(count)]
    else:
        even = [position for node in nodes for position in node[: len(node) // count * count]]
        groups = [(even or order)[n::count] for n in range(count)]
    size = min(len(group) for group in groups)
    return [group[:size] for group in groups]


def _stage_seconds(cluster: Cluster, costs: Costs, members: list[list[int]]) -> Floats:
    """[position, a, b]: seconds of one microbatch on layers a .. b-1 there, at the slowest virtual worker."""
    between, cut = worst_bandwidths(cluster), cut_bytes(costs)
    slowest = np.full((len(members[0]), len(cut), len(cut)), -np.inf)
    for worker in members:
        for q, device in enumerate(worker):
            before = 1 / between[worker[q - 1], device] if q > 0 else 0.0
            behind = 1 / between[worker[q + 1], device] if q + 1 < len(worker) else 0.0
            own = layer_seconds(costs, [cluster.devices[device].kind], 1.0)
            np.maximum(slowest[q], own + cut[:, None] * before + cut[None, :] * behind, out=slowest[q])
    return slowest


def _least_bottleneck(seconds: Floats) -> tuple[list[int], float]:
    """Bounds of one stage per position that minimise the slowest, and its seconds.

    best[b] = least bottleneck of layers 0 .. b-1 on the positions so far
    next[b] = min over a < b of max( best[a], seconds of layers a .. b-1 on the next position )
    """
    layers = seconds.shape[1] - 1
    best = np.where(np.arange(layers + 1) == 0, 0.0, np.inf)
    starts = []
    for position in seconds:
        slowest = np.maximum(best[:, None], position)
        starts.append(np.argmin(slowest, axis=0))
        best = slowest.min(axis=0)
    bounds = [layers]
    for start in reversed(starts):
        bounds.append(int(start[bounds[-1]]))
    return bounds[::-1], float(best[layers])
