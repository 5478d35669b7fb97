"""Where things are: the checkout, what the tests keep, and the recordings beside the checkout."""

import os
from pathlib import Path

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
MACHINES = TESTS / "helpers" / "machines"
# Recordings made by others are not part of the project; PIPESIM_DATA says where they are.
DATA = Path(os.environ.get("PIPESIM_DATA") or ROOT.parent / "shared")
PROFILES = DATA / "profiles"
