"""What is packed for the browser is unpacked here as the page does, and compared with the timeline."""

import numpy as np
from hypothesis import given, settings

from helpers.strategies import jobs
from pipesim.analysis import critical_path as paths
from pipesim.analysis import metrics
from pipesim.display.pages import chart_columns
from pipesim.display.pages.chart_columns import packed
from pipesim.engines.event import run


def unpacked(chart):
    """The columns, as page.js reads them."""
    found, at = {}, 0
    for name, length, planes, differs in chart.head["layout"]:
        parts = np.frombuffer(chart.columns, np.uint8, length * planes, at).reshape(planes, length).astype(np.int64)
        plain = (parts << (8 * np.arange(planes))[:, None]).sum(axis=0)
        values = np.where(plain % 2, -(plain + 1) // 2, plain // 2)
        found[name] = np.cumsum(values) if differs else values
        at += length * planes
    assert at == len(chart.columns)
    return found


@settings(max_examples=25)
@given(jobs())
def test_each_task_is_there_once_with_its_times_and_what_held_it(job):
    timeline = run(job.program)
    program, chart = timeline.program, packed("one", timeline)
    columns = unpacked(chart)
    order = chart_columns._order(timeline)
    assert columns["start"].tolist() == timeline.start[order].tolist()
    assert (columns["start"] + columns["duration"]).tolist() == timeline.end[order].tolist()
    assert columns["slack"].tolist() == paths.slack(timeline)[order].tolist()
    assert columns["kind"].tolist() == program.kind[order].tolist()
    left_out = np.setdiff1d(np.arange(len(program)), order)
    assert not (timeline.end - timeline.start)[left_out].any()
    assert not program.is_compute[left_out].any()
    at = np.arange(len(order))
    held = at - columns["held"]
    real = (columns["held"] != 0) & (columns["by"] > 0)
    ends = columns["start"] + columns["duration"]
    assert (ends[held[real]] == columns["start"][real]).all()
    critical = order[columns["critical"] == 1]
    assert set(critical.tolist()) == set(paths.critical_path(timeline).tasks) - set(left_out.tolist())


@settings(max_examples=25)
@given(jobs())
def test_each_row_has_the_tasks_of_its_lane_or_link_by_start(job):
    timeline = run(job.program)
    program, chart = timeline.program, packed("one", timeline)
    columns, order, starts = unpacked(chart), chart_columns._order(timeline), chart.head["row_starts"]
    for n, row in enumerate(chart.head["rows"]):
        tasks = order[columns["row_task"][starts[n] : starts[n + 1]]]
        assert (np.diff(timeline.start[tasks]) >= 0).all()
        if row["kind"] == "lane":
            assert sorted(tasks.tolist()) == sorted(program.order[n].tolist())
        else:
            medium = program.media.index(row["name"])
            crossing = [t for t in range(len(program)) if medium in program.route[t]]
            assert sorted(tasks.tolist()) == [t for t in crossing if timeline.end[t] > timeline.start[t]]


@settings(max_examples=25)
@given(jobs())
def test_curves_of_memory_have_the_peaks_of_the_devices(job):
    timeline = run(job.program)
    chart = packed("one", timeline)
    columns, peaks = unpacked(chart), metrics.peak_memory(timeline)
    of_memory = [step for step in chart.head["steps"] if step["kind"] == "memory"]
    for step in of_memory:
        assert columns["step_value"][step["from"] : step["to"]].max() == peaks[step["of"]]
    assert {step["of"] for step in of_memory} == set(np.flatnonzero(peaks).tolist())


def test_curves_at_given_times_keep_peaks_and_means():
    time, value = np.array([0, 10, 12, 30]), np.array([1, 9, 2, 4])
    edges = np.array([0, 20, 40])
    assert chart_columns._peaks(time, value, edges)[1].tolist() == [9, 4, 4]
    assert chart_columns._means(time, value, edges)[1].tolist() == [round((10 + 18 + 16) / 20), round((20 + 40) / 20)]


def test_numbers_of_any_size_and_sign_survive():
    values = np.array([0, -1, 1, 255, -256, 2**31, -(2**52), 2**53 - 1])
    times = np.array([0, 2**50, 3, 2**40, 2**40 + 1])
    layout, body = chart_columns._packed_columns({"slack": values, "start": times})
    chart = chart_columns.Packed({"layout": layout}, b"", body)
    assert unpacked(chart)["slack"].tolist() == values.tolist()
    assert unpacked(chart)["start"].tolist() == times.tolist()
