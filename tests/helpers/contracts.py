"""What every member of a family must do, whoever writes it: one judge per family."""

import functools
import inspect
import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace

import networkx as nx
import numpy as np
import pytest

from pipesim.base import serialisation
from pipesim.base.arrays import Ints
from pipesim.base.errors import CorruptTimelineError, InputError, ScheduleError
from pipesim.core import legality
from pipesim.core import plan as plans
from pipesim.core import schedule as schedules
from pipesim.core.cluster import Cluster
from pipesim.core.costs import Costs
from pipesim.core.plan import Plan
from pipesim.core.program import Program
from pipesim.core.schedule import Schedule
from pipesim.core.sharing import SharingRule
from pipesim.core.timeline import Timeline
from pipesim.engines import compiled, event


def check_topology(cluster: Cluster) -> None:
    """A topology gives named devices, all joined, with routes that are shortest and then widest, and a file form."""
    _check_devices(cluster)
    assert all(link.duplex == "full" for link in cluster.links), "a topology's links are full duplex"
    _check_routes(cluster)
    matrix = cluster.bandwidth_matrix
    assert np.array_equal(matrix, matrix.T), "over full-duplex links the way back is as wide as the way there"
    for suffix in (".toml", ".json"):
        data = serialisation.parse_data(serialisation.dumps(cluster, suffix), suffix)
        serialisation.check_header(data, Cluster.FORMAT, Cluster.VERSION)
        body = {key: value for key, value in data.items() if key not in {"format", "version"}}
        assert serialisation.from_data(Cluster, body) == cluster, f"reading {suffix} gives what was written"


def _check_devices(cluster: Cluster) -> None:
    for device in cluster.devices:
        assert device.node, f"{device.name} must say on which node it is"
        assert device.kind
        assert device.memory >= 0
        assert device.flops is None or device.flops > 0
    assert cluster.name


def _check_routes(cluster: Cluster) -> None:
    """Against all shortest paths that networkx finds in the graph."""
    names = [device.name for device in cluster.devices]
    for source, target in itertools.permutations(names, 2):
        route = cluster.route(source, target)
        path = vertices_of(cluster, source, route.links)
        assert path[-1] == target, "a route leads from its source to its target"
        shortest = [list(p) for p in nx.all_shortest_paths(cluster.graph, source, target)]
        assert path in shortest, "a route has the fewest hops"
        widest = max(_bottleneck(cluster, p) for p in shortest)
        assert route.bandwidth == widest == _bottleneck(cluster, path), "among those it is the widest"
        assert cluster.bandwidth_matrix[cluster.index[source], cluster.index[target]] == widest
        expected = [cluster.graph.edges[edge]["medium"] for edge in itertools.pairwise(path)]
        assert [cluster.media[medium] for medium in route.media] == list(dict.fromkeys(expected))


def vertices_of(cluster: Cluster, source: str, links: tuple[int, ...]) -> list[str]:
    """The vertices that links lead through, from the source on."""
    path = [source]
    for link in links:
        ends = {cluster.links[link].source, cluster.links[link].target}
        assert path[-1] in ends, "each link of a route goes on where the one before ends"
        path.extend(ends - {path[-1]})
    return path


def _bottleneck(cluster: Cluster, path: list[str]) -> float:
    return min(cluster.graph.edges[edge]["bandwidth"] for edge in itertools.pairwise(path))


def check_planner(planner: Callable[..., Plan], costs: Costs, cluster: Cluster, microbatches: int) -> Plan | None:
    """A planner gives a plan that fits, names itself, is the same again, and says what it optimises and ignores.

    None from a planner that holds to the devices' memory and says that nothing fits there.
    """
    plan, refusal = _plan_or_refusal(lambda: planner(costs.model, cluster, costs, microbatches))
    if plan is None:
        assert "memory_limit" in inspect.signature(planner).parameters, "only a planner with a limit may find no plan"
        assert "no plan fits the memory" in refusal
        assert "bytes short" in refusal
        assert check_planner(functools.partial(planner, memory_limit=False), costs, cluster, microbatches)
        return None
    plans.check_fits(plan, costs.model, cluster)
    assert plan.microbatches == microbatches
    assert plan.planner, "a plan says who made it"
    assert plan == planner(costs.model, cluster, costs, microbatches), "the same input gives the same plan"
    text = (getattr(planner, "func", planner).__doc__ or "").lower()
    assert "ignores" in text, "the docstring says what the planner ignores"
    data = serialisation.parse_data(serialisation.dumps(plan, ".json"), ".json")
    body = {key: value for key, value in data.items() if key not in {"format", "version"}}
    assert serialisation.from_data(Plan, body) == plan
    return plan


def _plan_or_refusal(make: Callable[[], Plan]) -> tuple[Plan | None, str]:
    try:
        return make(), ""
    except InputError as error:
        return None, str(error)


def check_scheduler(scheduler: Callable[..., Schedule], plan: Plan, costs: Costs, cluster: Cluster) -> Schedule | None:
    """A scheduler orders every action of a plan, possibly and always alike, or says why not for this plan."""
    assert scheduler.__doc__
    schedule, refusal = _made_or_refused(lambda: scheduler(plan, costs, cluster))
    if schedule is None:
        assert len(refusal) > 20, "a refusal says why"
        return None
    legality.check(schedule, plan)
    assert schedule == scheduler(plan, costs, cluster), "the same input gives the same schedule"
    assert schedules.parse(str(schedule)) == schedule
    return schedule


def _made_or_refused(make: Callable[[], Schedule]) -> tuple[Schedule | None, str]:
    try:
        return make(), ""
    except ScheduleError as error:
        return None, str(error)


def check_engine(engine: Callable[[Program], Timeline], program: Program, reference: Timeline) -> Timeline:
    """An engine obeys the rules, and agrees with the reference to the last bit."""
    timeline = engine(program)  # verified as all timelines that tests make
    assert timeline.same_as(reference)
    assert np.array_equal(timeline.moved, reference.moved)
    assert (timeline.rates is None) == (reference.rates is None)
    if timeline.rates is not None and reference.rates is not None:
        for name in ("task", "time", "rate"):
            assert np.array_equal(getattr(timeline.rates, name), getattr(reference.rates, name))
    assert timeline.engine, "a timeline says who made it"
    return timeline


def check_sharing_rule(rule: SharingRule, program: Program) -> None:
    """Both engines agree under a rule, what they make passes its check, and what is spoilt does not.

    The program's transfers must contend for links: more of them than its links carry at once.
    """
    assert rule.about
    assert not (rule.one_at_a_time and rule.rated), "rates of what has its links to itself do not change"
    program = replace(program, sharing=rule.name)
    reference = event.run(program)
    check_engine(compiled.run, program, reference)
    reference.verify()
    assert (reference.rates is not None) == rule.rated
    transfers = np.flatnonzero(~program.is_compute)
    waited = np.maximum(reference.start - reference.ready, reference.end - reference.start - program.duration)
    assert (waited[transfers] > 0).any() == rule.contended, "transfers delay each other if the rule says so"
    for spoilt in _spoilt(reference, transfers):
        with pytest.raises(CorruptTimelineError):
            spoilt.verify()


def _spoilt(timeline: Timeline, transfers: Ints) -> Iterator[Timeline]:
    """One transfer at a time ends too early, starts too late, or has another rate."""
    for task in transfers.tolist():
        for start, end in ((0, -1), (1, 1)):
            starts, ends = timeline.start.copy(), timeline.end.copy()
            starts[task] += start
            ends[task] += end
            yield replace(timeline, start=starts, end=ends)
    if timeline.rates is not None:
        yield replace(timeline, rates=None)
        for row in range(len(timeline.rates.rate)):
            rate = timeline.rates.rate.copy()
            rate[row] *= 1.1
            yield replace(timeline, rates=replace(timeline.rates, rate=rate))
