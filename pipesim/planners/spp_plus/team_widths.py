"""Plans whose replicas are teams: the best of each width, then local moves, of which some change a stage's width.

width 1    a b | c d e f | g h          two, four and two replicas
regrouped  a b | c+d e+f | g h          the middle stage with two teams of two
"""

from collections.abc import Callable, Container, Iterator
from contextlib import suppress
from dataclasses import replace
from math import inf
from typing import NamedTuple

from pipesim.analysis.bounds import schedule_bound
from pipesim.base.errors import DoesNotFitError
from pipesim.core.cluster import Cluster
from pipesim.core.costs import Costs
from pipesim.core.plan import Plan, Stage
from pipesim.core.teams import SINGLE, Team, Widths, as_devices, has_team, teams_of
from pipesim.planners.abstract_cost import Cost, begin_of, with_limit
from pipesim.planners.spp import holds, memory_limit
from pipesim.planners.spp.prm import MemoryLimit
from pipesim.planners.spp.rdo import given
from pipesim.planners.spp_plus.polish import POLISHED, Key, fastest, moved, polished


class OfWidth(NamedTuple):
    """The problem with teams of one width, as planners see it: each team is a device, with the times of a GPU of it."""

    widths: Widths
    costs: Costs
    cluster: Cluster
    teams: tuple[Team, ...]

    def with_teams(self, plan: Plan) -> Plan:
        """A plan of it as one of the cluster."""
        used = set(plan.devices)
        return replace(plan, teams=tuple(team for team in self.teams if team[0] in used and len(team) > 1))


class Improving(NamedTuple):
    """How plans are improved: evaluations of their cost, whose memory they must hold, whether schedules may split."""

    evaluations: int
    memory: str
    split: bool


def best_of_widths(  # noqa: PLR0917 - the parts of the problem
    search: Callable[..., Plan],
    costs: Costs,
    cluster: Cluster,
    microbatches: int,
    prices: tuple[Cost, Cost],
    options: Improving,
) -> Plan:
    """What `search` finds for each width, improved by moves that change the width of a stage too.

    `prices` are the estimate, by which plans are improved, and the exact cost, which decides.
    """
    (estimate, exact), (evaluations, memory, split), found = prices, options, list[Plan]()
    limits: dict[Widths, MemoryLimit] = {}
    for of in problems(costs, cluster):
        own = {"estimate": TeamCost(estimate, of), "exact": TeamCost(exact, of)}
        with suppress(DoesNotFitError):
            plan = search(of.costs.model, of.cluster, of.costs, microbatches, **own, **options._asdict())
            found.append(of.with_teams(plan))
            if memory:
                limits[of.widths] = memory_limit(of.costs, cluster, given(cluster), microbatches, memory)
    if not found:
        raise DoesNotFitError(f"no plan fits the memory of cluster {cluster.name!r}, of whatever width its teams are")

    def floor(plan: Plan) -> float:
        if memory and not (set(plan.widths_of_stages()) <= set(limits) and holds(limits, cluster, plan)):
            return inf
        return 0.0 if split else schedule_bound(plan, costs, cluster)

    def steps(plan: Plan, seen: Container[Key]) -> Iterator[Plan]:
        yield from regrouped(plan, costs, cluster)
        yield from moved(plan, seen)

    price, begin = with_limit(estimate, split=split), begin_of(estimate, split=split)
    left, better = evaluations, list[Plan]()
    for place, plan in enumerate(sorted(found, key=lambda plan: plan.objective_s or inf)[:POLISHED]):
        share = left // (min(POLISHED, len(found)) - place)
        made, _, used = polished(plan, price, floor, share, price(plan, inf), begin, steps)
        left -= used
        better.append(made)
    best, least = fastest([*better, *found], with_limit(exact, split=split), begin_of(exact, split=split))
    return replace(best, planner="spp_plus", objective_s=least)


def problems(costs: Costs, cluster: Cluster) -> Iterator[OfWidth]:
    """The problem at each width that the costs have and the cluster has teams for; of tensors alone."""
    for widths in sorted((costs.widths, *costs.others), key=lambda one: one.gpus):
        if widths.context == 1 and has_team(cluster, widths.gpus):
            at, teams = costs.at(widths), teams_of(cluster, widths.gpus)
            single = replace(at, model=replace(at.model, widths=SINGLE), others={})
            yield OfWidth(widths, single, as_devices(cluster, teams), teams)


class TeamCost:
    """The cost of plans of one width, given one of plans of the cluster."""

    def __init__(self, cost: Cost, of: OfWidth) -> None:
        self._cost, self._of = cost, of

    def __call__(self, plan: Plan, below: float = inf, *, split: bool = False) -> float:
        """Its seconds; infinity where they are more than `below`."""
        return self._cost(self._of.with_teams(plan), below=below, split=split)  # type: ignore[call-arg]  # checked

    def begin(self, plan: Plan, below: float = inf, *, split: bool = False) -> None:
        """Have it computed beside others."""
        begin_of(self._cost, split=split)(self._of.with_teams(plan), below)


def regrouped(plan: Plan, costs: Costs, cluster: Cluster) -> Iterator[Plan]:
    """The plan with the teams of one stage twice as wide, or half as wide, where the costs have that width.

    Only where each device has one stage. Teams stay inside a node, and have GPUs of one kind.
    """
    if len({stage.devices for stage in plan.stages}) < len(plan.stages):
        return
    known = {widths.gpus: widths for widths in (costs.widths, *costs.others) if widths.context == 1}
    for n, stage in enumerate(plan.stages):
        width = plan.widths(n).gpus
        gpus = sorted((name for device in stage.devices for name in plan.team(device)), key=cluster.index.__getitem__)
        for wanted in (2 * width, width // 2):
            teams = _teams(cluster, gpus, wanted) if wanted in known else ()
            if teams:
                stages = [*plan.stages]
                stages[n] = Stage(stage.start, stage.stop, tuple(team[0] for team in teams))
                others = [team for team in plan.teams if team[0] not in stage.devices]
                new = [team for team in teams if len(team) > 1]
                yield replace(plan, stages=tuple(stages), teams=(*others, *new))


def _teams(cluster: Cluster, gpus: list[str], width: int) -> list[Team]:
    """Neighbours as teams; none where a team would be in several nodes or of several kinds."""
    if not width or len(gpus) % width:
        return []
    teams = [tuple(gpus[n : n + width]) for n in range(0, len(gpus), width)]
    sorts = ({(cluster.device(name).node, cluster.device(name).kind) for name in team} for team in teams)
    return teams if all(len(sort) == 1 for sort in sorts) else []
