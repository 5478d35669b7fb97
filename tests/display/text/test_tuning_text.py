"""The best layouts as a table, and what became of all others."""

import pipesim as ps
from pipesim.display import text
from pipesim.display.text.formatting import seconds

FOUR = 'servers(2, 2, intra="25GB/s", inter="10Gb/s")'


def shown(most=10, **fields):
    """The text of a small search."""
    found = ps.tune("bert-large", FOUR, global_batch=128, pipeline=2, budget=4, **fields)
    return found, text.tuning(found.as_data(), found.best.command, most)


def test_the_answer_is_in_five_lines_before_the_table():
    found, lines = shown()
    head = lines.split("\n")
    assert head[0].startswith("best layout: TP 1, PP 2, DP 2, microbatches of ")
    best = found.best.metrics
    assert best["measured_low_s"] <= found.best.iteration_time <= best["measured_high_s"]
    assert f"({seconds(best['measured_low_s'])} to {seconds(best['measured_high_s'])} by measured runs" in head[0]
    assert head[1].startswith(f"{found.counts.all:,} layouts: ")
    assert head[2].startswith("any layout: no layout in this space has a shorter iteration than ")
    assert head[3].startswith("lower bound: ")
    assert head[4].startswith("again: pipesim simulate bert-large ")
    assert "iteration" in head[6]


def test_a_table_has_as_many_rows_as_asked_for():
    found, lines = shown(most=2)
    assert len(found.rows) > 2
    assert len(lines.split("\n")) == 5 + 1 + 2 + 2


def test_other_objectives_have_a_column():
    assert " p95 " in shown(objective="p95", iterations=5, jitter=0.1)[1]
    money, lines = shown(objective="cost", price=2)
    assert f"{money.best.value:.4g}" in lines
    assert "no layout in this space" not in lines
