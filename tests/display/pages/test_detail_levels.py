"""Levels of detail, against the same cells counted nanosecond by nanosecond."""

import numpy as np

from helpers.networks import pipeline
from pipesim.display.pages import detail_levels
from pipesim.engines.event import run


def test_each_stretch_has_the_kind_that_takes_most_of_it_and_the_part_that_is_taken(monkeypatch):
    monkeypatch.setattr(detail_levels, "FINE", 8)
    monkeypatch.setattr(detail_levels, "COARSE", 4)
    timeline = run(pipeline([7, 5, 9], [11, 13, 6], 5, "one_f_one_b", sharing="none"))
    program = timeline.program
    task = np.flatnonzero(program.is_compute)
    levels = detail_levels.levels(timeline, program.lane[task], task, 3)
    assert [kind.shape for kind, _ in levels] == [(3, 4), (3, 8)]
    for kind, part in levels:
        width = timeline.makespan / kind.shape[1]
        for row in range(3):
            for at in range(kind.shape[1]):
                taken = {0: 0.0, 1: 0.0}
                for t in task[program.lane[task] == row].tolist():
                    inside = min(timeline.end[t], (at + 1) * width) - max(timeline.start[t], at * width)
                    taken[int(program.kind[t])] += max(inside, 0) / width
                assert abs(part[row, at] / 255 - sum(taken.values())) <= 0.5 / 255 + 1e-9
                if taken[0] != taken[1]:
                    assert kind[row, at] == max(taken, key=taken.__getitem__)


def test_rows_without_number_have_fewer_stretches(monkeypatch):
    monkeypatch.setattr(detail_levels, "_MOST", 3 * 1024)
    timeline = run(pipeline([7, 5, 9], [11, 13, 6], 5, "one_f_one_b", sharing="none"))
    task = np.flatnonzero(timeline.program.is_compute)
    levels = detail_levels.levels(timeline, timeline.program.lane[task], task, 3)
    assert [kind.shape[1] for kind, _ in levels] == [512, 1024]
