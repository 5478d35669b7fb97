"""The pass that adds all-reduces: a ring of messages for each replicated stage, after its last backward."""

from collections.abc import Sequence

import numpy as np

from pipesim.base.arrays import Ints, Ragged
from pipesim.core.cluster import Cluster
from pipesim.core.program import ALL_REDUCE
from pipesim.lowering.messages import alone
from pipesim.lowering.setup import Setup
from pipesim.lowering.tasks import Tasks


def add_all_reduces(tasks: Tasks, setup: Setup) -> None:
    """A ring per replicated stage; optimizer steps wait for it, or for the last backward where there is none."""
    for n, stage in enumerate(setup.plan.stages):
        k, size = len(stage.devices), setup.parameter_bytes(n)
        slots = range(setup.first_slot[n], setup.first_slot[n] + k)
        last = setup.last_backward[slots.start : slots.stop]
        ends = last = last[last >= 0]
        if k > 1 and size:
            ring = in_ring(stage.devices, setup.cluster)
            ends = _add_ring(tasks, setup, n, list(zip(ring, (*ring[1:], ring[0]), strict=True)))
            tasks.needs.append((np.repeat(ends, len(last)), np.tile(last, len(ends))))
        for slot in slots:
            if slot in tasks.optimizer_of:
                tasks.needs.append((np.full(len(ends), tasks.optimizer_of[slot]), ends))


def in_ring(devices: Sequence[str], cluster: Cluster) -> list[str]:
    """Node after node, so that a ring enters each once; otherwise in the order of the plan."""
    nodes = [cluster.device(name).node for name in devices]
    first = {node: place for place, node in reversed(list(enumerate(nodes)))}
    return [name for _, name in sorted(zip(nodes, devices, strict=True), key=lambda pair: first[pair[0]])]


def _add_ring(tasks: Tasks, setup: Setup, stage: int, edges: Sequence[tuple[str, str]]) -> Ints:
    """Each edge carries 2(k-1) messages of 1/k of the parameters."""
    k, part = len(edges), setup.parameter_bytes(stage) / len(edges)
    if not setup.sharing_rule.has_links:  # all at the pace of the worst pair inside the stage, on no link
        devices = setup.plan.stages[stage].devices
        worst = max(alone(setup.cluster, a, b, part, 2 * (k - 1)) for a in devices for b in devices if a != b)
        messages, edges = [worst._replace(limit=np.inf, media=())], edges[:1]
    else:
        messages = [alone(setup.cluster, a, b, part, 2 * (k - 1)) for a, b in edges]
    index = tasks.add(
        len(edges),
        kind=ALL_REDUCE,
        stage=stage,
        source=np.array([setup.rank[a] for a, _ in edges]),
        target=np.array([setup.rank[b] for _, b in edges]),
        duration=np.array([message.duration for message in messages]),
        delay=np.array([message.delay for message in messages]),
        size=np.array([message.size for message in messages]),
        limit=np.array([message.limit for message in messages]),
    )
    tasks.routes.append(Ragged.of([message.media for message in messages]))
    return index
