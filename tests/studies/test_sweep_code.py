"""An experiment that names functions is a program: it is run to be swept, and never to be looked at."""

import json
import sys

import pytest

from helpers import sweeps
from pipesim.base.errors import InputError, UnknownNameError
from pipesim.studies import sweep
from pipesim.studies.sweep.functions import source_digest

TEXT = f"""{sweeps.HEAD}
[simulate]
trace = "bert-large"
cluster = 'flat({{gpus}}, bandwidth="1GB/s")'
planner = "spoils.inner:planner"
[grid]
gpus = [2, 3]
[output]
metrics = ["tasks", "spoils.inner:measure"]
[plot]
tasks = {{ kind = "line", x = "gpus", y = "tasks", formats = ["png"] }}
"""
INNER = """
from pathlib import Path
Path(__file__).with_name("ran").write_text("inner")
from helpers.sweeps import pipedream_like as planner
def measure(case, timeline): return len(case.plan.stages)
"""


@pytest.fixture
def file(tmp_path, monkeypatch):
    """An experiment whose package says so when it is imported."""
    package = tmp_path / "spoils"
    package.mkdir()
    (package / "__init__.py").write_text(
        'from pathlib import Path\nPath(__file__).with_name("ran").write_text("package")\n'
    )
    (package / "inner.py").write_text(INNER)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield sweeps.write(tmp_path, TEXT)
    for name in ("spoils", "spoils.inner"):
        sys.modules.pop(name, None)


def ran(file):
    return (file.parent / "spoils" / "ran").exists()


def test_a_dry_run_imports_nothing_that_the_file_names_and_says_so(file, run):
    """A file of somebody else's that named a function ran its code on --dry-run, and on --status."""
    code, out, _ = run("sweep", file, "--dry-run")
    assert code == 0
    assert (
        "unchecked   metric spoils.inner:measure, planner spoils.inner:planner: code of your own, not imported" in out
    )
    unchecked = json.loads(run("sweep", file, "--dry-run", "--json")[1])["unchecked"]
    assert unchecked == ["metric spoils.inner:measure", "planner spoils.inner:planner"]
    assert not ran(file)


def test_results_are_looked_at_without_the_code_that_made_them(file, run):
    assert run("sweep", file, "--workers", "1")[0] == 0
    assert ran(file)
    (file.parent / "spoils" / "ran").unlink()
    for name in ("spoils", "spoils.inner"):
        sys.modules.pop(name)
    for command in (["sweep", file, "--status"], ["rows", file], ["rows", file, "--check"], ["plot", file]):
        assert run(*command)[0] == 0, command
    assert run("plot", file.with_suffix(".sqlite"))[0] == 0
    assert not ran(file)


def test_a_sweep_has_the_keys_that_a_dry_run_counted(file):
    """The digest of a function is that of its file, however the file is found."""
    looked = list(sweep.read(sweep.load(file), sweep.Functions(imports=False))[1])
    assert not ran(file)
    assert looked == list(sweep.read(sweep.load(file))[1])
    assert ran(file)
    assert len({source_digest(name) for name in ("spoils.inner:planner", "spoils:x", "nothing:x")}) == 3


def test_modules_that_are_not_allowed_are_refused_before_they_are_imported(file, run, monkeypatch):
    for allowed in (["other"], ["spoil", "spoils.inner.more"], []):
        with pytest.raises(InputError, match=r"'spoils\.inner' is not allowed"):
            sweep.run(sweep.load(file), workers=1, allow_modules=allowed)
    code, _, err = run("sweep", file, "--allow-modules", "none")
    assert code == 2
    assert "experiment.toml: output.metrics: metric 'spoils.inner:measure': module 'spoils.inner' is not allowed" in err
    monkeypatch.setenv("PIPESIM_ALLOW_MODULES", "helpers.sweeps, other")
    assert run("sweep", file, "--dry-run")[0] == run("sweep", file)[0] == 2
    assert not ran(file)
    monkeypatch.setenv("PIPESIM_ALLOW_MODULES", "spoils")
    assert run("sweep", file, "--workers", "1")[0] == 0
    assert ran(file)


def test_an_engine_that_the_file_names_is_code_too(tmp_path, run):
    text = sweeps.SMALL.replace("[grid]", 'engine = "spoils.inner:run"\n[grid]')
    file = sweeps.write(tmp_path, text, 2)
    assert run("sweep", file, "--dry-run")[0] == 0
    code, _, err = run("sweep", file, "--allow-modules", "helpers.sweeps")
    assert code == 2
    assert "engine 'spoils.inner:run': module 'spoils.inner' is not allowed" in err


def test_a_module_that_is_nowhere_is_said_without_importing(file, run):
    file.write_text(file.read_text().replace("spoils.inner:planner", "spoils.outer:planner"))
    code, _, err = run("sweep", file, "--dry-run")
    assert code == 2
    assert "planner 'spoils.outer:planner': no module is called 'spoils.outer'" in err
    with pytest.raises(UnknownNameError, match="a name such as 'my_package"):
        sweep.load(sweeps.write(file.parent, TEXT.replace("spoils.inner:measure", ":measure")))


def test_the_help_says_that_a_sweep_file_is_a_program(run):
    out = " ".join(run("sweep", "--help")[1].split())
    assert "A sweep file is a program" in out
    assert "Dask has no authentication" in out
