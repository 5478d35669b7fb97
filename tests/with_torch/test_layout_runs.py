"""Plans and schedules that `--to torch` writes train a model on two real processes, as it trains in one piece."""

import json

import pytest

import pipesim as ps
from helpers.small_traces import sampled_trace

torch = pytest.importorskip(
    "torch.distributed.pipelining.schedules",
    reason="PyTorch is not installed, or without torch.distributed: pip install 'pipesim[torch]'",
    exc_type=ImportError,
).torch
if not torch.distributed.is_gloo_available():
    pytest.skip("this PyTorch was built without gloo", allow_module_level=True)

from with_torch import layout_process, test_torch_runs

MICROBATCHES = 4
# Scheduler -> what PyTorch runs it as; None is a schedule from a file.
RUN = {
    "one_f_one_b": "1F1B",
    "gpipe": "GPipe",
    "interleaved": "Interleaved1F1B",
    "looped_bfs": "LoopedBFS",
    "interleaved_zb_1p": "InterleavedZeroBubble",
    "zb_v": "ZBVZeroBubble",
    "dualpipe_v": "DualPipeV",
    "zb_h1": None,
    "interleaved_zb": None,
    "v_half": None,
    "hanayo(waves=2)": None,
}


def converted(folder, n, scheduler):
    """A case: a plan for layers of unequal times, in PyTorch's words, as files in a folder."""
    layers = range(layout_process.LAYERS)
    trace = sampled_trace(*([1e-3 * (1 + (one % 3))] for one in layers), names=[str(one) for one in layers])
    asked = ps.Simulation(
        trace=trace, cluster='flat(2, bandwidth="1GB/s")', planner="balanced", scheduler=scheduler,
        microbatches=MICROBATCHES, microbatch_size=trace.microbatch_size,
    )  # fmt: skip
    setup = ps.make_setup(asked)
    made = ps.layout.convert(asked, setup.plan, "torch", f"case{n}.csv")
    (folder / f"case{n}.json").write_text(made.text, encoding="utf-8")
    for name, text in made.files.items():
        (folder / name).write_text(text, encoding="utf-8")
    return made


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where two processes have run all cases."""
    folder = tmp_path_factory.mktemp("layouts")
    for n, scheduler in enumerate(RUN):
        converted(folder, n, scheduler)
    (folder / "cases.json").write_text(json.dumps([f"case{n}" for n in range(len(RUN))]), "utf-8")
    test_torch_runs.run_all(folder, layout_process.__file__)
    return folder


@pytest.mark.parametrize("scheduler", RUN)
def test_gradients_are_those_of_the_model_in_one_piece(folder, scheduler):
    n = list(RUN).index(scheduler)
    layout = json.loads((folder / f"case{n}.json").read_text(encoding="utf-8"))
    assert layout["schedule"] == (RUN[scheduler] or "_PipelineScheduleRuntime")
    assert [module for one in layout["stages"] for module in one["modules"]] == [
        str(m) for m in range(layout_process.LAYERS)
    ]
    parts = [torch.load(folder / f"case{n}.{rank}.pt") for rank in range(2)]
    found = {key: value for part in parts for key, value in part["gradients"].items()}
    whole = layout_process.model()
    inputs, targets = layout_process.batch(MICROBATCHES)
    outputs = whole(inputs)
    torch.nn.functional.mse_loss(outputs, targets).backward()
    test_torch_runs.assert_near(found, {key: value.grad for key, value in whole.named_parameters()})
    losses = [part["losses"] for part in parts if part["losses"]]
    pairs = zip(outputs.detach().chunk(MICROBATCHES), targets.chunk(MICROBATCHES), strict=True)
    test_torch_runs.assert_near(losses[0], [torch.nn.functional.mse_loss(*pair) for pair in pairs])
