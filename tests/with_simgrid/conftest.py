"""Tests beside SimGrid, run by `make test-simgrid`, which says where the interpreter is that has it."""

import os

collect_ignore_glob = [] if "PIPESIM_SIMGRID" in os.environ else ["test_*.py"]
