"""Freed memory that stays in the process costs no page faults when it is used again."""

import os
import subprocess
import sys

import pytest

from pipesim.recorders import allocator

SCRIPT = """
import resource, sys
import numpy as np
from pipesim.recorders import allocator
kept = allocator.keep_memory() if sys.argv[1] == "keep" else False
def use():
    return np.ones(2**22)  # 32 MiB, freed at once
use()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(8):
    use()
print(int(kept), resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(how, **environment):
    """Whether memory is kept, and page faults of eight arrays one after the other."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, how], env=plain | environment, capture_output=True, text=True, check=True
    )
    return tuple(map(int, done.stdout.split()))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="mallopt is glibc's")
def test_arrays_that_follow_each_other_use_the_same_pages():
    kept, few = faults("keep")
    if not kept:
        pytest.skip("this system's C library is not glibc")
    _, many = faults("leave")
    if many < 100:
        pytest.skip("this system's pages are large, so that there are no faults to save")
    assert few < many / 10
    # What is printed for the training has the same effect.
    settings = dict(part.split("=") for part in allocator.as_environment().split())
    assert faults("leave", **settings)[1] < many / 10


def test_what_the_user_set_is_left_alone():
    assert faults("keep", MALLOC_ARENA_MAX="1")[0] == 0


def test_other_systems_have_no_such_setting(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    assert not allocator.keep_memory()
