"""Kernels that a study is certain to need, compiled by another process while the study does what comes before."""

import numpy as np

from pipesim.analysis.bounds import plan_bound, reach, tails
from pipesim.base import lookup
from pipesim.base.kernels import compile_elsewhere
from pipesim.core.costs import Costs, costs_of
from pipesim.core.sharing import sharing_rule
from pipesim.core.trace import Trace
from pipesim.engines import ENGINES
from pipesim.lowering import Options, Setup, lower
from pipesim.planners.uniform import uniform
from pipesim.schedulers.one_f_one_b import one_f_one_b
from pipesim.topologies.flat import flat


def compile_fair_sharing() -> None:
    """Have the compiled engine's event loop of rule `fair` compiled, where this machine has not done so yet."""
    compile_elsewhere(f"{__name__}:run_fair_sharing", sharing_rule("fair").implementation("run_from_beginning"))


def compile_bounds() -> None:
    """Have the kernels of the certified bound compiled, where this machine has not done so yet."""
    compile_elsewhere(f"{__name__}:run_bounds", tails.backwards, reach.extended, later=True)


def run_fair_sharing() -> None:
    """Run the compiled engine under rule `fair`, on two stages and one microbatch."""
    costs, cluster = _small_costs(), flat(2, "1GB/s")
    plan = uniform(costs.model, cluster, costs, 1)
    program = lower(Setup(plan, one_f_one_b(plan), costs, cluster, Options("fair")))
    lookup.function_named("compiled", ENGINES, "engine")(program)


def run_bounds() -> None:
    """Bound two layers on two devices."""
    plan_bound(_small_costs(), flat(2, "1GB/s"), 1)


def _small_costs() -> Costs:
    layers = {
        "layer": np.arange(2),
        "name": np.array(["first", "second"]),
        "forward_s": np.full(2, 1e-3),
        "backward_s": np.full(2, 2e-3),
        "output_bytes": np.full(2, 1000),
    }
    return costs_of(Trace("small", "made to compile kernels", 1, layers))
