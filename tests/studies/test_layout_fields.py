"""What a layout states of a simulation, and what a simulation does otherwise."""

import pipesim as ps
from pipesim.studies import framework_layouts

FLAT = 'flat(4, bandwidth="1GB/s")'


def simulation(**fields):
    return ps.Simulation(**{"trace": "bert-large", "cluster": FLAT, "microbatches": 8} | fields)


def test_what_was_simulated_is_a_layout_with_its_options():
    result = ps.simulate(
        "llama3-8b", "hgx_h100(1)", tensor=2, pipeline=2, data=2, interleave=2, global_batch=8, sequence_parallel=True,
        recompute="full", sharding="zero1", framework="megatron", gradient_overlap=True,
    )  # fmt: skip
    layout = ps.layout.of(result)
    assert (layout.tensor, layout.pipeline, layout.data, layout.interleave) == (2, 2, 2, 2)
    assert (layout.sequence_parallel, layout.recompute, layout.sharding, layout.global_batch) == (
        True,
        "full",
        "zero1",
        8,
    )
    text = ps.layout.write(layout, "megatron")
    assert "--num-layers-per-virtual-pipeline-stage 8" in text
    back = ps.layout.read(text, model="llama3-8b")
    fields = ps.layout.simulation_fields(back, "llama3-8b")
    plan = ps.layout.plan(back, "llama3-8b", "hgx_h100(1)")
    again = ps.simulate("llama3-8b", "hgx_h100(1)", plan=plan, **fields)
    assert again.iteration_time == result.iteration_time, "written and read back, it simulates to the same time"


def test_what_is_simulated_otherwise_is_stated():
    text = (
        "--num-layers 4 --pipeline-model-parallel-size 2 --recompute-granularity full --recompute-method uniform "
        "--recompute-num-layers 2 --use-distributed-optimizer --overlap-grad-reduce --expert-tensor-parallel-size 2"
    )
    notes = framework_layouts.approximations(ps.layout.read(text))
    assert ["units of 2" in notes[0], "one option" in notes[1], "experts" in notes[2]] == [True] * 3
    selective = ps.layout.read("--num-layers 4 --recompute-granularity selective --recompute-modules mlp layernorm")
    assert "mlp, layernorm" in framework_layouts.approximations(selective)[0]
