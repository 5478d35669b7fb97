import importlib.util
from types import SimpleNamespace

import pytest

from helpers.recorded_links import run
from pipesim.recorders import torch_extra


@pytest.mark.parametrize("command", [["record", "module:factory", "-b", "4"], ["record-links"]])
def test_without_torch_one_is_told_how_to_install_it(capsys, monkeypatch, tmp_path, command):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    code, out, err = run(capsys, *command, "-o", tmp_path / "made")
    assert (code, out) == (2, "")
    assert "pip install 'pipesim[torch]'" in err
    assert not (tmp_path / "made").exists()


def test_a_folder_called_torch_is_not_taken_for_pytorch(monkeypatch):
    """tests/with_torch is such a folder: Python imports it as an empty package where there is no PyTorch."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: SimpleNamespace(origin=None))
    with pytest.raises(Exception, match="needs the extra 'torch'"):
        torch_extra.require_torch("recording")
