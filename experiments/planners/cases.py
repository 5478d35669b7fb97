"""The cases of suite.toml, and what a planner makes of one.

In the group `even` memory does not count and devices are single. In the others a plan must fit, changed to do so where
pipesim can (`fit`), and devices may be teams.
"""

import itertools
import time
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from pipesim.analysis import metrics
from pipesim.architectures import ARCHITECTURES
from pipesim.architectures.roofline import roofline
from pipesim.base import lookup
from pipesim.base.errors import PipesimError
from pipesim.core.cluster import Cluster
from pipesim.core.costs import Costs, costs_of
from pipesim.core.plan import Plan
from pipesim.engines import by_name
from pipesim.lowering import Setup, lower
from pipesim.studies import loading, ordering, results, setups
from pipesim.studies.pricing import SCHEDULES
from pipesim.studies.simulation import Simulation

HERE = Path(__file__).parent
SUITE = tomllib.loads((HERE / "suite.toml").read_text(encoding="utf-8"))
MODELS: dict[str, str] = SUITE["models"]
CLUSTERS: dict[str, str] = SUITE["clusters"]
FITTING = ("pe", "one_f_one_b")  # schedules of the groups in which memory counts

Planner = str | Callable[..., Plan]


class Case(NamedTuple):
    """One case of a group."""

    group: str
    model: str
    cluster: str
    microbatches: int
    tensor: int = 1


def cases(group: str) -> list[Case]:
    """All cases of a group, in the order of the file."""
    given = SUITE["groups"][group]
    axes = given["models"], given["clusters"], given["microbatches"], given.get("tensor", [1])
    return [Case(group, *values) for values in itertools.product(*axes)]


def cluster_of(name: str) -> Cluster:
    """A cluster of the suite."""
    text = CLUSTERS[name]
    return loading.load_cluster(str(HERE / text) if text.endswith(".toml") else text)


def costs_for(model: str) -> Costs:
    """Times of the group `even`: those of a roofline over the V100's data sheet."""
    return costs_of(roofline(lookup.call(MODELS[model], ARCHITECTURES, "architecture"), ["v100-16gb"]))


def result_of(case: Case, planner: Planner) -> dict[str, Any]:
    """The least seconds of an iteration under the plan of a planner, with which schedule; or an error."""
    began = time.perf_counter()
    try:
        if case.group == "even":
            costs, cluster = costs_for(case.model), cluster_of(case.cluster)
            plan = setups.plan_with(planner, costs, cluster, case.microbatches)
            planned = time.perf_counter() - began
            seconds, best = min(timed(plan, costs, cluster))
            return _row(seconds, best, planned, len(plan.stages))
        return _fitting(case, planner)
    except PipesimError as error:
        return {"error": str(error).partition("\n")[0]}


def timed(plan: Plan, costs: Costs, cluster: Cluster) -> Iterator[tuple[float, str]]:
    """Seconds with each schedule that orders such plans."""
    for scheduler in SCHEDULES:
        try:
            schedule = ordering.schedule_with(scheduler, plan, costs, cluster)
        except PipesimError:  # this scheduler does not order such plans
            continue
        case = Setup(plan, schedule, costs, cluster)
        yield metrics.iteration_time(by_name.run(lower(case), "compiled")), scheduler


def _fitting(case: Case, planner: Planner) -> dict[str, Any]:
    found, began, planned = [], time.perf_counter(), 0.0
    for scheduler in FITTING:
        simulation = Simulation(
            trace=f"model:{MODELS[case.model]}",
            cluster=cluster_of(case.cluster),
            planner=planner,
            scheduler=scheduler,
            microbatches=case.microbatches,
            tensor=case.tensor if case.tensor > 1 else None,
            efficiency=0.5,
            engine="compiled",
        )
        result = results.simulate(simulation)
        planned = planned or time.perf_counter() - began
        if result.fits_memory:
            found.append((result.iteration_time, scheduler, len(result.setup.plan.stages)))
    if not found:
        return {"error": "no plan fits in memory"}
    seconds, scheduler, stages = min(found)
    return _row(seconds, scheduler, planned, stages)


def _row(seconds: float, scheduler: str, planning: float, stages: int) -> dict[str, Any]:
    return {"iteration_time_s": seconds, "scheduler": scheduler, "planning_s": round(planning, 3), "stages": stages}
