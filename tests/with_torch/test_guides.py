"""What the guides show of recording models, where PyTorch is installed."""

from dataclasses import replace

import pytest

pytest.importorskip("torch")

from helpers import pages
from helpers.places import ROOT
from pipesim.recorders import layer_recording


def test_the_guide_to_traces_records_a_model(tmp_path, monkeypatch):
    """On a machine that may be busy: whether the times are good is not tested here."""
    record = layer_recording.record

    def ungated(factory, sizes, settings, **given):
        return record(factory, sizes, replace(settings, tolerance=10.0), **given | {"clocks": None})

    monkeypatch.setattr(layer_recording, "record", ungated)
    page = (ROOT / "docs" / "guides" / "your-own-trace.md").read_text(encoding="utf-8")
    assert any(block.needs == "torch" for block in pages.blocks(page))
    pages.run(page, tmp_path, "torch")
