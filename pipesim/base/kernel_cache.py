"""Where machine code of kernels is kept on disk, and when it is out of date.

Numba compiles a changed kernel again but does not track the kernels that it calls and the records that it takes; so
each cache folder is named after the contents of all files involved. It does not depend on their paths: a copy of a
checkout has its kernels compiled.

The cache is beside the source, like Python's; where that cannot be written (an installation of another user, a
read-only container), in the user's cache folder, or in a temporary folder that only the user can write to, since cached
code is executed; if there is none, in memory only.
"""

import dis
import functools
import hashlib
import inspect
import logging
import os
import tempfile
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from types import FunctionType
from typing import Any, NamedTuple


def globals_of(kernel: Callable[..., object]) -> dict[str, Any]:
    """The global names that a kernel reads, and their values; attributes of the same name do not count."""
    names = {step.argval for step in dis.get_instructions(kernel) if step.opname == "LOAD_GLOBAL"}
    known: dict[str, Any] = getattr(kernel, "__globals__", {})
    return {name: known[name] for name in sorted(names & known.keys())}


class _Located(NamedTuple):
    """Where numba finds and keeps a kernel: by default it depends on the path of the file, here on contents only."""

    folder: str
    line: int

    def from_function(self, kernel: Callable[..., object], file: str) -> "_Located":  # noqa: ARG002 - numba's signature
        return self

    def get_cache_path(self) -> str:
        return self.folder

    def ensure_cache_path(self) -> None:
        Path(self.folder).mkdir(parents=True, exist_ok=True)

    def get_source_stamp(self) -> str:
        return ""  # the name of the folder changes with the source

    def get_disambiguator(self) -> str:
        return str(self.line)


def cache_in(folder: Path, kernel: Callable[..., object]) -> Any:  # noqa: ANN401 - numba declares no types
    """Numba's cache of machine code, in this folder."""
    from numba.core import caching  # noqa: PLC0415 - slow to import

    located = _Located(str(folder), kernel.__code__.co_firstlineno)
    kept: Any = type("Kept", (caching.CompileResultCacheImpl,), {"_locator_classes": [located]})
    return type("Cache", (caching.FunctionCache,), {"_impl_class": kept})(kernel)


def folder_of(kernel: Callable[..., object]) -> Path | None:
    """The cache folder of a kernel, named after all that its machine code depends on."""
    base = _writable_base(Path(inspect.getfile(kernel)).parent)
    if base is None:
        return None
    compilers = [Path(__file__).with_name(name).read_bytes() for name in ("kernel_compiler.py", "kernels.py")]
    digest = hashlib.sha256(b"".join([*compilers, *sorted(_contents(kernel))]))
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


def _contents(kernel: Callable[..., object]) -> set[bytes]:
    """What the machine code of a kernel depends on.

    That are the files of the kernel, of those that it calls and of records that they take and return, constants, and
    this file.
    """
    read = {name: getattr(one, "py_func", one) for name, one in globals_of(kernel).items()}
    kernels = [one for one in read.values() if isinstance(one, FunctionType)]
    records = chain.from_iterable(map(_records, (*read.values(), *kernel.__annotations__.values())))
    constants = {name: one for name, one in read.items() if isinstance(one, int | float | str | tuple)}
    files = {__file__, inspect.getfile(kernel), *map(inspect.getfile, records)}
    return {repr(constants).encode(), *(Path(file).read_bytes() for file in files)}.union(*map(_contents, kernels))


def _records(annotation: Any) -> Iterator[type]:  # noqa: ANN401 - of any parameter
    """A record, and those in it; none if it is something else."""
    if isinstance(annotation, type) and hasattr(annotation, "_fields"):
        yield annotation
        yield from chain.from_iterable(map(_records, annotation.__annotations__.values()))
