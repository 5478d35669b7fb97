"""Options with which a simulation that does not fit in memory would: each is tried, none is guessed."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import product
from typing import Any

from pipesim.base.errors import PipesimError
from pipesim.lowering import Setup
from pipesim.studies.memory_fit import fits
from pipesim.studies.setups import setup_of
from pipesim.studies.simulation import Simulation

_WIDEST = 8
Fields = Mapping[str, Any]


def remedies(simulation: Simulation, setup: Setup) -> tuple[str, ...]:
    """Changes of options after which the devices hold what they must; pairs of them where no single one suffices."""
    kept = list(_with_the_plan(simulation, setup))
    single = [*kept, *_with_another_plan(simulation, setup)]
    found = [one for one in single if _fits(one, simulation, setup)]
    if not found:
        by_name = [[one for one in kept if name in one] for name in ("recompute", "sharding")]
        found = [both for a, b in product(*by_name) if _fits(both := {**a, **b}, simulation, setup)]
    return tuple(" ".join(f"--{name.replace('_', '-')} {value}" for name, value in one.items()) for one in found)


def _with_the_plan(simulation: Simulation, setup: Setup) -> Iterator[Fields]:
    """Recomputation, and what replicas divide: these leave the plan as it is."""
    levels = {"none": ("selective", "full"), "selective": ("full",)}
    yield from ({"recompute": value} for value in levels.get(simulation.recompute, ()))
    shardings = ["none", "zero1", "zero2", "zero3"]
    if max(setup.plan.replication) > 1:
        yield from ({"sharding": value} for value in shardings[shardings.index(setup.options.sharding) + 1 :])


def _with_another_plan(simulation: Simulation, setup: Setup) -> Iterator[Fields]:
    """Wider teams, and longer pipelines."""
    if simulation.plan is not None or isinstance(simulation.tensor, str):
        return
    width = setup.costs.widths.tensor * 2
    while width <= _WIDEST:
        yield {"tensor": width}
        width *= 2
    for times in (2, 4) if simulation.pipeline is not None else ():
        longer = {"pipeline": (simulation.pipeline or 1) * times}
        fewer = {} if simulation.data is None else {"data": simulation.data // times}
        yield {**longer, **fewer}


def _fits(fields: Fields, simulation: Simulation, setup: Setup) -> bool:
    """Whether it fits with these fields; with the plan that there is, unless they change the plan."""
    changed = replace(simulation, **fields)
    if not {"tensor", "pipeline"} & set(fields):
        changed = replace(changed, plan=setup.plan, planner=None, pipeline=None, data=None, interleave=None)
        changed = replace(changed, scheduler=simulation.scheduler)
    with suppress(PipesimError):
        return fits(setup_of(changed))
    return False
