"""Kernels: plain Python or machine code, whichever pays, with the same results."""

import signal

import numpy as np
import pytest

from helpers.kernel_programs import CALLED, result
from pipesim.base import kernels
from pipesim.base.arrays import Floats
from pipesim.base.kernels import borrowing, compiled, unlocked, variant


def total(values: Floats) -> float:
    found = 0.0
    for value in values:
        found += value
    return found


def test_a_kernel_that_is_unlocked_releases_pythons_lock_and_gives_the_same():
    values = np.arange(4.0)
    assert compiled(unlocked(total))(values) == total(values)
    assert kernels._options(unlocked(total))["nogil"]
    assert "nogil" not in kernels._options(_linked_only)


def _linked_only(values: Floats) -> float:
    return total(values)


def test_a_kernel_that_borrows_its_arrays_returns_none():
    def halved(values: Floats) -> tuple[int, Floats]:
        return len(values), values / 2

    values = np.arange(4.0)
    assert compiled(borrowing(total))(values) == total(values) == 6.0
    with pytest.raises(TypeError, match="halved returns arrays"):
        borrowing(halved)


def test_numba_is_imported_when_a_kernel_is_called_and_not_before(tmp_path):
    (tmp_path / "inside.py").write_text(CALLED.format(1))
    (tmp_path / "calling.py").write_text(
        "import sys, inside\nprint('numba' in sys.modules, end=' ')\nprint(inside.inner(1), 'numba' in sys.modules)\n"
    )
    assert result(tmp_path) == "False 2 True\n"


SMALL = """
import os, sys
from pipesim.base import kernels

def doubled(x):
    return 2 * x

kernels.IMPORT_S, kernels.COMPILATION_S = float(os.environ["IMPORT_S"]), float(os.environ["COMPILATION_S"])
found = [kernels.suited(doubled, large="LARGE" in os.environ)(n) for n in range(3)]
print(found, "_machine_code" in kernels.compiled(doubled).__dict__, "numba" in sys.modules)
"""


def small(folder, **environment):
    (folder / "calling.py").write_text(SMALL)
    return result(folder, **{"IMPORT_S": "1e9", "COMPILATION_S": "1e9"} | environment)


def test_small_problems_are_plain_python_until_that_has_taken_as_long_as_compiling(tmp_path):
    assert small(tmp_path) == "[0, 2, 4] False False\n"
    assert small(tmp_path, IMPORT_S="0") == "[0, 2, 4] False True\n", "nothing is cached, and nothing is compiled"
    assert small(tmp_path, COMPILATION_S="0") == "[0, 2, 4] True True\n"
    assert small(tmp_path) == "[0, 2, 4] False False\n", "it is cached now, but numba takes longer to import"


def test_small_problems_take_cached_machine_code_once_they_have_taken_as_long_as_importing_numba(tmp_path):
    assert small(tmp_path, LARGE="") == "[0, 2, 4] True True\n"
    assert small(tmp_path, IMPORT_S="0") == "[0, 2, 4] True True\n"


def step(x: int) -> int:
    return x + 1


def larger_step(x: int) -> int:
    return step(x) + 10


def two_steps(x: int) -> int:
    return step(step(x))


def walk(x: int) -> int:
    return 100 * two_steps(x) + step(x)


def test_a_variant_replaces_kernels_also_within_those_that_it_calls():
    large = variant(walk, "large_walk", step=larger_step)
    assert large.__name__ == "large_walk"
    assert (walk(0), large(0)) == (201, 2211)
    assert (compiled(walk)(0), compiled(large)(0)) == (201, 2211)


def counted(steps: int) -> tuple[Floats, Floats]:
    """Takes a while, and returns arrays, for which the interpreter is asked."""
    found = np.zeros(4)
    for n in range(steps):
        found[n % 4] += n * n % 7
    return found, found + 1


def test_an_interrupt_while_a_kernel_runs_is_an_interrupt():
    """It was a SystemError, which commands reported as a fault of pipesim."""
    kernel = compiled(counted)
    kernel(3)
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        with pytest.raises(KeyboardInterrupt):
            kernel(300_000_000)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


ELSEWHERE = (
    "from pipesim.base.kernels import compiled\n\ndef tripled(x):\n    return 3 * x\n\n"
    "def example():\n    compiled(tripled)(1)\n\ndef fails():\n    raise SystemExit(1)\n"
)
CALLING_ELSEWHERE = (
    "from elsewhere import tripled\nfrom pipesim.base.kernels import compile_elsewhere, compiled, is_compiling\n\n"
    "kernel = compiled(tripled)\ncompile_elsewhere('elsewhere:{}', kernel)\nbegun = is_compiling()\n"
    "print(kernel(2), sum(kernel._machine_code.stats.cache_hits.values()), kernel.elsewhere is not None)\n"
    "assert begun == (kernel.elsewhere is not None) and not is_compiling()\n"
)


def test_a_kernel_is_compiled_by_another_process_where_it_is_not_cached(tmp_path):
    (tmp_path / "elsewhere.py").write_text(ELSEWHERE)
    (tmp_path / "calling.py").write_text(CALLING_ELSEWHERE.format("example"))
    assert result(tmp_path) == "6 1 True\n", "it is waited for, and found in the cache"
    assert result(tmp_path) == "6 1 False\n", "nothing is left to compile"


def test_a_kernel_is_compiled_here_if_the_other_process_fails(tmp_path):
    (tmp_path / "elsewhere.py").write_text(ELSEWHERE)
    (tmp_path / "calling.py").write_text(CALLING_ELSEWHERE.format("fails"))
    assert result(tmp_path) == "6 0 True\n"


VARIANT = """
import os
import numpy as np
from pipesim.base.kernels import compiled, variant

def step(x):
    return x + 1

def larger_step(x):
    return x + 10

def walk(places):
    for n in range(len(places)):
        for _ in range(places[n] % 7):
            places[n] = step(places[n]) if places[n] % 5 else step(step(places[n])) + places[0] // 3
        places[n] += places[n - 1] % 11 if places[n] > 3 else places[n - 2] * 2
    return places.sum()

def two_walks(places):
    return walk(places) + walk(places[1:])

large = variant(two_walks, "two_large_walks", step=larger_step)
for kernel in (two_walks, large) if os.environ.get("BOTH") else (two_walks,):
    print(compiled(kernel)(np.arange(9)) == kernel(np.arange(9)))
"""


def test_a_variant_that_is_compiled_after_the_kernel_came_from_the_cache_calls_its_own_code(tmp_path):
    (tmp_path / "calling.py").write_text(VARIANT)
    assert result(tmp_path) == "True\n"
    assert result(tmp_path, BOTH="1") == "True\nTrue\n"
