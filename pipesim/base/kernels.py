"""Plain functions over arrays, compiled by numba where that pays.

A kernel also runs as plain Python, and tests compare both. Compiling costs numba's import (a third of a second) and,
once per machine, the compilation, which is cached on disk. Numba compiles a changed kernel again but does not track the
kernels that it calls; so each cache folder is named after the contents of all files involved.

The cache is beside the source, like Python's; where that cannot be written (an installation of another user, a
read-only container), in the user's cache folder, or in a temporary folder that only the user can write to, since cached
code is executed; if there is none, in memory only.
"""

import functools
import hashlib
import inspect
import logging
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

Kernel = TypeVar("Kernel", bound=Callable[..., object])


@functools.cache
def compiled(kernel: Kernel) -> Kernel:
    """The kernel as machine code, which is made when it is first called, by Python or by another kernel."""
    return _Compiled(kernel)  # type: ignore[return-value]  # called as the kernel is


class _Compiled:
    """Imports numba no sooner than it must, so that a module of kernels costs nothing until one of them runs."""

    def __init__(self, kernel: Callable[..., object]) -> None:
        functools.update_wrapper(self, kernel)
        self.py_func = kernel

    @functools.cached_property
    def _machine_code(self) -> Any:  # noqa: ANN401 - numba declares no types
        import numba  # noqa: PLC0415 - slow to import, and small problems do without it

        with _cache_in(_folder(self.py_func)) as is_cached:
            return numba.njit(cache=is_cached)(self.py_func)

    def __call__(self, *arguments: object) -> object:
        return self._machine_code(*arguments)

    @property
    def _numba_type_(self) -> Any:  # noqa: ANN401 - numba declares no types
        """What numba takes this for when another kernel calls it."""
        return self._machine_code._numba_type_


@contextmanager
def _cache_in(folder: Path | None) -> Iterator[bool]:
    """Let numba cache in this folder; yields whether there is one."""
    import numba  # noqa: PLC0415 - as above

    config: Any = numba.config  # its settings are not declared
    before = config.CACHE_DIR
    config.CACHE_DIR = str(folder or before)
    try:
        yield folder is not None
    finally:
        config.CACHE_DIR = before


def _folder(kernel: Callable[..., object]) -> Path | None:
    """The cache folder of a kernel, named after the contents of its file and of the kernels it calls."""
    own = Path(inspect.getfile(kernel))
    base = _writable_base(own.parent)
    if base is None:
        return None
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in sorted(_files_called(kernel) | {own})))
    return base / f"kernels-{digest.hexdigest()[:12]}"


@functools.cache
def _writable_base(beside: Path) -> Path | None:
    """The first folder that can be written; None, with a warning, if there is none."""
    import numba  # noqa: PLC0415 - as above

    config: Any = numba.config
    configured = config.CACHE_DIR
    finders = [lambda: Path(configured)] if configured else [lambda: beside / "__pycache__", _user_cache, _temporary]
    found = (folder for find in finders if (folder := find()) is not None and _can_write(folder))
    folder = next(found, None)
    if folder is None:
        _warn_once()
    return folder


def _user_cache() -> Path | None:
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pipesim"
    except RuntimeError:  # the home folder is unknown
        return None


def _temporary() -> Path | None:
    """A folder for temporary files that belongs to this user and that no other user can write to."""
    who = os.getuid() if hasattr(os, "getuid") else 0
    try:
        folder = Path(tempfile.gettempdir()) / f"pipesim-{who}"
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError:
        return None
    is_private = os.name != "posix" or (found.st_uid == who and not found.st_mode & 0o077)
    return folder if is_private else None


def _can_write(folder: Path) -> bool:
    """Whether a file can be created there; permissions do not show a read-only file system."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


@functools.cache
def _warn_once() -> None:
    logging.getLogger(__name__).warning(
        "compiled code cannot be cached, so every run compiles again: no cache folder can be written; "
        "set one with NUMBA_CACHE_DIR"
    )


def _files_called(kernel: Callable[..., object]) -> set[Path]:
    """The files of the kernels that this one calls, directly or indirectly."""
    called = [one.py_func for one in inspect.getclosurevars(kernel).globals.values() if hasattr(one, "py_func")]
    return {Path(inspect.getfile(one)) for one in called}.union(*map(_files_called, called))


def import_compiler() -> None:
    """Import numba ahead of many small problems: from here on `suited` gives machine code for them too."""
    import numba  # noqa: F401, PLC0415 - slow to import, and few small problems do without it


def suited(kernel: Kernel, *, large: bool) -> Kernel:
    """The compiled kernel if the problem is large or numba is imported already, else the plain one."""
    return compiled(kernel) if large or "numba" in sys.modules else kernel
