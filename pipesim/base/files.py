"""Reading files whole, and writing them atomically: to a temporary name first, then renamed.

Reading always ends. A file above the size limit of its kind is refused before it is read; a device such as /dev/zero
has no end and is refused; a pipe is read to its end, up to a limit, if a process writes to it.
"""

import os
import secrets
import shutil
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path

from pipesim.base.errors import FormatError, InputError, within

DOCUMENT = 2**28  # bytes; limit of files written by hand or with one value: a cluster, a plan, a sweep
RECORDING = 2**33  # bytes; limit of recorded files: traces, profiles, tables
_PIPED = 2**30  # bytes; limit of pipes, whose size is unknown before they end
_PIECE = 2**20
_WAIT_S = 2.0  # to wait for a process to open a pipe for writing


def exists(path: Path) -> bool:
    """Whether anything exists at this path; False for invalid paths, such as too long ones."""
    with suppress(OSError, ValueError):
        return path.exists()
    return False


def is_file(path: Path) -> bool:
    """Whether this is a file; False for invalid paths."""
    with suppress(OSError, ValueError):
        return path.is_file()
    return False


def read_bytes(path: Path, most: int | None = None, limit: int = DOCUMENT) -> bytes:
    """The bytes of a file, or its first `most`; an InputError states why it cannot be read.

    `limit`, `DOCUMENT` or `RECORDING`, is the size above which a file is refused.
    """
    with within(str(path)):
        try:
            return _read(path, most, limit)
        except FileNotFoundError:
            raise InputError("no such file") from None
        except (OSError, ValueError) as error:
            raise InputError(f"cannot be read: {_reason(error)}") from None


def _read(path: Path, most: int | None, limit: int) -> bytes:
    if path.is_dir():
        raise InputError("is a folder; a file was expected")
    # Without O_NONBLOCK, opening a pipe waits until a process opens its other end, possibly forever.
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with open(descriptor, "rb", buffering=0) as file:  # noqa: PTH123 - opened above, with a flag
        found = os.fstat(descriptor)
        is_pipe = stat.S_ISFIFO(found.st_mode)
        if not (is_pipe or stat.S_ISREG(found.st_mode) or os.isatty(descriptor)):
            raise InputError("is a device or a socket, which may have no end; a file was expected")
        if found.st_size > limit and most is None:
            raise InputError(f"has {found.st_size} bytes; the limit for files of this kind is {limit}")
        if stat.S_ISREG(found.st_mode):
            return file.readall() if most is None and found.st_size else _pieces(file, b"", most, limit)
        first = _first_of_pipe(descriptor) if is_pipe else b""
        os.set_blocking(descriptor, True)
        return _pieces(file, first, most, min(limit, _PIPED))


def _first_of_pipe(descriptor: int) -> bytes:
    """The first bytes from a pipe once a process writes to it; none if a writer is there but has not written yet."""
    until = time.monotonic() + _WAIT_S
    while True:
        try:
            first = os.read(descriptor, _PIECE)
        except BlockingIOError:  # there is a writer; without one, reading returns no bytes at once
            return b""
        if first:
            return first
        if time.monotonic() > until:
            raise InputError(f"is a pipe without a writer for {_WAIT_S:g} s; a file was expected")
        time.sleep(0.01)


def _pieces(file: FileIO, first: bytes, most: int | None, limit: int) -> bytes:
    """The rest of an open file, after `first`, in pieces: files may grow, and the size of a pipe is unknown."""
    pieces, length = [first], len(first)
    while most is None or length < most:
        piece = file.read(_PIECE if most is None else min(_PIECE, most - length))
        if not piece:
            break
        pieces.append(piece)
        length += len(piece)
        if length > limit:
            raise InputError(f"has more than {limit} bytes, the limit for files of this kind")
    found = b"".join(pieces)
    return found if most is None else found[:most]


def read_text(path: Path, limit: int = DOCUMENT) -> str:
    """The text of a UTF-8 file, line ends folded to a plain newline; `limit` as in `read_bytes`."""
    return decoded(path, read_bytes(path, limit=limit))


def decoded(path: Path, data: bytes) -> str:
    """The text in the bytes of a file; `path` is for the message."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FormatError(f"{path}: is not UTF-8 text (byte {error.start}); is it the right file?") from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """A temporary path to write to; renamed to `path` if the block succeeds, removed otherwise.

    Pipes, devices and links are written to directly: a file must not replace them.
    """
    if path.is_symlink() or path.is_fifo() or path.is_char_device():
        yield path
        return
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}{path.suffix}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        temporary.replace(path)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {_reason(error)}") from None
    finally:
        with suppress(OSError):
            temporary.unlink()


def check_folder(path: Path, marker: str) -> None:
    """Refuse what `atomic_folder` would not replace; checked before work that would be lost."""
    if path.exists() and not (path / marker).is_file():
        raise InputError(f"{path}: exists and is not a folder with {marker}; choose another name or remove it")


@contextmanager
def atomic_folder(path: Path, marker: str) -> Iterator[Path]:
    """As `atomic_write`, for a folder. An existing folder is replaced only if it contains a file named `marker`."""
    check_folder(path, marker)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        temporary.mkdir(parents=True)
        yield temporary
        _swap(temporary, path)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {_reason(error)}") from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _swap(new: Path, path: Path) -> None:
    """Replace `path` by `new`, keeping files of the old folder that the new one does not have."""
    if path.exists():
        for item in path.iterdir():
            if not (new / item.name).exists() and item.name not in _ALTERNATIVES:
                shutil.move(item, new / item.name)
        old = path.with_name(f".{path.name}.{secrets.token_hex(4)}.old")
        path.rename(old)
        new.rename(path)
        shutil.rmtree(old)
    else:
        new.rename(path)


# A folder has one of each pair; an older alternative must not remain beside a new file.
_ALTERNATIVES = frozenset({"layers.csv", "layers.parquet", "transfers.csv", "transfers.parquet"})


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 text atomically."""
    with atomic_write(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


def write_bytes(path: Path, data: bytes) -> None:
    """Write bytes atomically."""
    with atomic_write(path) as temporary:
        temporary.write_bytes(data)


def _reason(error: OSError | ValueError) -> str:
    return (os.strerror(error.errno).lower() if isinstance(error, OSError) and error.errno else str(error)) or repr(
        error
    )
