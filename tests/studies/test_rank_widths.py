"""Layouts whose ranks have teams of several widths: which there are, what they take at the least, what they end as."""

from dataclasses import replace

import pytest

import pipesim as ps
from pipesim.base.errors import InputError
from pipesim.core.devices import device_kind
from pipesim.core.teams import Widths, teams_of
from pipesim.studies.comparison import planners_for
from pipesim.studies.results import make_setup, simulated
from pipesim.studies.setups import setup_of
from pipesim.studies.simulation import Simulation
from pipesim.studies.sources import widths_of
from pipesim.studies.tuning import rank_widths
from pipesim.studies.tuning.search import METRICS, prepared
from pipesim.studies.tuning.space import LayoutChoice


def uneven(fast, slow, fewer=8):
    """A node of eight fast devices, and one of `fewer` slow ones."""
    cluster = ps.load_cluster(f'servers(2, 8, intra="300GB/s", inter="100Gb/s", nics=4, device="{fast}")')
    kind = device_kind(slow)
    names = [device.name for device in cluster.devices]
    gone = set(names[8 + fewer :])
    devices = [
        replace(one, kind=kind.name, memory=kind.memory, flops=kind.peak["fp16"]) if n >= 8 else one
        for n, one in enumerate(cluster.devices)
    ]
    return replace(
        cluster, devices=tuple(one for one in devices if one.name not in gone), name=f"{fast} and {slow}",
        links=tuple(one for one in cluster.links if not {one.source, one.target} & gone),
    )  # fmt: skip


MIXED = uneven("a100-80gb", "v100-16gb", 4)


def pricing_of(model, cluster, batch):
    return prepared(Simulation(trace=f"model:{model}", cluster=cluster, global_batch=batch), METRICS)[0]


def layouts(model="gpt-1.3b", cluster=MIXED, batch=16):
    pricing = pricing_of(model, cluster, batch)
    best = LayoutChoice(1, 4, 2, 1, 1, "none", "zero1", "one_f_one_b")
    other = replace(best, scheduler="interleaved", interleave=2, recompute="full", sequence_parallel=True)
    return pricing, rank_widths.layouts_of([best, other], pricing)


def test_sections_are_devices_of_a_kind_in_nodes_of_a_size():
    assert rank_widths.sections_of(MIXED) == {("a100-80gb", 8): 8, ("v100-16gb", 4): 4}
    even = ps.load_cluster("hgx_h100(2)")
    assert rank_widths.sections_of(even) == {("h100-80gb", 8): 16}
    assert not rank_widths.has_several(pricing_of("gpt-1.3b", even, 16))
    assert rank_widths.has_several(pricing_of("gpt-1.3b", uneven("a100-80gb", "a100-80gb", 4), 16))


def test_layouts_use_all_sections_and_no_more_devices_than_there_are():
    pricing, found = layouts()
    assert len(found) > 20
    for one in found:
        kinds = pricing.kinds(one)
        assert len(set(one.tensors)) > 1
        assert (len(one.tensors), one.tensors[0]) == (one.pipeline, one.tensor)
        assert set(kinds) == {"a100-80gb", "v100-16gb"}
        assert kinds["a100-80gb"] <= 8
        assert kinds["v100-16gb"] <= 4
        assert sum(kinds.values()) == one.gpus
    assert {one.kinds for one in found} == {"", "v100-16gb,a100-80gb"}


def test_no_simulation_is_faster_than_its_bounds_and_memory_is_exact():
    cluster = uneven("a100-40gb", "v100-16gb", 8)
    pricing, found = layouts(cluster=cluster)
    priced = [made for one in found if (made := pricing.priced(one)) is not None]
    near = []
    for one in priced[:: max(1, len(priced) // 12)]:
        (bound,) = rank_widths.bounds_of([one.candidate], pricing)
        setup = setup_of(replace(pricing.point(one.candidate, one.blocks, one.redone), cluster=cluster))
        assert [setup.plan.widths(n).tensor for n in range(len(setup.plan.stages))] == [
            *one.candidate.tensors * one.candidate.interleave
        ]
        result = simulated(setup, pricing.simulation)
        assert result.iteration_time >= one.bound
        assert result.iteration_time >= bound
        near.append(result.iteration_time / one.bound)
        assert result.fits_memory is pricing.fits(one), one
    assert min(near) < 1.1


def test_ranks_of_several_widths_are_best_where_the_slow_devices_are_small():
    """Of 13 billion parameters; the V100 hold their part alone, two A100 work on each layer of theirs."""
    simulation = Simulation(trace="model:gpt-13b", cluster=MIXED, global_batch=16, microbatch_size=1)
    found = ps.tune(simulation, budget=48, planners="none")
    one_width = ps.tune(simulation, budget=48, planners="none", within='widths == ""')
    assert found.best.candidate.widths == "2;1"
    assert found.best.iteration_time < 0.98 * one_width.best.iteration_time
    assert found.best.as_data()["tensor"] == "2;1"
    assert found.certificate <= min(one_width.certificate, found.best.iteration_time)
    again = ps.simulate(found.best.simulation)
    assert again.iteration_time == found.best.iteration_time
    assert found.counts.all > one_width.counts.all


def test_the_front_has_plans_of_any_widths_too():
    found = ps.tune(
        trace="model:gpt-1.3b", cluster=MIXED, global_batch=16, microbatch_size=1, budget=24, front=True,
        recompute="none", sharding="zero2", scheduler="one_f_one_b",
    )  # fmt: skip
    assert "any" in {row.candidate.widths for row in found.rows}
    assert [row.memory for row in found.front()] == sorted((row.memory for row in found.front()), reverse=True)
    best = next(row for row in found.rows if row.candidate.widths == "any")
    assert best.simulation.tensor == "any"
    assert ps.simulate(best.simulation).iteration_time == best.iteration_time


def test_what_is_given_keeps_widths_schedules_and_frameworks_as_they_are():
    given = {"trace": "model:gpt-1.3b", "cluster": MIXED, "global_batch": 16, "microbatch_size": 2, "budget": 24}
    given["recompute"] = "none"
    one = ps.tune(**given, tensor=2)
    assert {(row.candidate.tensor, row.candidate.widths) for row in one.rows} == {(2, "")}
    assert {row.candidate.scheduler for row in ps.tune(**given, scheduler="zb_v").rows} == {"zb_v"}
    framed = ps.tune(**given, framework="megatron", planners="spp_plus")
    assert {row.candidate.widths for row in framed.rows} == {""}


def test_times_of_several_widths_are_from_where_those_of_one_are():
    given = {"trace": "llama3-8b", "cluster": "hgx_h100(1)", "global_batch": 8}
    planned = {"trace": "llama3-8b", "cluster": "hgx_h100(1)", "plan": ps.make_setup(**given, tensor="4;2").plan}
    for result in (ps.simulate(**given, tensor="4;2"), ps.simulate(**planned), ps.simulate(**planned, tensor=2)):
        assert result.setup.costs.basis == "computed"
        assert "h100-80gb at tensor width 2 and tensor width 4 (" in result.origin
    assert " at tensor width" not in ps.simulate(**given, tensor="1;1").origin
    assert "tensor width 4 (" in ps.find_plan(**given, tensor="4;4").origin


def test_widths_that_a_kind_has_no_team_of_are_for_the_other_kinds():
    cluster = uneven("a100-80gb", "v100-16gb", 1)
    result = ps.simulate(trace="gpt-1.3b", cluster=cluster, global_batch=8, tensor="8;1")
    assert [result.setup.plan.widths(n).tensor for n in range(2)] == [8, 1]
    assert 0 < result.layout_bound < result.iteration_time
    given = {"trace": "gpt-1.3b", "cluster": uneven("a100-80gb", "v100-16gb", 2), "global_batch": 8}
    setup = ps.make_setup(**given, tensor="2;4;4", planner='megatron(kinds=("v100-16gb",))')
    assert ps.layout_bound(setup) <= simulated(setup, Simulation()).iteration_time
    with pytest.raises(InputError, match="has 10 GPUs; a team of 16"):
        ps.make_setup(**given, tensor="16;1")


def test_any_width_is_one_that_the_model_and_the_devices_have():
    cluster = uneven("a100-40gb", "v100-16gb", 4)
    for scaled in ({"trace": "qwen2.5-7b"}, {"trace": "bert-large", "scale_widths": True}):
        setup = ps.make_setup(
            **scaled, cluster=cluster, global_batch=8, tensor="any", planner="spp_plus(evaluations=4)"
        )
        assert setup.plan.planner == "spp_plus"
    within = "microbatch_size == 1 and recompute == 'none'"
    found = ps.tune("qwen2.5-7b", "hgx_h100(1)", global_batch=8, budget=4, within=within)
    assert found.best.candidate.tensor in {1, 2, 4}


def test_one_width_given_for_every_rank_is_that_width():
    given = {"trace": "llama3-8b", "cluster": "hgx_h100(1)", "global_batch": 8, "data": 2}
    one, other = (make_setup(tensor=tensor, **given, **more) for tensor, more in ((2, {"pipeline": 2}), ("2;2", {})))
    assert replace(other.plan, teams=()) == replace(one.plan, teams=())
    assert sorted(other.plan.teams) == sorted(one.plan.teams) == list(teams_of(one.cluster, 2))


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"tensor": "4;0"}, "a team of 0 GPUs found; 1 or more"),
        ({"tensor": "4;x"}, "'4;x' found; a width such as 8, 8;8;4 by rank, or any was expected"),
        ({"tensor": "any", "pipeline": 2}, "tensor = any and pipeline found; the planner chooses all of the layout"),
        (
            {"tensor": 4, "planner": "megatron(tensor=(4, 4))"},
            "tensor = 4 found beside planner .*, which states it too",
        ),
        ({"tensor": "4;2", "planner": "megatron(blocks=(10, 12, 10))"}, "pipeline x interleave = 2 x 1 were expected"),
        ({"tensor": "4;8"}, "1 x teams of 4, 8 GPUs found, for which there is no room from rank 1 on"),
        ({"tensor": "4;2", "pipeline": 3}, "2 widths found; pipeline = 3 were expected"),
        ({"tensor": "4;2", "planner": "spp"}, "tensor has no effect on planner 'spp'"),
    ],
)
def test_widths_that_cannot_be_are_refused_by_name(more, message):
    with pytest.raises(InputError, match=message):
        ps.make_setup("llama3-8b", "hgx_h100(1)", global_batch=8, **more)


def test_widths_of_ranks_are_tensor_widths():
    with pytest.raises(InputError, match="beside a context width"):
        widths_of(Simulation(tensor="4;2", context=2), ps.load_trace("bert-large"))


def test_a_plan_beside_widths_has_these():
    setup = ps.make_setup("llama3-8b", "hgx_h100(1)", global_batch=8, tensor="4;2")
    given = {"trace": "llama3-8b", "cluster": "hgx_h100(1)", "plan": setup.plan}
    assert [setup.costs_at(n).widths for n in range(2)] == [Widths(4), Widths(2)]
    assert ps.make_setup(**given, tensor="4;2").plan == setup.plan
    with pytest.raises(InputError, match="'2;4' found beside a plan whose ranks have 4;2"):
        ps.make_setup(**given, tensor="2;4")


def test_a_search_takes_one_width_at_most():
    with pytest.raises(InputError, match="one width, or none, was expected"):
        ps.tune("llama3-8b", "hgx_h100(1)", global_batch=8, tensor="4;2")


def test_compared_are_the_planners_that_take_what_is_given():
    assert planners_for(Simulation(tensor="4;2")) == ("megatron",)
    assert planners_for(Simulation(tensor="any")) == ("spp_plus",)
    assert len(planners_for(Simulation(tensor=2))) > 10
