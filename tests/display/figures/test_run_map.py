import numpy as np

from helpers.recorded_runs import pipelined
from pipesim.analysis import run_summary
from pipesim.core.recorded_run import RunLayout
from pipesim.display import figures


def test_a_map_has_a_cell_for_each_rank_and_step_and_a_bar_for_each_step():
    run = pipelined(RunLayout(3, 2), microbatches=3, steps=4)
    bars, cells = figures.run_map(run).axes[:2]
    assert [round(bar.get_height(), 6) for bar in bars.patches] == (run.step_ns / 1e9).round(6).tolist()
    shown = np.asarray(cells.images[0].get_array())
    order = np.lexsort((run.replica, run.position))
    assert np.allclose(shown, run_summary.slowdowns(run)[:, order].T)
    assert [text.get_text() for text in cells.get_yticklabels()] == [str(run.ranks[rank]) for rank in order]
    assert [text.get_text() for text in cells.get_xticklabels()] == ["1", "2", "3", "4"]
    assert len(cells.lines) == 2  # between the places in the pipeline


def test_large_runs_have_labels_that_do_not_overlap(tmp_path):
    run = pipelined(RunLayout(2, 60), microbatches=2, steps=1)
    figure = figures.run_map(run, tmp_path / "map.png")
    assert 5 < len(figure.axes[1].get_yticks()) < 80
    assert (tmp_path / "map.png").stat().st_size > 1000
