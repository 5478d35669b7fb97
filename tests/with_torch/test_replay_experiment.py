"""The script that records a real pipeline: it runs a schedule of pipesim, and its files say who ran what."""

import gzip
import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch.distributed", reason="PyTorch is not installed; make test-torch runs these tests")

from pipesim.base.errors import InputError
from pipesim.importers.kineto.pipelined import recording
from pipesim.studies import rebuilding

SCRIPT = Path(__file__).parents[2] / "experiments" / "replay" / "record.py"


@pytest.fixture(scope="module")
def script():
    """The script as a module."""
    spec = importlib.util.spec_from_file_location("replay_record", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its dataclass looks for its module there
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def test_only_schedules_of_whole_backwards_can_be_run(script, monkeypatch):
    plan = script.plan_of([0, 2, 4], 3)
    assert script.actions(plan, "one_f_one_b", 1) == [("F", 0), ("B", 0), ("F", 1), ("B", 1), ("F", 2), ("B", 2)]
    assert script.actions(plan, "gpipe", 0)[:3] == [("F", 0), ("F", 1), ("F", 2)]
    monkeypatch.setattr(script, "LETTERS", "FIWB")
    with pytest.raises(InputError, match="splits backwards"):
        script.actions(plan, "gpipe", 0)


def test_stages_have_as_many_layers_each_unless_told_otherwise(script):
    assert script.cuts(10, 2, None) == [0, 5, 10]
    assert script.cuts(10, 3, [2, 4]) == [0, 2, 4, 10]
    for bad in ([4, 2], [0, 3], [3, 10], [3]):
        with pytest.raises(InputError, match="cuts"):
            script.cuts(10, 3, bad)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """The events in the files of a run of two stages, three microbatches, two iterations."""
    folder = tmp_path_factory.mktemp("recorded")
    factory = "models:gpt(depth=1, width=16, heads=2, sequence=8, vocabulary=32)"
    options = ["--factory", factory, "--microbatches", "3", "--iterations", "2", "--warmup", "1"]
    subprocess.run([sys.executable, str(SCRIPT), "--output", str(folder), *options], check=True, timeout=120)
    return [json.loads(gzip.decompress((folder / f"rank{rank}.json.gz").read_bytes())) for rank in range(2)]


def ranges(trace, pattern):
    events = [e for e in trace["traceEvents"] if e.get("cat") == "user_annotation" and re.fullmatch(pattern, e["name"])]
    return [e["name"] for e in sorted(events, key=lambda e: float(e["ts"]))]


def test_every_rank_says_which_actions_it_ran_in_the_order_of_1f1b(recorded):
    once = [["0F0", "0F1", "0B0", "0F2", "0B1", "0B2"], ["1F0", "1B0", "1F1", "1B1", "1F2", "1B2"]]
    for trace, actions in zip(recorded, once, strict=True):
        assert ranges(trace, r"PP:\w+") == [f"PP:{action}" for action in actions] * 2


def test_every_rank_names_the_layers_of_its_stage(recorded):
    assert [set(ranges(trace, r"embedding|norm|head|block.*")) for trace in recorded] == [
        {"embedding", "block0.attention"},
        {"block0.mlp", "norm", "head"},
    ]


def test_every_rank_says_who_it_is_and_what_it_sent(recorded):
    for rank, trace in enumerate(recorded):
        assert trace["distributedInfo"]["rank"] == rank
        names = {event.get("name") for event in trace["traceEvents"]}
        assert {"gloo:send", "gloo:recv"} <= names


def test_a_brief_recording_is_replayed_as_the_whole_one_and_is_much_smaller(script, recorded, tmp_path):
    for name in ("whole", "brief"):
        (tmp_path / name).mkdir()
        for rank, trace in enumerate(recorded):
            (tmp_path / name / f"rank{rank}.json.gz").write_bytes(gzip.compress(json.dumps(trace).encode()))
    for path in (tmp_path / "brief").iterdir():
        script.shorten(path)
    whole, brief = (
        rebuilding.comparison(rebuilding.rebuilt(recording(tmp_path / name, number=0))) for name in ("whole", "brief")
    )
    assert brief["recorded_s"] == whole["recorded_s"]
    assert brief["ranks"] == whole["ranks"]
    sizes = [sum(path.stat().st_size for path in (tmp_path / name).iterdir()) for name in ("whole", "brief")]
    assert sizes[1] < sizes[0] / 5
