"""Plans whose stages have teams of several widths: what they are made from, and that they are no worse for it."""

from dataclasses import replace

import numpy as np
import pytest

import pipesim as ps
from helpers.strategies import at_widths, even_trace
from pipesim.base.errors import DoesNotFitError, InputError
from pipesim.core.costs import costs_of
from pipesim.core.plan import Plan, Stage
from pipesim.core.teams import Widths
from pipesim.lowering import state_factor
from pipesim.planners.spp import holds, memory_limit
from pipesim.planners.spp.rdo import given
from pipesim.planners.spp_plus import polish, spp_plus
from pipesim.planners.spp_plus.team_widths import problems, regrouped
from pipesim.studies import setups
from pipesim.studies.pricing import simulated_seconds

CLUSTER = ps.load_cluster('servers(2, 4, intra="25GB/s", inter="10Gb/s", device="v100-16gb")')
NAMES = [device.name for device in CLUSTER.devices]


def costs_at(widths=(1, 2, 4), trace=None):
    """Costs at these widths, for those of the first; a layer takes a t-th of the time at width t."""
    trace = trace or even_trace(8, 5e-3, 10e-3)
    teams, start = [], 0
    for width in widths:
        teams.append(tuple(f"g{start + n}" for n in range(width)))
        start += width
    stages = tuple(Stage(n, n + 1, (team[0],)) for n, team in enumerate(teams))
    plan = Plan("", len(stages), 1, stages, teams=tuple(team for team in teams if len(team) > 1))
    return costs_of(at_widths(trace, plan), widths=Widths(widths[0]))


def uneven_costs():
    """Of eight layers the first four are faster on teams, and have many parameters; the others are slower on teams."""
    costs = costs_at((1, 2), even_trace(8, 5e-3, 10e-3, output_bytes=10_000, parameter_bytes=40_000_000))
    wide = costs.at(Widths(2))
    slow = np.tile([1.0, 1.0, 1.0, 1.0, 2.5, 2.5, 2.5, 2.5], 1)
    samples = {phase: values * slow for phase, values in wide.samples.items()}
    return replace(costs, others={Widths(2): replace(wide, samples=samples)})


def test_there_is_a_problem_for_each_width_that_the_cluster_has_teams_of():
    found = list(problems(costs_at((1, 2, 4, 9)), CLUSTER))
    assert [(of.widths.gpus, len(of.cluster.devices)) for of in found] == [(1, 8), (2, 4), (4, 2)]
    for of in found:
        assert of.costs.widths == Widths()
        assert of.costs.forward("v100-16gb").sum() == pytest.approx(8 * 5e-3 / of.widths.gpus)
    (_, of, _) = found
    plan = Plan("even", 8, 4, (Stage(0, 4, (NAMES[0],)), Stage(4, 8, (NAMES[4],))))
    assert of.with_teams(plan).teams == (tuple(NAMES[0:2]), tuple(NAMES[4:6]))


def test_a_stage_is_regrouped_within_nodes_and_back_again():
    costs = costs_at()
    plan = Plan("even", 8, 4, (Stage(0, 4, tuple(NAMES[:4])), Stage(4, 8, tuple(NAMES[4:]))))
    found = list(regrouped(plan, costs, CLUSTER))
    assert [[one.gpus for one in each.widths_of_stages()] for each in found] == [[2, 1], [1, 2]]
    for each in found:
        assert sorted(each.gpus) == sorted(NAMES)
        assert [(stage.start, stage.stop) for stage in each.stages] == [(0, 4), (4, 8)]
        assert all(len({CLUSTER.device(name).node for name in team}) == 1 for team in each.teams)
        assert plan in regrouped(each, costs, CLUSTER)
    whole = replace(plan, stages=(Stage(0, 8, (NAMES[0], NAMES[4])),), teams=(tuple(NAMES[:4]), tuple(NAMES[4:])))
    assert [[one.gpus for one in each.widths_of_stages()] for each in regrouped(whole, costs, CLUSTER)] == [[2]]
    across = replace(plan, stages=(Stage(0, 8, (NAMES[3], NAMES[4])),))
    assert list(regrouped(across, costs, CLUSTER)) == []  # a team would be in two nodes
    odd = replace(plan, stages=(Stage(0, 8, tuple(NAMES[:3])),))
    assert list(regrouped(odd, costs, CLUSTER)) == []
    loop = replace(plan, stages=(Stage(0, 4, tuple(NAMES[:4])), Stage(4, 8, tuple(NAMES[:4]))))
    assert list(regrouped(loop, costs, CLUSTER)) == []


def test_moves_of_plans_with_teams_keep_a_stage_of_one_width():
    plan = Plan(
        "even", 8, 4, (Stage(0, 3, (NAMES[0], NAMES[2])), Stage(3, 6, tuple(NAMES[4:6])), Stage(6, 8, (NAMES[6],))),
        teams=(tuple(NAMES[0:2]), tuple(NAMES[2:4])),
    )  # fmt: skip
    found = list(polish.moved(plan, set()))
    assert len(found) > 8
    assert all(one.teams == plan.teams for one in found)
    first = found[0]
    assert first not in polish.moved(plan, {polish.key_of(first)})


def test_teams_of_several_widths_are_found_where_layers_differ():
    costs, times = uneven_costs(), {}
    best = setups.plan_with("spp_plus(teams=True)", costs, CLUSTER, 8)
    assert best.objective_s == simulated_seconds(costs, CLUSTER, best)
    for of in problems(costs, CLUSTER):
        plan = setups.plan_with("spp_plus", of.costs, of.cluster, 8)
        times[of.widths.gpus] = simulated_seconds(costs, CLUSTER, of.with_teams(plan))
    assert set(best.widths_of_stages()) == {Widths(1), Widths(2)}
    assert best.objective_s < 0.98 * min(times.values())


@pytest.mark.parametrize("seed", range(3))
def test_plans_are_never_worse_than_those_of_one_width(seed):
    rng = np.random.default_rng(seed)
    costs = costs_at((1, 2), even_trace(6, 5e-3, 10e-3, output_bytes=int(rng.integers(1e4, 1e6))))
    samples = {phase: values * rng.uniform(0.8, 1.8, 6) for phase, values in costs.at(Widths(2)).samples.items()}
    costs = replace(costs, others={Widths(2): replace(costs.at(Widths(2)), samples=samples)})
    best = setups.plan_with("spp_plus(teams=True, evaluations=30)", costs, CLUSTER, 4)
    for of in problems(costs, CLUSTER):
        plan = setups.plan_with("spp_plus(evaluations=30)", of.costs, of.cluster, 4)
        assert best.objective_s <= simulated_seconds(costs, CLUSTER, of.with_teams(plan))


def test_with_a_limit_of_memory_every_stage_holds_what_it_must():
    costs = uneven_costs()
    model = costs.model
    need = (model.parameter_bytes * state_factor(model.precision)).sum()
    small = replace(CLUSTER, devices=tuple(replace(one, memory=int(need / 3)) for one in CLUSTER.devices))
    best = setups.plan_with("spp_plus(teams=True, memory='one_f_one_b', evaluations=40)", costs, small, 8)
    limits = {of.widths: memory_limit(of.costs, small, given(small), 8, "one_f_one_b") for of in problems(costs, small)}
    assert holds(limits, small, best)
    tiny = replace(CLUSTER, devices=tuple(replace(one, memory=1000) for one in CLUSTER.devices))
    with pytest.raises(DoesNotFitError, match="of whatever width its teams are"):
        setups.plan_with("spp_plus(teams=True, memory='one_f_one_b', evaluations=4)", costs, tiny, 8)


def test_teams_need_plans_to_be_simulated():
    costs = costs_at()
    with pytest.raises(InputError, match="teams = True found; it needs plans to be simulated"):
        spp_plus(costs.model, CLUSTER, costs, 4, teams=True)


def test_any_width_is_the_choice_of_the_planner():
    given_ = {"trace": "gpt3-1.3b", "cluster": 'servers(1, 4, intra="300GB/s", inter="10Gb/s", device="a100-40gb")'}
    setup = ps.make_setup(**given_, tensor="any", global_batch=4)
    assert setup.plan.planner == "spp_plus"
    assert {setup.costs_at(n).widths for n in range(len(setup.plan.stages))} == {
        setup.costs.widths,
        *setup.costs.others,
    }
    with pytest.raises(InputError, match=r"tensor = any has no effect on planner 'balanced', .* 'spp_plus' takes it"):
        ps.make_setup(**given_, tensor="any", global_batch=4, planner="balanced")
    with pytest.raises(InputError, match="one width, or none, was expected"):
        ps.tune(**given_, tensor="any", global_batch=4)
