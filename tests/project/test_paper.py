"""The evaluation of SPP is whole, and a few of its rows come out again: exactly, by the code that makes them all."""

import csv
import importlib.util
import sys

import pytest

from helpers.places import ROOT
from pipesim.studies import sweep

pytestmark = pytest.mark.docs
FOLDER = ROOT / "experiments" / "spp"
NAMES = sorted(path.parent.name for path in FOLDER.glob("*/experiment.toml"))

# A reduced form of each: what is quick, and still goes through everything that the experiment is about.
FEW = {
    "bandwidth": "model == 'BERT-large' and rate in (1, 400) and method in ('SPP', 'PipeDream')",
    "channel": "model == 'GPT-2 XL' and rate == 25",
    "gap": "model == 'BERT-large' and network == 'DGX-1' and method in ('SPP', 'Alpa')",
    "gpus": "model == 'GPT-2 XL' and gpus == 8 and method != 'SPP+'",
    "heterogeneity": "graph == 3 and spread == 8 and method in ('SPP', 'PipeDream', 'GPipe')",
    "links": "model == 'Inception-V3' and rate == 25 and method != 'DAPPLE'",
    "microbatches": "model == 'GPT-2 XL' and microbatches == 4 and method in ('SPP', 'GPipe', 'data parallel')",
    "models": "model == 'XLNet-large' and method in ('SPP', 'HetPipe', 'Piper', 'uniform')",
    "planning": "blocks == 8 and method in ('SPP', 'DAPPLE', 'Piper') or gpus == 4 and method == 'SPP+'",
    "optimum": "blocks == 1 and graph <= 2",
    "orders": "model == 'BERT-large' and graph == 5 and spread == 16",
    "partitions": "model == 'BERT-large' and method in ('SPP', 'Alpa')",
    "robustness": "model == 'BERT-large' and disturbance == 'slow GPU' and method == 'SPP'",
    "schedules": "model == 'BERT-large'",
    "size": "layers == 12 and method in ('SPP', 'GPipe')",
    "theorem": "model == 'BERT-large' and microbatches <= 4",
}


@pytest.fixture(autouse=True)
def importable(monkeypatch):
    """Measures are functions of a module beside the experiments."""
    for folder in (FOLDER, FOLDER.parent):
        monkeypatch.syspath_prepend(str(folder))


def script(name):
    """A script of the evaluation as a module; other folders have scripts of the same name."""
    path = FOLDER / f"{name}.py"
    if name in sys.modules and sys.modules[name].__file__ == str(path):
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def lines(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


def test_every_experiment_has_a_reduced_form():
    assert sorted(FEW) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_few_rows_of_each_come_out_again_to_the_last_digit(name, tmp_path):
    path = FOLDER / name / "experiment.toml"
    made = sweep.load(path)
    store = tmp_path / "some.sqlite"
    status = sweep.run(made, store=store, workers=1, only=FEW[name])
    columns, found = sweep.rows(path, store=store)
    header, *expected = lines(FOLDER / name / "expected.csv")
    rows = list(csv.reader(sweep.csv_text(columns, found).splitlines()))[1:]
    assert columns == header
    assert rows
    assert status.done == len(rows)
    for row in rows:
        assert row in expected


@pytest.mark.parametrize("name", NAMES)
def test_each_chart_can_be_made_as_pdf_and_is_on_the_page_as_png(name):
    page = (FOLDER.parent / "README.md").read_text(encoding="utf-8")
    for chart, what in sweep.load(FOLDER / name / "experiment.toml").charts.items():
        assert set(what.formats) == {"pdf", "png"}
        assert (FOLDER / name / f"{chart}.png").exists()
        assert f"(spp/{name}/{chart}.png)" in page


def test_the_page_says_what_the_rows_say():
    assert script("findings").page() in (FOLDER.parent / "README.md").read_text(encoding="utf-8")


def test_planning_times_are_of_the_sizes_and_planners_of_the_exact_rows_and_say_on_what_they_were_measured():
    header, *rows = lines(FOLDER / "planning" / "times.csv")
    names, *exact = lines(FOLDER / "planning" / "expected.csv")
    for name in ("by", "layers", "gpus", "method", "error"):
        assert [row[header.index(name)] for row in rows] == [row[names.index(name)] for row in exact]
    for row in (dict(zip(header, row, strict=True)) for row in rows):
        assert bool(row["error"]) != (float(row["planning_s"] or 0) > 0)
        assert int(row["cores"]) > 0
        assert row["python"].startswith("3.")


def test_a_planning_time_is_that_of_a_planner_who_knows_nothing_of_what_it_plans():
    planning = script("planning")
    took = [planning.seconds("dapple", blocks=2, gpus=gpus) for gpus in (4, 8)]
    assert 0 < took[0] < took[1]


def test_the_figure_of_planning_times_is_drawn_from_them_and_on_the_page(tmp_path, monkeypatch):
    planning = script("planning")
    monkeypatch.setattr(planning, "FOLDER", tmp_path)
    planning.draw()
    for suffix in ("pdf", "png"):
        assert (tmp_path / f"planning.{suffix}").stat().st_size > 5000
    assert (FOLDER / "planning" / "planning.png").exists()
    assert "(spp/planning/planning.png)" in (FOLDER.parent / "README.md").read_text(encoding="utf-8")


def test_the_gantt_charts_rows_come_out_again():
    gantts = script("gantts")
    assert gantts.rows(gantts.timelines()) == (FOLDER / "gantts" / "expected.csv").read_text(encoding="utf-8")


def test_what_came_out_is_expected_from_now_on_where_that_is_asked_for(tmp_path, monkeypatch, capsys):
    run = script("run")
    monkeypatch.setattr(run, "HERE", tmp_path)
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "expected.csv").write_text("a\n1\n", encoding="utf-8")
    assert run.report("one", lambda: "a\n2\n", write=False) == 1
    assert (tmp_path / "one" / "expected.csv").read_text(encoding="utf-8") == "a\n1\n"
    assert run.report("one", lambda: "a\n2\n", write=True) == 0
    assert (tmp_path / "one" / "expected.csv").read_text(encoding="utf-8") == "a\n2\n"
    assert "2 found; 1 was expected" in capsys.readouterr().out


def test_drift_names_the_lines_that_differ(tmp_path):
    expected = tmp_path / "expected.csv"
    expected.write_text("a,b\n1,2\n3,4\n", encoding="utf-8")
    run = script("run")
    assert run.drift("a,b\n1,2\n3,4\n", expected) == []
    assert run.drift("a,b\n1,2\n3,5\n", expected) == ["line 3: 3,5 found; 3,4 was expected"]
    assert run.drift("a,b\n1,2\n", expected) == ["1 rows; 2 were expected"]
