"""Where things are: the checkout, what the tests keep, and the recordings outside of the repository."""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
MACHINES = TESTS / "helpers" / "machines"
# Recordings made by others are not part of the project; PIPESIM_DATA names their folder.
DATA = Path(os.environ.get("PIPESIM_DATA") or ROOT.parent / "shared")
PROFILES = DATA / "profiles"


def needs_data(path: Path) -> Path:
    """A file or folder in DATA; a test that asks for one that is missing is skipped.

    Where PIPESIM_REQUIRE_DATA is set, as by .ci/run, the test fails instead if DATA is there.
    """
    if not path.exists():
        text = f"{path} is missing; PIPESIM_DATA names the folder of recordings that are not part of the repository"
        if os.environ.get("PIPESIM_REQUIRE_DATA") and DATA.is_dir():
            pytest.fail(text, pytrace=False)
        pytest.skip(text)
    return path
