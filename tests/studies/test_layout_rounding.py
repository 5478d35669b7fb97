"""What a framework cannot express is rounded to the nearest that it has, at a simulated cost."""

import itertools
from dataclasses import replace

import pytest

import pipesim as ps
from pipesim.frameworks.training_layout import InexpressibleError
from pipesim.studies import framework_layouts

FLAT = 'flat(4, bandwidth="1GB/s")'


def simulation(**fields):
    return ps.Simulation(**{"trace": "bert-large", "cluster": FLAT, "microbatches": 8} | fields)


@pytest.mark.parametrize("framework", ["megatron", "megatron-bridge", "torch"])
def test_arguments_of_a_plan_read_back_as_that_plan(framework):
    asked = simulation(planner="balanced")
    plan = ps.make_plan(asked)
    made = ps.layout.convert(asked, plan, framework)
    assert made.exact_s is None
    assert made.rounded_s is None
    layout = ps.layout.read(made.text, model="bert-large")
    assert layout.joined() == replace(made.layout.joined(), gradient_overlap=layout.gradient_overlap)
    assert ps.layout.plan(layout, "bert-large", FLAT).cuts == plan.cuts


def test_cuts_inside_of_blocks_are_rounded_and_the_cost_is_simulated():
    asked = simulation(planner="balanced", granularity="layer")
    bounds = framework_layouts.units_of("bert-large").bounds
    stages = tuple(ps.Stage(a, b, (f"gpu{n}",)) for n, (a, b) in enumerate([(0, 14), (14, 27), (27, 40), (40, 52)]))
    plan = ps.Plan("bert-large", 52, 8, stages)
    assert 14 not in bounds
    made = ps.layout.convert(asked, plan, "megatron")
    assert made.exact_s == ps.simulate(replace(asked, plan=plan, planner=None, microbatches=8)).iteration_time
    near = ps.layout.plan(made.layout, "bert-large", FLAT)
    assert set(near.cuts) <= set(bounds)
    again = ps.simulate(replace(asked, plan=near, planner=None, microbatches=8))
    assert made.rounded_s == again.iteration_time
    assert made.notes[0].startswith("rounded: 2 cuts inside of a block")


def test_the_fastest_of_the_parts_that_deepspeed_makes_is_taken():
    asked = simulation(planner="balanced")
    ends = [0, 3, 27, 41, 52]
    plan = ps.Plan(
        "bert-large", 52, 8, tuple(ps.Stage(a, b, (f"gpu{n}",)) for n, (a, b) in enumerate(itertools.pairwise(ends)))
    )
    made = ps.layout.convert(asked, plan, "deepspeed")
    assert made.rounded_s is not None
    assert made.exact_s is not None
    assert made.rounded_s < made.exact_s, "the second stage had 12 blocks of 24"
    with pytest.raises(InexpressibleError) as refused:
        ps.layout.write(ps.layout.of(plan), "deepspeed", "bert-large")
    times = [
        ps.simulate(replace(asked, plan=ps.layout.plan(one, "bert-large", FLAT), planner=None)).iteration_time
        for one in refused.value.nearest
    ]
    assert made.rounded_s == min(times)


def test_a_precision_that_a_framework_has_not_is_rounded():
    made = ps.layout.convert(simulation(planner="balanced"), ps.make_plan(simulation(planner="balanced")), "torchtitan")
    assert made.notes[0].startswith("rounded: precision fp16 found")
    assert made.rounded_s == made.exact_s
    assert made.layout.differences(ps.layout.read(made.text)) == ["gradient_overlap"], "FSDP overlaps by itself"


def test_plans_that_no_framework_has_are_refused():
    stages = (ps.Stage(0, 27, ("gpu0", "gpu1", "gpu2")), ps.Stage(27, 52, ("gpu3",)))
    with pytest.raises(InexpressibleError, match="1, 3 replicas"):
        ps.layout.convert(simulation(), ps.Plan("bert-large", 52, 8, stages), "megatron")


def test_a_schedule_without_a_class_in_pytorch_is_a_file_of_one_pipeline():
    asked = simulation(planner="megatron(pipeline=2, data=2)", scheduler="zb_h1")
    made = ps.layout.convert(asked, ps.make_plan(asked), "torch")
    assert '"schedule_csv": "schedule.csv"' in made.text
    rows = made.files["schedule.csv"].splitlines()
    assert [row.count("F") for row in rows] == [4, 4], "of 8 microbatches, each pipeline has 4"
    assert rows[0].startswith("0F0,0F1,0I0")


def test_devices_in_another_order_are_stated():
    stages = (ps.Stage(0, 27, ("gpu1",)), ps.Stage(27, 52, ("gpu0",)))
    made = ps.layout.convert(simulation(), ps.Plan("bert-large", 52, 8, stages), "megatron")
    assert made.ranks == ("gpu1", "gpu0")
    assert "gpu1, gpu0" in made.notes[0]


def test_chunks_that_options_state_are_written():
    asked = ps.Simulation(
        trace="llama3-8b", cluster="hgx_h100(1)", tensor=2, pipeline=2, data=2, interleave=2, global_batch=16,
        sequence_parallel=True, sharding="zero1", framework="megatron",
    )  # fmt: skip
    made = ps.layout.convert(asked, ps.make_plan(asked), "megatron")
    assert "--num-layers-per-virtual-pipeline-stage 8" in made.text
    assert "--use-distributed-optimizer" in made.text
    assert (made.layout.interleave, made.layout.scheduler, made.layout.global_batch) == (2, "interleaved", 16)


def test_what_a_framework_has_not_is_left_out_for_the_next():
    wave, plain = simulation(scheduler="zb_v"), simulation(planner="balanced")
    made = framework_layouts.best_of([wave, plain], "megatron")
    assert made.notes[0].startswith("of the table, 1 left out: stages that go down")
    assert made.text == ps.layout.convert(plain, ps.make_plan(plain), "megatron").text
    with pytest.raises(InexpressibleError, match="of the table, 1, 2 left out"):
        framework_layouts.best_of([wave, wave], "megatron")
