"""What is installed for development is pinned, and tested on every Python that the package claims."""

import re
import tomllib

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from helpers.places import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def pins():
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return dict(line.split("==") for line in lines if not line.startswith("#"))


def test_every_requirement_has_a_version_that_it_allows():
    """A release of a dependency changes nothing until `make constraints` is called."""
    extras = [text for extra in PROJECT["optional-dependencies"].values() for text in extra]
    for requirement in map(Requirement, [*PROJECT["dependencies"], *extras]):
        name = canonicalize_name(requirement.name)
        assert name == PROJECT["name"] or requirement.specifier.contains(pins()[name]), "make constraints"
    assert "hatchling" in pins(), "what builds the package is pinned too"


def test_every_environment_is_made_with_these_versions():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    installs = [line for line in makefile.splitlines() if "$(INSTALL)" in line]
    assert len(installs) > 3
    assert all(line.startswith("\t$(PINNED) ") for line in installs)
    assert not re.search(r"-m pip install(?! --quiet --disable-pip-version-check$)", makefile, re.MULTILINE)


def test_every_python_that_is_claimed_is_tested():
    claimed = [c.rpartition(" ")[2] for c in PROJECT["classifiers"] if re.search(r"Python :: 3\.\d", c)]
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    (matrix,) = re.findall(r"python: \[(.*)\]", workflow)
    assert re.findall(r"3\.\d+", matrix) == claimed
    assert PROJECT["requires-python"] == f">={claimed[0]}"
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert set(re.findall(r"run: make ([a-z-]+)", workflow)) <= targets
