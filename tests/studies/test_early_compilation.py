"""The compiled engine is compiled by another process, for arguments of the types that it gets in this one."""

import importlib

import pytest

from helpers import small_programs, strategies
from pipesim.analysis import bounds
from pipesim.analysis.bounds import reach, tails
from pipesim.base import kernels
from pipesim.core.costs import costs_of
from pipesim.core.scenario import Scenario
from pipesim.engines import compiled
from pipesim.engines.sharing_rules import fair
from pipesim.studies import early_compilation, pricing
from pipesim.topologies.servers import servers


def test_what_the_example_compiles_is_all_that_other_programs_need():
    early_compilation.run_fair_sharing()
    event_loop = kernels.compiled(fair.run_from_beginning)._machine_code
    before = list(event_loop.signatures)
    programs = (small_programs.pair(), small_programs.pair(Scenario()), small_programs.replicated(microbatches=6))
    for program in programs:
        compiled.run(program)
        assert compiled.end_by(program, 10**12) is not None
    assert list(event_loop.signatures) == before, "other signatures would be compiled again, in this process"


def test_the_example_of_bounds_compiles_all_that_other_bounds_need():
    early_compilation.run_bounds()
    found = [kernels.compiled(kernel)._machine_code for kernel in (tails.backwards, reach.extended)]
    before = [list(code.signatures) for code in found]
    costs = costs_of(strategies.even_trace(6))
    for cluster in (servers(2, 2, intra="25GB/s", inter="10Gb/s"), servers(5, 2, intra="25GB/s", inter="10Gb/s")):
        assert bounds.plan_bound(costs, cluster, 4) > 0
    assert [list(code.signatures) for code in found] == before


@pytest.mark.parametrize(("planner", "asked"), [(lambda exact=None: exact, 1), (lambda seed=0: seed, 0)])
def test_it_is_asked_for_where_a_planner_is_certain_to_simulate(planner, asked, monkeypatch):
    calls = []
    monkeypatch.setattr(pricing, "compile_fair_sharing", lambda: calls.append(1))
    pricing.prices(planner, None, None)
    assert len(calls) == asked


def test_the_process_runs_the_example(monkeypatch):
    asked = []
    monkeypatch.setattr(early_compilation, "compile_elsewhere", lambda *given, **_: asked.append(given))
    early_compilation.compile_fair_sharing()
    early_compilation.compile_bounds()
    expected = [
        (early_compilation.run_fair_sharing, fair.run_from_beginning),
        (early_compilation.run_bounds, tails.backwards, reach.extended),
    ]
    for (call, *found), (example, *kernels_of_it) in zip(asked, expected, strict=True):
        module, _, function = call.partition(":")
        assert getattr(importlib.import_module(module), function) is example
        assert found == kernels_of_it
