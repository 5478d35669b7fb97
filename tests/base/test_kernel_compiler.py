"""What kernels call is compiled as a part of them, and what else numba compiles is as ever."""

import gc

import numba
import numpy as np
import pytest

from pipesim.base import kernels
from pipesim.base.arrays import Floats
from pipesim.base.kernel_compiler import KernelCompiler

PIPELINES = KernelCompiler.define_pipelines


def reciprocal(value: float) -> float:
    if value == 0:
        raise ValueError("none")
    return 1 / value


def reciprocals(values: Floats) -> Floats:
    found = np.empty(len(values))
    for n in range(len(values)):
        found[n] = reciprocal(values[n])
    found.sort()
    return found


def test_what_kernels_call_is_a_part_of_them_and_no_machine_code_of_its_own(monkeypatch):
    monkeypatch.setattr(kernels, "folder_of", lambda _: None)  # not from the cache
    values, kernel = np.array([4.0, 0.5, 2.0]), kernels._Compiled(reciprocals)
    assert kernel(values).tolist() == reciprocals(values).tolist() == [0.25, 0.5, 2.0]
    with pytest.raises(ValueError, match="none"):
        kernel(np.array([1.0, 0.0]))
    (part,) = kernels._called(reciprocal).overloads.values()
    (whole,) = kernel._machine_code.overloads.values()
    name = part.fndesc.llvm_func_name
    assert part.library.get_pointer_to_function(name) == 0
    assert whole.library.get_pointer_to_function(whole.fndesc.llvm_func_name) != 0
    assert not whole.library.codegen._engine.is_symbol_defined(name), "it is inlined, and not kept beside"


@pytest.mark.parametrize("enabled", [True, False])
def test_no_garbage_is_looked_for_while_a_kernel_is_compiled(monkeypatch, enabled):
    monkeypatch.setattr(kernels, "folder_of", lambda _: None)  # as above
    asked = []
    monkeypatch.setattr(
        KernelCompiler, "define_pipelines", lambda self: asked.append(gc.isenabled()) or PIPELINES(self)
    )
    (gc.enable if enabled else gc.disable)()
    try:
        kernels._Compiled(reciprocals)(np.array([1.0]))
        assert gc.isenabled() == enabled
    finally:
        gc.enable()
    assert asked
    assert not any(asked)


def doubled(value: float) -> float:
    return 2 * value


def test_numba_makes_machine_code_as_ever_of_what_is_no_kernel(monkeypatch):
    """Also of functions that a kernel uses, such as those of numpy, which numba keeps once compiled."""
    monkeypatch.setattr(kernels, "folder_of", lambda _: None)  # as above
    kernels._Compiled(reciprocals)(np.array([1.0]))
    both = numba.njit(lambda values: (np.sort(values)[0], doubled_code(values[0])))
    doubled_code = numba.njit(doubled)
    assert both(np.array([3.0, 1.0])) == (1.0, 6.0)
    assert doubled_code(2.0) == 4.0
