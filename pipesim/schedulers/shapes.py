"""How stages lie on devices: the shapes that schedulers ask for, and plans brought into them.

    straight   0 1 2 3              one stage per device
    loop       0 4 | 1 5 | 2 6 | 3 7            chunk after chunk the same way round      (Megatron)
    wave       0 7 | 1 6 | 2 5 | 3 4            down and up again: a V, or several        (ZB-V, Hanayo)
    both       0 3 | 1 2 | 2 1 | 3 0            two copies of the model, one each way     (Chimera, DualPipe)

A lane is a device, or all replicas of a stage together.
"""

from dataclasses import replace
from typing import Literal

import numpy as np

from pipesim.base.arrays import Floats
from pipesim.base.chains import chains_on_chains
from pipesim.base.errors import ScheduleError
from pipesim.core.cluster import Cluster
from pipesim.core.costs import Costs
from pipesim.core.plan import Plan, Stage

Shape = Literal["straight", "loop", "wave", "both"]

Group = tuple[str, ...]


def groups_of(plan: Plan) -> list[Group]:
    """The devices of each lane, in the order in which stages come to them."""
    found: dict[frozenset[str], Group] = {}
    for stage in plan.stages:
        found.setdefault(frozenset(stage.devices), stage.devices)
    return list(found.values())


def lane_order(shape: Shape, lanes: int, chunks: int) -> list[int]:
    """The lane of each stage."""
    if shape == "wave":
        return [n if chunk % 2 == 0 else lanes - 1 - n for chunk in range(chunks) for n in range(lanes)]
    return [n for _ in range(chunks) for n in range(lanes)]


def has_shape(plan: Plan, shape: Shape) -> bool:
    """Whether the stages of a plan lie so."""
    if shape == "both":
        return _is_both(plan)
    groups = [frozenset(group) for group in groups_of(plan)]
    chunks, rest = divmod(len(plan.stages), len(groups))
    if rest or (shape == "straight" and chunks > 1) or (shape == "wave" and chunks % 2):
        return False
    lane = {group: n for n, group in enumerate(groups)}
    return [lane[frozenset(stage.devices)] for stage in plan.stages] == lane_order(shape, len(groups), chunks)


def _is_both(plan: Plan) -> bool:
    mirrored = zip(plan.stages, plan.stages[::-1], strict=True)
    return (
        plan.replicas == "whole"
        and set(plan.replication) == {2}
        and len(plan.stages) == len(plan.devices)
        and all(stage.devices == other.devices[::-1] for stage, other in mirrored)
    )


def check_shape(plan: Plan, shape: Shape, scheduler: str) -> int:
    """Refuse a plan that does not lie so; returns the number of chunks on each lane."""
    if not has_shape(plan, shape):
        raise ScheduleError(f"{scheduler} orders plans in which {_WORDS[shape]}; in this one they do not")
    return len(plan.stages) // (len(plan.stages) if shape == "both" else len(groups_of(plan)))


_WORDS = {
    "straight": "every device holds one stage (or every group of replicas one)",
    "loop": "stages go round the devices again and again (stage n on device n mod p)",
    "wave": "stages go down the devices and up again (stage n on device n, then on device 2p - 1 - n)",
    "both": "stage n is on device n and, for every second microbatch, on device p - 1 - n",
}


def shaped(  # noqa: PLR0917 - a problem has its parts
    plan: Plan, costs: Costs, cluster: Cluster, shape: Shape, chunks: int, scheduler: str
) -> Plan:
    """The plan itself if it lies so; else one on the same devices, its layers cut anew into as many stages as it takes.

    The new cuts make the slowest chunk as fast as possible. Two copies of a model keep the cuts.
    """
    wanted = len(groups_of(plan)) * chunks
    if has_shape(plan, shape) and (shape == "both" or len(plan.stages) == wanted):
        return plan
    if not has_shape(plan, "straight"):
        raise ScheduleError(f"{scheduler} orders plans in which {_WORDS[shape]}; it can place one stage per device so")
    return _mirrored(plan, scheduler) if shape == "both" else _chunked(plan, costs, cluster, shape, chunks, scheduler)


def _mirrored(plan: Plan, scheduler: str) -> Plan:
    if max(plan.replication) > 1 or len(plan.stages) % 2:
        raise ScheduleError(
            f"{scheduler} runs two copies of the model in opposite directions, on an even number of stages with one "
            f"device each; {len(plan.stages)} stages with {max(plan.replication)} devices at most were found"
        )
    pairs = zip(plan.stages, plan.stages[::-1], strict=True)
    stages = tuple(replace(stage, devices=stage.devices + other.devices) for stage, other in pairs)
    return replace(plan, stages=stages, replicas="whole")


def _chunked(  # noqa: PLR0917 - a problem has its parts
    plan: Plan, costs: Costs, cluster: Cluster, shape: Shape, chunks: int, scheduler: str
) -> Plan:
    groups = groups_of(plan)
    if plan.layers < len(groups) * chunks:  # asked before anything of that length is made
        raise ScheduleError(
            f"{scheduler} needs {chunks} stages on each of {len(groups)} devices; the model has {plan.layers} layers"
        )
    order = lane_order(shape, len(groups), chunks)
    by_lane = [_layer_seconds(plan, costs, cluster, group) for group in groups]
    bounds, _ = chains_on_chains([by_lane[lane] for lane in order])
    stages = tuple(Stage(a, b, groups[lane]) for a, b, lane in zip(bounds, bounds[1:], order, strict=False))
    return replace(plan, stages=stages)


def _layer_seconds(plan: Plan, costs: Costs, cluster: Cluster, devices: Group) -> Floats:
    """Forward and backward of each layer on the slowest kind of these devices."""
    share = 1 / len(devices) if plan.replicas == "split" else 1.0
    kinds = sorted({cluster.device(device).kind for device in devices})
    return np.max([costs.forward(kind, share) + costs.backward(kind, share) for kind in kinds], axis=0)  # type: ignore[no-any-return]  # an array
