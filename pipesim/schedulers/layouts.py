"""How stages are laid out on devices: the layouts that schedulers need, and plans converted to them.

    straight   0 1 2 3              one stage per device
    loop       0 4 | 1 5 | 2 6 | 3 7            chunk after chunk the same way round      (Megatron)
    wave       0 7 | 1 6 | 2 5 | 3 4            down and up again: a V, or several        (ZB-V, Hanayo)
    both       0 3 | 1 2 | 2 1 | 3 0            two copies of the model, one each way     (Chimera, DualPipe)

A lane is a device, or all replicas of a stage together. Pipelines side by side (`side_by_side.py`) have the same
layout each.
"""

from dataclasses import replace

import numpy as np

from pipesim.base.arrays import Floats
from pipesim.base.chains import chains_on_chains
from pipesim.base.errors import ScheduleError
from pipesim.core.cluster import Cluster
from pipesim.core.costs import Costs
from pipesim.core.members import Layout
from pipesim.core.plan import Plan, Stage

Group = tuple[str, ...]


def groups_of(plan: Plan) -> list[Group]:
    """The devices of each lane, in the order of the first stage on them."""
    found: dict[frozenset[str], Group] = {}
    for stage in plan.stages:
        found.setdefault(frozenset(stage.devices), stage.devices)
    return list(found.values())


def lane_order(layout: Layout, lanes: int, chunks: int) -> list[int]:
    """The lane of each stage."""
    if layout == "wave":
        return [n if chunk % 2 == 0 else lanes - 1 - n for chunk in range(chunks) for n in range(lanes)]
    return [n for _ in range(chunks) for n in range(lanes)]


def has_layout(plan: Plan, layout: Layout) -> bool:
    """Whether the stages of a plan are laid out like this."""
    if layout == "both":
        return _is_both(plan)
    groups = [frozenset(group) for group in groups_of(plan)]
    chunks, rest = divmod(len(plan.stages), len(groups))
    if rest or (layout == "straight" and chunks > 1) or (layout == "wave" and chunks % 2):
        return False
    lane = {group: n for n, group in enumerate(groups)}
    return [lane[frozenset(stage.devices)] for stage in plan.stages] == lane_order(layout, len(groups), chunks)


def _is_both(plan: Plan) -> bool:
    """Whether the replicas of every stage are pairs, in opposite directions: copy 0 and copy 1 of each pipeline."""
    copies = plan.replication[0]
    if plan.replicas != "whole" or set(plan.replication) != {copies} or copies % 2:
        return False
    mirrored = zip(plan.stages, plan.stages[::-1], strict=True)
    return len(plan.devices) == len(plan.stages) * copies // 2 and all(
        stage.devices[n] == other.devices[n ^ 1] for stage, other in mirrored for n in range(copies)
    )


def check_layout(plan: Plan, layout: Layout, scheduler: str) -> int:
    """Refuse a plan with another layout; returns the number of chunks on each lane."""
    if not has_layout(plan, layout) or (layout == "both" and max(plan.replication) > 2):
        raise ScheduleError(f"{scheduler} orders plans in which {_WORDS[layout]}; this plan has another layout")
    return len(plan.stages) // (len(plan.stages) if layout == "both" else len(groups_of(plan)))


def check_split_replicas(plan: Plan, scheduler: str) -> None:
    """Refuse a plan whose replicas take whole microbatches, and are not pipelines side by side, ordered one by one."""
    if plan.replicas == "whole" and max(plan.replication) > 1:
        counts = ", ".join(map(str, plan.replication))
        raise ScheduleError(
            f"the plan gives whole microbatches to its replicas; {scheduler} orders plans that split them, or have "
            f"equally many replicas in all stages, each with one of the next: {counts} found"
        )


def check_two_chunks(plan: Plan, scheduler: str) -> None:
    """Refuse a plan without two stages on each lane, down and up again, or whose replicas take whole microbatches."""
    if check_layout(plan, "wave", scheduler) != 2:
        raise ScheduleError(f"{scheduler} orders plans with two stages on each device, down and up again")
    check_split_replicas(plan, scheduler)


def check_one_stage_per_device(plan: Plan, scheduler: str) -> None:
    """Refuse a plan with several stages on a device."""
    several = next((device for device, held in zip(plan.devices, plan.chunks, strict=True) if len(held) > 1), None)
    if several is not None:
        raise ScheduleError(f"device {several!r} holds several stages; {scheduler} orders one stage per device")


_WORDS = {
    "straight": "every device holds one stage (or every group of replicas one)",
    "loop": "stages go round the devices several times (stage n on device n mod p)",
    "wave": "stages go down the devices and up again (stage n on device n, then on device 2p - 1 - n)",
    "both": "stage n is on device n and, for every second microbatch, on device p - 1 - n",
}


def laid_out(  # noqa: PLR0917 - a problem has its parts
    plan: Plan, costs: Costs, cluster: Cluster, layout: Layout, chunks: int, scheduler: str
) -> Plan:
    """The plan itself if it has this layout; else one on the same devices with `chunks` stages on each.

    The layers are cut again, so that the slowest stage is as fast as possible. Two copies of a model keep the cuts, and
    so does a plan that has as many stages as it needs, in a loop in place of a wave or the other way round.
    """
    lanes = groups_of(plan)
    wanted = len(lanes) * chunks
    if has_layout(plan, layout) and (layout == "both" or len(plan.stages) == wanted):
        return plan
    if layout == "both" and has_layout(plan, "straight"):
        return _mirrored(plan, scheduler)
    if layout == "both" or not any(has_layout(plan, known) for known in _CONVERTED):
        kinds = "one stage per device" + (", or equally many in a loop or a wave," if layout != "both" else "")
        raise ScheduleError(
            f"{scheduler} orders plans in which {_WORDS[layout]}; only plans with {kinds} are converted"
        )
    if chunks > 1 and len(plan.stages) == wanted:
        order = lane_order(layout, len(lanes), chunks)
        stages = (replace(stage, devices=lanes[n]) for stage, n in zip(plan.stages, order, strict=True))
        return replace(plan, stages=tuple(stages))
    return _chunked(plan, costs, cluster, layout, chunks, scheduler)


_CONVERTED: tuple[Layout, ...] = ("straight", "loop", "wave")


def _mirrored(plan: Plan, scheduler: str) -> Plan:
    """Two copies of every pipeline: replicas of a stage are copy 0 and 1 of pipeline 0, then of pipeline 1, ..."""
    pipelines = plan.replication[0]
    several = max(plan.replication) > 1 and (plan.replicas == "split" or set(plan.replication) != {pipelines})
    if several or len(plan.stages) % 2:
        raise ScheduleError(
            f"{scheduler} runs two copies of the model in opposite directions, on an even number of stages with one "
            f"device each, or with equally many replicas that take whole microbatches; {len(plan.stages)} stages with "
            f"{max(plan.replication)} devices at most were found"
        )
    pairs = zip(plan.stages, plan.stages[::-1], strict=True)
    stages = tuple(
        replace(stage, devices=tuple(name for n in range(pipelines) for name in (stage.devices[n], other.devices[n])))
        for stage, other in pairs
    )
    return replace(plan, stages=stages, replicas="whole")


def _chunked(  # noqa: PLR0917 - a problem has its parts
    plan: Plan, costs: Costs, cluster: Cluster, layout: Layout, chunks: int, scheduler: str
) -> Plan:
    groups = groups_of(plan)
    if plan.layers < len(groups) * chunks:  # checked before anything of that length is allocated
        raise ScheduleError(
            f"{scheduler} needs {chunks} stages on each of {len(groups)} devices; the model has {plan.layers} layers"
        )
    order = lane_order(layout, len(groups), chunks)
    by_lane = [_layer_seconds(plan, costs, cluster, group) for group in groups]
    bounds, _ = chains_on_chains([by_lane[lane] for lane in order])
    stages = tuple(Stage(a, b, groups[lane]) for a, b, lane in zip(bounds, bounds[1:], order, strict=False))
    return replace(plan, stages=stages)


def _layer_seconds(plan: Plan, costs: Costs, cluster: Cluster, devices: Group) -> Floats:
    """Forward and backward of each layer on the slowest kind of these devices."""
    share = 1 / len(devices) if plan.replicas == "split" else 1.0
    kinds = sorted({cluster.device(device).kind for device in devices})
    return np.max([costs.forward(kind, share) + costs.backward(kind, share) for kind in kinds], axis=0)  # type: ignore[no-any-return]  # an array
