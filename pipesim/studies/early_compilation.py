"""Kernels that a study is certain to need, compiled by another process while the study does what comes before."""

import numpy as np

from pipesim.base import lookup
from pipesim.base.kernels import compile_elsewhere
from pipesim.core.costs import costs_of
from pipesim.core.sharing import sharing_rule
from pipesim.core.trace import Trace
from pipesim.engines import ENGINES
from pipesim.lowering import Options, Setup, lower
from pipesim.planners.uniform import uniform
from pipesim.schedulers.one_f_one_b import one_f_one_b
from pipesim.topologies.flat import flat


def compile_fair_sharing() -> None:
    """Have the compiled engine's event loop of rule `fair` compiled, where this machine has not done so yet."""
    compile_elsewhere(sharing_rule("fair").implementation("run_from_beginning"), f"{__name__}:run_fair_sharing")


def run_fair_sharing() -> None:
    """Run the compiled engine under rule `fair`, on two stages and one microbatch."""
    layers = {
        "layer": np.arange(2),
        "name": np.array(["first", "second"]),
        "forward_s": np.full(2, 1e-3),
        "backward_s": np.full(2, 2e-3),
        "output_bytes": np.full(2, 1000),
    }
    costs, cluster = costs_of(Trace("small", "made to compile kernels", 1, layers)), flat(2, "1GB/s")
    plan = uniform(costs.model, cluster, costs, 1)
    program = lower(Setup(plan, one_f_one_b(plan), costs, cluster, Options("fair")))
    lookup.function_named("compiled", ENGINES, "engine")(program)
