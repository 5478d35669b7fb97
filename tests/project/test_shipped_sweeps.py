"""The sweeps that ship are whole, and the numbers that they keep are what their files give: a few of them, exactly."""

import csv
import re

import pytest

from helpers.places import ROOT
from pipesim.studies import sweep

FOLDER = ROOT / "experiments"
FILES = sorted(FOLDER.glob("*/experiment.toml"))
CHEAP = "size == '0.35B' and gpus == 8 and rate in (1, 400)"


def texts(path):
    """README of an experiment, and what it expects."""
    folder = path.parent
    with (folder / "expected.csv").open(encoding="utf-8", newline="") as file:
        return (folder / "README.md").read_text(encoding="utf-8"), list(csv.reader(file))


def test_there_are_some():
    assert {path.parent.name for path in FILES} >= {"iteration-time", "best-plan", "throughput-per-gpu"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.parent.name)
def test_each_has_question_answer_environment_command_and_figure(path):
    readme, _ = texts(path)
    made = sweep.load(path)
    assert made.name == path.parent.name
    for word in ("Question", "Answer", "Environment", "Command"):
        assert f"**{word}.**" in readme
    for name, chart in made.charts.items():
        assert f"({name}.png)" in readme
        assert {"pdf", "png"} == set(chart.formats)
        assert (path.parent / f"{name}.png").exists()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.parent.name)
def test_expected_rows_come_out_again_by_the_command_in_the_readme(path, tmp_path):
    readme, (header, *expected) = texts(path)
    query = re.search(r'--query "\s*(select .*?)"\n', readme, re.DOTALL).group(1)
    made = sweep.load(path)
    store = tmp_path / "some.sqlite"
    sweep.run(made, store=store, workers=1, only=CHEAP)
    columns, found = sweep.rows(path, query, store=store)
    assert columns == header
    assert len(found) == 2
    text = list(csv.reader(sweep.csv_text(columns, found).splitlines()))[1:]
    assert text == [row for row in expected if row[:3] in (["0.35B", "8", "1"], ["0.35B", "8", "400"])]
