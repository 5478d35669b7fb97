"""A new member of a family is one file and one line in the registry: everything else follows from these.

The files of `new_members` are added to a copy of the repository, which must then pass its checks and contract tests.
"""

import os
import re
import shutil
import subprocess
import sys
from contextlib import nullcontext, suppress
from pathlib import Path

import pytest

from helpers.places import ROOT, TESTS

FOLDERS = ["pipesim", "tests", "docs", "traces", ".mypy_cache"]
NEW = TESTS / "project" / "new_members"
ENTRY = '    "{name}": "pipesim.{package}.{name}:{name}",\n'
RULE = '    SharingRule("{name}", "as none", f"{{_FILES}}.{name}", contended=False),\n'
# File -> its package, the file of the registry, the beginning and the end of the registry, and the line for it.
MEMBERS = {
    "added_planner": ("planners", "planners/__init__.py", "PLANNERS = {", "\n}", ENTRY),
    "added_schedule": ("schedulers", "schedulers/__init__.py", "SCHEDULERS = {", "\n}", ENTRY),
    "added_importer": ("importers", "importers/__init__.py", "IMPORTERS = {", "\n}", ENTRY),
    "added_topology": ("topologies", "topologies/__init__.py", "TOPOLOGIES = {", "\n}", ENTRY),
    "added_rule": ("engines/sharing_rules", "core/sharing.py", "_RULES = (", "\n)", RULE),
}
TESTED = [
    "tests/planners/test_planners.py",
    "tests/schedulers/test_schedulers.py",
    "tests/schedulers/test_layouts.py",
    "tests/engines/test_engines_bundled.py::test_every_topology_and_trace_is_there_with_every_rule",
    "tests/engines/test_sharing_rules.py",
    "tests/topologies/test_topologies.py",
    "tests/importers/test_spoilt_files.py",
    "tests/core/test_limits.py",
    "tests/core/test_members.py",
    "tests/display/figures/test_looks.py",
    "tests/project/test_docs.py",
    "tests/project/test_architecture.py",
]
# Of these files, the tests of the new members, and those that compare all members with something.
CHOSEN = "added_ or looks or lists_of_names or architecture or every_topology"


def run(folder, *command):
    environment = os.environ | {"PYTHONPATH": str(folder)}  # not the repository that is installed
    done = subprocess.run(
        [sys.executable, *command], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout[-6000:]}{done.stderr[-3000:]}"
    return done.stdout


def insert(path, begin, end, line):
    """Add a line at the end of a registry."""
    text = path.read_text(encoding="utf-8")
    at = text.index(end, text.index(begin)) + 1
    path.write_text(text[:at] + line + text[at:], encoding="utf-8")


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """The repository with a new member of every family."""
    folder = tmp_path_factory.mktemp("copy") / "repository"
    folder.mkdir()
    for name in FOLDERS:  # with the caches of mypy, Python, pytest and kernels: only changed files are compiled again
        if (ROOT / name).is_dir():
            with suppress(shutil.Error) if name == ".mypy_cache" else nullcontext():  # mypy may be writing it now
                shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("*.png", "*.pdf"))
    for path in filter(Path.is_file, ROOT.iterdir()):
        shutil.copy2(path, folder / path.name)
    for name, (package, registry, begin, end, line) in MEMBERS.items():
        shutil.copy2(NEW / f"{name}.py", folder / "pipesim" / package / f"{name}.py")
        insert(folder / "pipesim" / registry, begin, end, line.format(name=name, package=package))
    run(folder, "docs/site/lists.py")
    return folder


def test_the_lists_in_the_documentation_name_every_new_member(copy):
    text = run(copy, "-m", "pipesim", "show")
    pages = "".join(path.read_text(encoding="utf-8") for path in (copy / "docs").rglob("*.md"))
    for name in MEMBERS.keys() - {"added_rule"}:
        assert re.search(rf"\b{name}\b", text)
    for name in ("added_planner", "added_schedule"):
        assert f"`{name}`" in pages


CHANGED = " ".join(f"pipesim/{p}/{name}.py pipesim/{registry}" for name, (p, registry, *_) in MEMBERS.items())


@pytest.mark.parametrize("command", ["ruff check .", "ruff format --check .", f"mypy {CHANGED}"])
def test_lint_and_types_accept_a_new_member_of_every_family(copy, command):
    run(copy, "-m", *command.split())


def test_the_contract_tests_accept_a_new_member_of_every_family(copy):
    printed = run(copy, "-m", "pytest", "-x", "-vv", *TESTED, "-k", CHOSEN)
    for name in MEMBERS:
        assert re.search(rf"\b{name}\b.* PASSED", printed), f"no contract test ran for {name}"


def test_new_members_work_together_from_the_command_line(copy, tmp_path):
    (tmp_path / "layers.txt").write_text("# added format\n" + "".join(f"layer{n} {n + 1}\n" for n in range(6)))
    text = run(
        copy, "-m", "pipesim", "simulate", str(tmp_path / "layers.txt"), "added_topology(2, '10 GB/s')",
        "-p", "added_planner", "-s", "added_schedule", "--sharing", "added_rule", "--json",
    )  # fmt: skip
    assert '"added_schedule"' in text
