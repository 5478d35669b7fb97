"""Names of modules of pipesim 0.1 work for one release, and say what to write instead."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import pipesim
from pipesim.base import moved
from pipesim.base.moved import MOVED


@pytest.mark.parametrize("name", [*MOVED, "plot.gantt_chart", "sweep.points"])
def test_an_old_name_gives_the_module_at_its_new_place(name):
    sys.modules.pop(f"pipesim.{name}", None)
    package = f"pipesim.{name.partition('.')[0]}"
    if "." in name and name.partition(".")[0] in MOVED:  # whose package warns too
        sys.modules.pop(package, None)
        with pytest.warns(DeprecationWarning, match=f"{package} is now"):
            importlib.import_module(package)
    first, dot, rest = name.partition(".")
    now = MOVED.get(name) or f"{MOVED[first]}{dot}{rest}"
    with pytest.warns(DeprecationWarning, match=f"pipesim.{name} is now {now}; the old name goes"):
        found = importlib.import_module(f"pipesim.{name}")
    assert found is importlib.import_module(now)
    assert found.__spec__.name == found.__name__ == now


def test_no_old_name_hides_a_present_module():
    package = Path(pipesim.__file__).parent
    paths = [package.joinpath(*name.split(".")) for name in MOVED]
    assert [path for path in paths if path.with_suffix(".py").exists() or (path / "__init__.py").exists()] == []


def test_old_imports_work_as_they_were_written_and_the_warning_names_their_line():
    lines = ["import pipesim as ps", "from pipesim import report", "from pipesim.plan import Plan", "ps.make_case"]
    code = "\n".join([*lines, "assert Plan is ps.Plan and report is ps.display.text"])
    done = subprocess.run([sys.executable, "-W", "always", "-c", code], capture_output=True, text=True, check=True)
    texts = [line for line in done.stderr.splitlines() if "DeprecationWarning" in line]
    where = {line.split("pipesim.")[1].split()[0]: line.partition(": ")[0] for line in texts}
    assert list(where) == ["report", "plan", "make_case"]
    assert where["report"] == "<string>:2"
    assert where["make_case"] == "<string>:4"


def test_a_module_inside_of_a_package_can_have_moved_alone(monkeypatch):
    monkeypatch.setitem(MOVED, "planners.halves", "pipesim.planners.balanced")
    monkeypatch.delitem(sys.modules, "pipesim.planners.halves", raising=False)
    with pytest.warns(DeprecationWarning, match=r"pipesim\.planners\.halves is now pipesim\.planners\.balanced;"):
        found = importlib.import_module("pipesim.planners.halves")
    monkeypatch.delitem(sys.modules, "pipesim.planners.halves")
    assert found is importlib.import_module("pipesim.planners.balanced")


def test_an_old_name_in_a_module_gives_what_has_the_new_one():
    get = moved.renamed("pipesim.core.plan", {"Layout": "pipesim.core.plan:Plan"})
    with pytest.warns(
        DeprecationWarning, match=r"pipesim\.core\.plan\.Layout is now pipesim\.core\.plan\.Plan;"
    ) as seen:
        assert get("Layout") is importlib.import_module("pipesim.core.plan").Plan
    assert seen[0].filename == __file__
    with pytest.raises(AttributeError, match=r"module 'pipesim\.core\.plan' has no attribute 'Plane'"):
        get("Plane")


def test_functions_of_the_old_text_modules_have_their_old_names():
    from pipesim.display import text

    with pytest.warns(DeprecationWarning, match="replayed is now pipesim.display.text.rebuilt"):
        assert text.replayed is text.rebuilt
    with pytest.raises(AttributeError, match="no attribute 'missing'"):
        text.missing  # noqa: B018 - the attribute is looked up


def test_pipesim_itself_uses_no_old_name():
    code = "import pipesim, pipesim.cli, pipesim.studies.sweep, pipesim.studies.comparison, pipesim.display.figures"
    subprocess.run([sys.executable, "-W", "error::DeprecationWarning:__main__", "-c", code], check=True)
