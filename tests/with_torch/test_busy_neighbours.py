"""`--busy` keeps other cores at work on the same model while layers are timed."""

import os
import time
from pathlib import Path

import pytest

from pipesim.base.errors import RefusedError
from pipesim.recorders import neighbours, pinning

pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'pipesim[torch]'")
pytestmark = pytest.mark.skipif(len(pinning.allowed_cores()) < 2, reason="one core: there are no neighbours")

MODEL = """
import torch

def mlp(*, microbatch):
    return [torch.nn.Linear(64, 64) for _ in range(2)], torch.zeros(microbatch, 64)
"""


def children():
    """Processes that this one started, with the seconds of CPU that they have used."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == os.getpid():
            found[int(path.parent.name)] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return found


def test_a_neighbour_works_on_another_core_and_ends_with_the_recording(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "busy_model.py").write_text(MODEL)
    allowed, before = pinning.allowed_cores(), set(children())
    with neighbours.working("busy_model:mlp", 4, 1):
        (neighbour,) = set(children()) - before
        assert not os.sched_getaffinity(0) & os.sched_getaffinity(neighbour)
        begun = children()[neighbour]
        time.sleep(0.5)
        assert children()[neighbour] > begun
    assert pinning.allowed_cores() == allowed
    assert neighbour not in children()


def test_a_model_that_fails_is_refused_with_its_error(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad_model.py").write_text("def bad(*, microbatch):\n    raise ValueError('no weights')\n")
    with pytest.raises(RefusedError, match="no weights"), neighbours.working("bad_model:bad", 4, 1):
        pytest.fail("was entered")
