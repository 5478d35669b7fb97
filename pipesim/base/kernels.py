"""Plain functions over arrays, compiled by numba where that pays.

A kernel is written so that Python runs it as it stands: that is its twin, which tests compare it with. Compiling costs
numba's import (a third of a second) and, once per machine, the compilation, which is kept on disk. Numba compiles anew
what has changed, but does not look at what a kernel calls; that is kept apart by its content.

It is kept beside the source, as Python does; where that cannot be written (an installation of another user, a read-only
container), in the user's folder for caches, or in a temporary folder that only the user may write to, since who may
write there decides what is run; and if there is none, in memory only.
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

        with _kept_in(_folder(self.py_func)) as is_kept:
            return numba.njit(cache=is_kept)(self.py_func)

    def __call__(self, *arguments: object) -> object:
        return self._machine_code(*arguments)

    @property
    def _numba_type_(self) -> Any:  # noqa: ANN401 - numba declares no types
        """What numba takes this for when another kernel calls it."""
        return self._machine_code._numba_type_


@contextmanager
def _kept_in(folder: Path | None) -> Iterator[bool]:
    """Let numba keep what it compiles in this folder; whether it may, at all."""
    import numba  # noqa: PLC0415 - as above

    config: Any = numba.config  # its settings are not declared
    before = config.CACHE_DIR
    config.CACHE_DIR = str(folder or before)
    try:
        yield folder is not None
    finally:
        config.CACHE_DIR = before


def _folder(kernel: Callable[..., object]) -> Path | None:
    """Where the kernel is kept: named after what it says and calls, so that none is older than its source."""
    own = Path(inspect.getfile(kernel))
    base = _writable_base(own.parent)
    if base is None:
        return None
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in sorted(_files_called(kernel) | {own})))
    return base / f"kernels-{digest.hexdigest()[:12]}"


@functools.cache
def _writable_base(beside: Path) -> Path | None:
    """The first folder that can be written; None, with a line that says so, if there is none."""
    import numba  # noqa: PLC0415 - as above

    config: Any = numba.config
    stated = config.CACHE_DIR
    finders = [lambda: Path(stated)] if stated else [lambda: beside / "__pycache__", _cache_of_user, _temporary]
    found = (folder for find in finders if (folder := find()) is not None and _can_write(folder))
    folder = next(found, None)
    if folder is None:
        _say_once()
    return folder


def _cache_of_user() -> Path | None:
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pipesim"
    except RuntimeError:  # no home is known
        return None


def _temporary() -> Path | None:
    """A folder for temporary files that belongs to this user and that nobody else can write to."""
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
    """Whether a file can be made there; permissions alone do not say it of a read-only file system."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


@functools.cache
def _say_once() -> None:
    logging.getLogger(__name__).warning(
        "compiled code cannot be kept, so that every run compiles again: no folder for it can be written; "
        "name one with NUMBA_CACHE_DIR"
    )


def _files_called(kernel: Callable[..., object]) -> set[Path]:
    """Where the kernels are that this one calls, and those that they call."""
    called = [one.py_func for one in inspect.getclosurevars(kernel).globals.values() if hasattr(one, "py_func")]
    return {Path(inspect.getfile(one)) for one in called}.union(*map(_files_called, called))


def import_compiler() -> None:
    """Import numba ahead of many small problems: from here on `suited` gives machine code for them too."""
    import numba  # noqa: F401, PLC0415 - slow to import, and few small problems do without it


def suited(kernel: Kernel, *, large: bool) -> Kernel:
    """The kernel as machine code where the problem is large, or where numba has been imported already."""
    return compiled(kernel) if large or "numba" in sys.modules else kernel
