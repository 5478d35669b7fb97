"""Models as text."""

from helpers.models import SMALL, build
from pipesim.display import text


def test_sizes_are_summed_by_kind_of_layer_in_the_order_of_the_model():
    head, table = text.model(build(SMALL["gpt"], microbatch=2)).split("\n\n")
    assert "gpt-3x24 (9 layers, fp16)" in head
    assert "2 samples" in head
    embedding, block = (100 + 16) * 24, 12 * 24**2 + 13 * 24
    assert f"{embedding + 3 * block + 2 * 24:,} (" in head
    kinds = [line.split()[0] for line in table.splitlines()[2:]]
    assert kinds == ["embedding", "attention", "mlp", "norm", "tied_head"]
    assert table.splitlines()[3].split()[1] == "3"


def test_every_layer_is_shown_on_request():
    rows = text.model(build(SMALL["gpt"]), every=True).split("\n\n")[1].splitlines()[2:]
    assert [row.split()[1] for row in rows[:3]] == ["embedding", "block0.attention", "block0.mlp"]
    assert len(rows) == 9
