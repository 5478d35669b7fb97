"""From plan and schedule to a program: what is assembled of all passes, and what is refused."""

import pytest

from helpers.networks import pipeline
from helpers.small_programs import star
from helpers.strategies import even_trace
from pipesim.base.errors import InputError, PlanError, ScheduleError
from pipesim.core.cluster import Cluster, Device
from pipesim.core.costs import costs_of
from pipesim.core.plan import Plan, Stage
from pipesim.core.schedule import parse
from pipesim.core.trace import Trace
from pipesim.lowering import Options, Setup, lower
from pipesim.schedulers.gpipe import gpipe


@pytest.mark.parametrize(("precision", "state", "expected"), [("fp32", None, 4), ("fp16", None, 8), ("fp32", 0.0, 2)])
def test_static_memory_is_parameters_gradients_and_optimizer_state(precision, state, expected):
    base = even_trace(2, parameter_bytes=900)
    costs = costs_of(Trace("even", "test", 1, base.layers, precision=precision))
    plan = Plan("even", 2, 1, (Stage(0, 2, ("g0",)),))
    program = lower(Setup(plan, gpipe(plan), costs, star(1), Options(optimizer_state=state)))
    assert program.static_memory.tolist() == [expected * 1800]


def test_a_schedule_for_another_plan_is_refused():
    with pytest.raises(ScheduleError, match="2 ranks found; 1 were expected"):
        pipeline([1], [1], 1, parse("0F0,0B0\n1F0,1B0"))


def test_a_plan_for_another_model_is_refused():
    plan = Plan("m", 3, 1, (Stage(0, 3, ("g0",)),))
    with pytest.raises(PlanError, match=r"the plan is for 3 layers .* 'even' has 2"):
        lower(Setup(plan, gpipe(plan), costs_of(even_trace(2)), star(1)))


def test_devices_that_cannot_reach_each_other_are_refused():
    apart = Cluster("apart", (Device("g0", "any"), Device("g1", "any")))
    plan = Plan("even", 2, 1, (Stage(0, 1, ("g0",)), Stage(1, 2, ("g1",))))
    with pytest.raises(InputError, match=r"no route from 'g[01]' to 'g[01]'"):
        lower(Setup(plan, gpipe(plan), costs_of(even_trace(2)), apart))
