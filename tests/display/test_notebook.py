"""What values show of themselves, in a terminal and in a notebook."""

import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pandas as pd
import pytest

from pipesim.analysis.critical_path import critical_path
from pipesim.display import notebook
from pipesim.studies import comparison, loading, results, tuning, validation
from pipesim.studies.sweep import sweep_file
from pipesim.studies.sweep.show import SweepRows

SWEEP = """
format = "pipesim.sweep"
version = 1
[simulate]
trace = "bert-large"
cluster = 'flat({gpus}, bandwidth="1GB/s")'
[grid]
gpus = [2, 4]
"""
CLUSTER = 'servers(2, 2, intra="25GB/s", inter="1GB/s")'


@pytest.fixture(scope="module")
def result():
    return results.simulate("bert-large", CLUSTER, "balanced", "zb_h1", microbatches=4)


@pytest.fixture(scope="module")
def values(result):
    found = results.find_plan("bert-large", CLUSTER, "uniform", microbatches=4)
    trace, cluster = loading.load_trace("bert-large"), loading.load_cluster(CLUSTER)
    setup = result.setup
    return {
        "trace": trace,
        "cluster": cluster,
        "plan": setup.plan,
        "schedule": setup.schedule,
        "timeline": result.timeline,
        "result": result,
        "found": found,
        "comparison": comparison.compare("bert-large", CLUSTER, ["balanced", "uniform(stages=99)"]),
        "tuning": tuning.tune("bert-large", CLUSTER, global_batch=16, pipeline=4, budget=3),
        "rows": SweepRows(["gpus", "time"], [(2, 0.5), (4, None)]),
        "trust": validation.trust_report(),
        "sweep": sweep_file.parse(SWEEP, Path("network.toml")),
    }


NAMES = [
    "trace",
    "cluster",
    "plan",
    "schedule",
    "timeline",
    "result",
    "found",
    "comparison",
    "tuning",
    "rows",
    "trust",
    "sweep",
]


@pytest.mark.parametrize("name", NAMES)
def test_every_value_is_a_paragraph_in_a_terminal(values, name):
    shown = repr(values[name])
    assert len(shown) < 300
    assert "\n" not in shown
    assert "array(" not in shown


@pytest.mark.parametrize("name", NAMES)
def test_every_value_is_well_formed_html_in_a_notebook(values, name):
    shown = values[name]._repr_html_()
    ET.fromstring(f"<div>{shown}</div>")  # noqa: S314 - our own text
    assert len(shown) < 200_000


@pytest.mark.parametrize("name", [name for name in NAMES if name != "sweep"])
def test_every_table_is_a_data_frame(values, name):
    frame = values[name].frame()
    assert isinstance(frame, pd.DataFrame)
    assert len(frame) > 0


def test_a_critical_path_is_a_paragraph_and_a_data_frame_of_its_stretches(result):
    path = critical_path(result.timeline)
    assert len(repr(path)) < 300
    frame = path.frame()
    assert frame["start_s"].iloc[0] == 0.0
    assert frame["end_s"].iloc[-1] == pytest.approx(result.iteration_time)
    assert list(frame["end_s"])[:-1] == list(frame["start_s"])[1:]


def test_paragraphs_have_the_numbers_of_their_values(values, result):
    assert repr(values["cluster"]).startswith("Cluster servers")
    assert "4 x v100-16gb on 2 nodes" in repr(values["cluster"])
    assert "TP 1, PP 4, DP 1 (4 GPUs), 4 microbatches" in repr(values["plan"])
    assert "4 ranks: 4 stages, 4 microbatches" in repr(values["schedule"])
    assert f"{result.iteration_time * 1e3:.1f} ms" in repr(values["timeline"])
    assert f"{result.iteration_time * 1e3:.1f} ms" in repr(result)
    assert repr(values["found"]).startswith("Plan of bert-large by uniform: ")


def test_a_gantt_chart_has_a_box_for_each_computation_with_its_time(result):
    timeline = result.timeline
    chart = notebook.gantt_svg(timeline)
    assert chart.count("<rect") == int(timeline.program.is_compute.sum())
    assert len(re.findall(r"<title>stage \d+, forward, microbatch 0: ", chart)) == 4


def test_a_chart_that_is_too_large_is_left_out(result, monkeypatch):
    assert notebook.html(result.timeline).startswith("<p>Timeline of ")
    assert notebook.html(result.timeline).count("<iframe srcdoc=") == 1
    monkeypatch.setattr(notebook, "DRAWN", 10)
    monkeypatch.setattr(notebook, "IN_A_PAGE", 10)
    assert not notebook.gantt_svg(result.timeline)
    assert "too large for a notebook" in notebook.html(result.timeline)


def test_text_from_files_is_escaped():
    shown = notebook.html_table(["<a>"], [["<script>"]], red=[0])
    assert "<script>" not in shown
    assert "&lt;script&gt;" in shown


def test_long_tables_are_cut_and_say_so(values):
    assert "more rows; all of them with .frame()" in values["trace"]._repr_html_()
    assert len(values["trace"].frame()) == len(values["trace"].layers["layer"])
