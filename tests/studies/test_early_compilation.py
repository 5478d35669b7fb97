"""The compiled engine is compiled by another process, for arguments of the types that it gets in this one."""

import importlib

import pytest

from helpers import small_programs
from pipesim.base import kernels
from pipesim.core.scenario import Scenario
from pipesim.engines import compiled
from pipesim.engines.sharing_rules import fair
from pipesim.studies import early_compilation, pricing


def test_what_the_example_compiles_is_all_that_other_programs_need():
    early_compilation.run_fair_sharing()
    event_loop = kernels.compiled(fair.run_from_beginning)._machine_code
    before = list(event_loop.signatures)
    programs = (small_programs.pair(), small_programs.pair(Scenario()), small_programs.replicated(microbatches=6))
    for program in programs:
        compiled.run(program)
        assert compiled.end_by(program, 10**12) is not None
    assert list(event_loop.signatures) == before, "other signatures would be compiled again, in this process"


@pytest.mark.parametrize(("planner", "asked"), [(lambda exact=None: exact, 1), (lambda seed=0: seed, 0)])
def test_it_is_asked_for_where_a_planner_is_certain_to_simulate(planner, asked, monkeypatch):
    calls = []
    monkeypatch.setattr(pricing, "compile_fair_sharing", lambda: calls.append(1))
    pricing.prices(planner, None, None)
    assert len(calls) == asked


def test_the_process_runs_the_example(monkeypatch):
    asked = []
    monkeypatch.setattr(early_compilation, "compile_elsewhere", lambda kernel, call: asked.append((kernel, call)))
    early_compilation.compile_fair_sharing()
    ((kernel, call),) = asked
    assert kernel is fair.run_from_beginning
    module, _, function = call.partition(":")
    assert getattr(importlib.import_module(module), function) is early_compilation.run_fair_sharing
