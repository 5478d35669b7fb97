"""Layouts as simulations: what a search simulates, and what a user types to simulate it again."""

from dataclasses import replace

from pipesim.base.errors import InputError
from pipesim.core.cluster import Cluster
from pipesim.core.teams import teams_of
from pipesim.studies.simulation import Simulation
from pipesim.studies.tuning.space import BY_STAGE, SAME_IN_STAGES, LayoutChoice


def point_of(
    simulation: Simulation,
    one: LayoutChoice,
    blocks: tuple[int, ...] | None = None,
    redone: tuple[int, ...] | None = None,
) -> Simulation:
    """The simulation of a layout."""
    if one.planner:
        return _planned(simulation, one)
    given = {"blocks": blocks, "kinds": tuple(one.kinds.split(",")) if one.kinds else None}
    words = ", ".join(f"{name}={value}" for name, value in given.items() if value is not None)
    by_stage = one.recompute == BY_STAGE
    return replace(
        simulation,
        tensor=one.widths or one.tensor,
        pipeline=one.pipeline,
        data=one.data,
        interleave=None if one.interleave == 1 else one.interleave,
        microbatch_size=one.microbatch_size,
        recompute="full" if by_stage else one.recompute,
        recompute_blocks=_stated(simulation, redone or (0,)) if by_stage else None,
        sharding=one.sharding,
        scheduler=one.scheduler,
        sequence_parallel=one.sequence_parallel or None,
        planner=f"megatron({words})" if words else "megatron",
        fit=False,
    )


def _planned(simulation: Simulation, one: LayoutChoice) -> Simulation:
    """The simulation of a layout that a planner decides, with what it changes for memory."""
    return replace(
        simulation,
        tensor=one.widths or one.tensor,
        pipeline=None,
        data=None,
        interleave=None,
        microbatch_size=one.microbatch_size,
        recompute=one.recompute,
        sharding=one.sharding,
        scheduler=one.scheduler,
        sequence_parallel=one.sequence_parallel or None,
        planner=one.planner,
        fit=True,
    )


def _stated(simulation: Simulation, redone: tuple[int, ...]) -> int | str:
    """Blocks that are done again, as a simulation states them."""
    return redone[0] if len(set(redone)) == 1 or simulation.framework in SAME_IN_STAGES else ";".join(map(str, redone))


def kinds_of_teams(cluster: Cluster, width: int) -> list[str]:
    """The kind of each team, node by node; none where the cluster has no team of so many GPUs of some kind."""
    try:
        teams = teams_of(cluster, width)
    except InputError:
        return []
    nodes: dict[str, list[str]] = {}
    for team in teams:
        first = cluster.device(team[0])
        nodes.setdefault(first.node, []).append(first.kind)
    found = [kind for each in nodes.values() for kind in each]
    return found if set(found) == {device.kind for device in cluster.devices} else []
