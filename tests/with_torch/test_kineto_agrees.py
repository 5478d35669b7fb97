"""What the importer reads from a profile of a model is what the recorder says of the same model."""

import importlib.util
import sys
from functools import partial
from pathlib import Path

import pytest

pytest.importorskip("torch.profiler", reason="PyTorch is not installed; make test-torch runs these tests")
kineto = pytest.importorskip("pipesim.importers.kineto", reason="there is no importer of Kineto files")

import torch
from torch.utils import checkpoint

from pipesim.base.errors import RefusedError
from pipesim.core.costs import costs_of
from pipesim.recorders import layer_recording, quiet, subjects
from pipesim.recorders.measuring import Settings

MODELS = Path(__file__).parents[2] / "traces" / "recorded-cpu" / "models.py"
PATIENCE = 20.0
ATTEMPTS = 3
PHASES = ("forward", "backward")


@pytest.fixture(scope="module")
def gpt():
    """A GPT of two blocks, with operators long enough not to be lost in the profiler's own time."""
    spec = importlib.util.spec_from_file_location("recorded_models", MODELS)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield partial(module.gpt, depth=2, vocabulary=4096)
    del sys.modules[spec.name]


def profiled(factory, path):
    """The trace that the importer makes of a profile, in which every layer is a range; on one thread, as recorded."""
    torch.set_num_threads(1)
    subject = subjects.make_subject(factory, 4, torch.device("cpu"))
    steps = torch.profiler.schedule(wait=0, warmup=2, active=8, repeat=1)
    with torch.profiler.profile(schedule=steps) as taken:
        for _ in range(10):
            value = subject.example
            for name, layer in zip(subject.names, subject.layers, strict=True):
                with torch.profiler.record_function(name):
                    value = layer(value)
            value.backward()
            taken.step()
    taken.export_chrome_trace(str(path))
    return kineto.kineto(path, samples=4)


def test_the_importer_agrees_with_the_recorder_within_five_percent(gpt, tmp_path):
    """On the fastest of each layer's samples, since neither is to be judged by who else was at work."""
    differences = []
    for _ in range(ATTEMPTS):
        try:
            quiet.wait_until_quiet(PATIENCE)
            recorded = layer_recording.record(gpt, [4], Settings(patience_s=PATIENCE, tolerance=0.2)).trace
        except RefusedError as error:
            if "not quiet" not in str(error):
                raise
            pytest.skip(f"nothing can be compared here: {error}")
        imported = profiled(gpt, tmp_path / "profile.json")
        mine, theirs = (costs_of(trace, statistic="min") for trace in (recorded, imported))
        assert [layer.name for layer in theirs.model.layers] == [layer.name for layer in mine.model.layers]
        sums = [[costs.seconds(phase, costs.kinds[0]).sum() for phase in PHASES] for costs in (theirs, mine)]
        differences.append([found / expected - 1 for found, expected in zip(*sums, strict=True)])
        if all(abs(difference) < 0.05 for difference in differences[-1]):
            return
    pytest.fail(f"the importer's forward and backward differ by {differences}")


@pytest.mark.parametrize("reentrant", [True, False])
def test_forwards_that_checkpoints_run_again_are_told_and_counted_in_the_backward_of_their_layer(reentrant, tmp_path):
    """Whichever way the checkpoint runs it: the same ranges come again inside of the backward."""
    torch.set_num_threads(1)
    blocks = [torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.ReLU()) for _ in range(3)]

    def run(number, value):
        with torch.profiler.record_function(f"block{number}"):
            return blocks[number](value)

    def step(*, checkpointed):
        value = torch.ones(512, 256, requires_grad=True)
        for number in range(3):
            kept = partial(checkpoint.checkpoint, run, use_reentrant=reentrant) if checkpointed else run
            value = kept(number, value)
        value.sum().backward()

    sources = {}
    for checkpointed in (True, False):
        with torch.profiler.profile() as taken:
            step(checkpointed=checkpointed)
        path = tmp_path / f"{checkpointed}.json"
        taken.export_chrome_trace(str(path))
        trace = kineto.kineto(path)
        assert trace.layers["name"].tolist() == ["block0", "block1", "block2"]
        assert (trace.layers["backward_s"] > 0).all()
        sources[checkpointed] = trace.source
    assert sources[True].endswith("; recomputed forwards are part of the backward")
    assert "recomputed" not in sources[False]
