"""What the guides show of recording models, where PyTorch is installed."""

import pytest

pytest.importorskip("torch")

from helpers import pages
from helpers.places import ROOT


def test_the_guide_to_traces_records_a_model(tmp_path):
    page = (ROOT / "docs" / "guides" / "your-own-trace.md").read_text(encoding="utf-8")
    assert any(block.needs == "torch" for block in pages.blocks(page))
    pages.run(page, tmp_path, "torch")
