"""Plain functions over arrays, compiled by numba where that pays.

A kernel is written so that Python runs it as it stands: that is its twin, which tests compare it with. Compiling costs
numba's import (a third of a second) and, once per machine, the compilation, which is kept on disk.
"""

import functools
from collections.abc import Callable
from typing import TypeVar

Kernel = TypeVar("Kernel", bound=Callable[..., object])


@functools.cache
def compiled(kernel: Kernel) -> Kernel:
    """The kernel as machine code."""
    import numba  # noqa: PLC0415 - slow to import, and small problems do without it

    return numba.njit(cache=True)(kernel)  # type: ignore[return-value]  # a dispatcher, called as the kernel is
