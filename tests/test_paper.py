"""The evaluation of SPP is whole, and a few of its rows come out again: exactly, by the code that makes them all."""

import csv
import importlib.util
import sys
from pathlib import Path

import pytest

from pipesim import sweep

FOLDER = Path(__file__).parents[1] / "experiments" / "spp"
NAMES = sorted(path.parent.name for path in FOLDER.glob("*/experiment.toml"))

# A reduced form of each: what is quick, and still goes through everything that the experiment is about.
FEW = {
    "bandwidth": "model == 'BERT-large' and rate in (1, 400) and method in ('SPP', 'PipeDream')",
    "channel": "model == 'GPT-2 XL' and rate == 25",
    "gap": "model == 'BERT-large' and network == 'DGX-1' and method in ('SPP', 'Alpa')",
    "gpus": "model == 'GPT-2 XL' and gpus == 8 and method != 'SPP+'",
    "heterogeneity": "draw == 3 and spread == 8 and method in ('SPP', 'PipeDream', 'GPipe')",
    "microbatches": "model == 'GPT-2 XL' and microbatches == 4 and method in ('SPP', 'GPipe', 'data parallel')",
    "models": "model == 'XLNet-large' and method in ('SPP', 'HetPipe', 'Piper', 'uniform')",
    "optimum": "blocks == 1 and draw <= 2",
    "orders": "model == 'BERT-large' and draw == 5 and spread == 16",
    "partitions": "model == 'BERT-large' and method in ('SPP', 'Alpa')",
    "robustness": "model == 'BERT-large' and method == 'SPP'",
    "schedules": "model == 'BERT-large'",
    "size": "layers == 12 and method in ('SPP', 'GPipe')",
    "theorem": "model == 'BERT-large' and microbatches <= 4",
}


@pytest.fixture(autouse=True)
def importable(monkeypatch):
    """Measures are functions of a module beside the experiments."""
    monkeypatch.syspath_prepend(str(FOLDER))


def script(name):
    """A script of the evaluation as a module."""
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
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


@pytest.mark.parametrize("name", [*NAMES, "gantts"])
def test_rows_beside_the_figures_are_those_expected(name):
    assert (FOLDER / name / "rows.csv").read_bytes() == (FOLDER / name / "expected.csv").read_bytes()


@pytest.mark.parametrize("name", NAMES)
def test_each_chart_is_there_as_pdf_and_png_and_on_the_page(name):
    page = (FOLDER.parent / "README.md").read_text(encoding="utf-8")
    for chart, what in sweep.load(FOLDER / name / "experiment.toml").charts.items():
        assert set(what.formats) == {"pdf", "png"}
        assert all((FOLDER / name / f"{chart}.{suffix}").exists() for suffix in what.formats)
        assert f"(spp/{name}/{chart}.png)" in page


def test_the_page_says_what_the_rows_say():
    assert script("findings").page() in (FOLDER.parent / "README.md").read_text(encoding="utf-8")


def test_the_gantt_charts_rows_come_out_again():
    gantts = script("gantts")
    assert gantts.rows(gantts.timelines()) == (FOLDER / "gantts" / "expected.csv").read_text(encoding="utf-8")


def test_drift_names_the_lines_that_differ(tmp_path):
    expected = tmp_path / "expected.csv"
    expected.write_text("a,b\n1,2\n3,4\n", encoding="utf-8")
    run = script("run")
    assert run.drift("a,b\n1,2\n3,4\n", expected) == []
    assert run.drift("a,b\n1,2\n3,5\n", expected) == ["line 3: 3,5 found; 3,4 was expected"]
    assert run.drift("a,b\n1,2\n", expected) == ["1 rows; 2 were expected"]
