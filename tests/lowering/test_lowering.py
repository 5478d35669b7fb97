"""From plan and schedule to a program: what is assembled of all passes, and what is refused."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers import strategies
from helpers.networks import pipeline
from helpers.small_programs import star
from helpers.strategies import even_trace
from pipesim.base.errors import InputError, PlanError, ScheduleError
from pipesim.core.cluster import Cluster, Device
from pipesim.core.costs import costs_of
from pipesim.core.plan import Plan, Stage
from pipesim.core.schedule import parse
from pipesim.core.trace import Trace
from pipesim.engines.event import run
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


# --- teams -----------------------------------------------------------------------------------------------------------


@settings(max_examples=25)
@given(strategies.jobs(transfers=("eager", "rendezvous", "blocking")))
def test_teams_of_one_are_no_teams_to_the_last_bit(job):
    plan = replace(job.plan, teams=tuple((device,) for device in job.plan.devices))
    assert lower(Setup(plan, *job[1:5], scenario=job.scenario)).same_as(job.program)


SHAPES = st.sampled_from([(2, 1, 1), (4, 1, 1), (2, 2, 1), (3, 2, 2), (8, 1, 1)])


@settings(max_examples=40)
@given(strategies.traces(layers=4, kinds=("any",), chain=True), SHAPES, st.sampled_from(["none", "fair"]))
def test_a_width_t_is_a_trace_of_a_t_th(trace, shape, sharing):
    """Layers that are fully divided, with collectives that are free, as t pipelines side by side of a t-th each.

    Every GPU sends its part to its counterpart, over links of its own. In nanoseconds, as each task is rounded.
    """
    width, stages, replicas = shape
    count = stages * replicas
    devices = [f"g{i}" for i in range(count * width)]
    cluster = star(count * width)
    teams = tuple(tuple(devices[i : i + width]) for i in range(0, len(devices), width))
    held = [tuple(team[0] for team in teams[n * replicas : (n + 1) * replicas]) for n in range(stages)]
    cuts = [n * 4 // stages for n in range(stages + 1)]
    parts = tuple(Stage(a, b, row) for a, b, row in zip(cuts, cuts[1:], held, strict=False))
    wide = Plan("drawn", 4, 6, parts, "whole", teams=teams)
    single = replace(wide, teams=())
    order = gpipe(single)
    columns = trace.layers
    sizes = {name: columns[name] * width for name in ("output_bytes", "parameter_bytes")}
    rows = replace(strategies.at_widths(replace(trace, layers=columns | sizes), wide), sequence_parallel=True)
    small = replace(trace, layers={k: v / width if k.endswith("_s") else v for k, v in columns.items()})
    options = Options(sharing, optimizer_s_per_byte=1e-9)
    found = run(lower(Setup(wide, order, costs_of(rows, widths=wide.widths(0)), cluster, options)))
    expected = run(lower(Setup(single, order, costs_of(small), cluster, options)))
    assert abs(found.makespan - expected.makespan) <= len(expected.program)
