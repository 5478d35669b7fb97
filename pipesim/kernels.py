"""Plain functions over arrays, compiled by numba where that pays.

A kernel is written so that Python runs it as it stands: that is its twin, which tests compare it with. Compiling costs
numba's import (a third of a second) and, once per machine, the compilation, which is kept on disk. Numba compiles anew
what has changed, but does not look at what a kernel calls; that is kept apart by its content.
"""

import functools
import hashlib
import inspect
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

Kernel = TypeVar("Kernel", bound=Callable[..., object])


@functools.cache
def compiled(kernel: Kernel) -> Kernel:
    """The kernel as machine code."""
    import numba  # noqa: PLC0415 - slow to import, and small problems do without it

    with _kept_by_content(kernel):
        return numba.njit(cache=True)(kernel)  # type: ignore[return-value]  # a dispatcher, called as the kernel is


@contextmanager
def _kept_by_content(kernel: Callable[..., object]) -> Iterator[None]:
    """A kernel that calls kernels of other files is kept in a folder named after what those files say."""
    import numba  # noqa: PLC0415 - as above

    config: Any = numba.config  # its settings are not declared
    own, called = Path(inspect.getfile(kernel)), _files_called(kernel)
    folder = Path(config.CACHE_DIR or own.parent / "__pycache__")
    if called <= {own} or not os.access(folder if folder.exists() else folder.parent, os.W_OK):
        yield
        return
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in sorted(called)))
    before, config.CACHE_DIR = config.CACHE_DIR, str(folder / f"kernels-{digest.hexdigest()[:12]}")
    try:
        yield
    finally:
        config.CACHE_DIR = before


def _files_called(kernel: Callable[..., object]) -> set[Path]:
    """Where the kernels are that this one calls, and those that they call."""
    called = [one.py_func for one in inspect.getclosurevars(kernel).globals.values() if hasattr(one, "py_func")]
    return {Path(inspect.getfile(one)) for one in called}.union(*map(_files_called, called))


def suited(kernel: Kernel, *, large: bool) -> Kernel:
    """The kernel as machine code where the problem is large, or where numba's import has been paid for already."""
    return compiled(kernel) if large or "numba" in sys.modules else kernel
