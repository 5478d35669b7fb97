"""Notebooks run, and show what they keep."""

import importlib.util
import json
import re
import sys

import pytest

from helpers.places import ROOT

FOLDER = ROOT / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
MOST_BYTES = 500_000

_spec = importlib.util.spec_from_file_location("execute", FOLDER / "execute.py")
execute = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(execute)

each = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def made_of(*sources):
    cells = [{"cell_type": "code", "metadata": {}, "source": source, "outputs": []} for source in sources]
    return {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}


@pytest.mark.docs
@each
def test_every_cell_runs_and_shows_what_is_kept(path):
    kept = json.loads(path.read_text(encoding="utf-8"))
    assert not execute.difference(kept, execute.executed(kept, path.name)), f"run notebooks/execute.py {path.name}"


@each
def test_a_notebook_is_complete_small_and_as_execute_writes_it(path):
    text = path.read_text(encoding="utf-8")
    kept = json.loads(text)
    code = [cell for cell in kept["cells"] if cell["cell_type"] == "code"]
    ids = [cell["id"] for cell in kept["cells"]]
    assert len(text.encode()) < MOST_BYTES
    assert text == execute.text_of(kept)
    assert (kept["nbformat"], kept["nbformat_minor"]) == (4, 5)
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", one) for one in ids)
    assert sum("[picture]" in execute.shown_text({"cells": [cell]}) for cell in code) >= 3


def test_the_readme_lists_every_notebook():
    listed = re.findall(r"\]\((.+\.ipynb)\)", (FOLDER / "README.md").read_text(encoding="utf-8"))
    assert listed == [path.name for path in NOTEBOOKS]


def test_only_the_notebook_about_spp_and_those_that_use_it_need_say_that_it_is_a_reconstruction():
    for name in ("03-how-spp-works", "04-contention"):
        assert "our reconstruction" in (FOLDER / f"{name}.ipynb").read_text(encoding="utf-8")


# --- the executor ----------------------------------------------------------------------------------------------------


def test_a_cell_shows_what_it_prints_and_then_the_value_of_its_last_line():
    fresh = execute.executed(made_of("x = 2\nprint('hi')\nx + 1", "x = 5"))
    assert execute.shown_text(fresh) == ["[cell 1: stream]", "hi", "[cell 1: execute_result]", "3"]
    assert [cell["id"] for cell in fresh["cells"]] == ["cell-01", "cell-02"]


def test_the_same_notebook_is_written_with_the_same_bytes_pictures_included():
    notebook = made_of(
        "%matplotlib inline\nfrom matplotlib.figure import Figure",
        "figure = Figure()\nfigure.subplots().plot([1, 2])\nfigure",
    )
    once = execute.executed(notebook)
    assert execute.shown_text(once)[-1] == "[picture]"
    assert execute.text_of(execute.executed(once)) == execute.text_of(once)


def test_a_changed_number_and_a_lost_picture_are_seen():
    kept = execute.executed(made_of("print(1)"))
    assert "+2" in execute.difference(kept, execute.executed(made_of("print(2)")))
    drawn = execute.executed(made_of("from matplotlib.figure import Figure\nFigure()"))
    assert "-[picture]" in execute.difference(drawn, execute.executed(made_of("pass")))


def test_a_cell_that_fails_raises_and_names_the_cell():
    with pytest.raises(ZeroDivisionError) as caught:
        execute.executed(made_of("x = 1", "y = 0\nx / y"), "mine")
    assert caught.traceback[-1].frame.code.raw.co_filename == "<mine, cell 2>"


def test_check_writes_nothing_and_fails_where_something_differs(tmp_path, capsys):
    path = tmp_path / "a.ipynb"
    path.write_text(execute.text_of(made_of("print(3)")), encoding="utf-8")
    before = path.read_bytes()
    assert execute.main(["--check", str(path)]) == 1
    assert path.read_bytes() == before
    assert "+3" in capsys.readouterr().out
    assert execute.main([str(path)]) == 0
    assert execute.main(["--check", str(path)]) == 0
    assert sys.modules.get("IPython") is None
