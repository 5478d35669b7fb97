"""Files are read whole, and written whole or not at all: to a temporary name first, then renamed."""

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pipesim.errors import FormatError, InputError, within


def exists(path: Path) -> bool:
    """Whether there is anything at this path; at one that no file can have, for its length say, there is not."""
    with suppress(OSError, ValueError):
        return path.exists()
    return False


def read_bytes(path: Path, most: int = -1) -> bytes:
    """The bytes of a file, or its first `most`, or an error that says why there are none."""
    with within(str(path)):
        try:
            if path.is_dir():
                raise InputError("is a folder; a file was expected")
            with path.open("rb") as file:
                return file.read(most)
        except FileNotFoundError:
            raise InputError("no such file") from None
        except (OSError, ValueError) as error:
            raise InputError(f"cannot be read: {_reason(error)}") from None


def read_text(path: Path) -> str:
    """The text of a UTF-8 file, line ends folded to a plain newline."""
    data = read_bytes(path)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FormatError(f"{path}: is not UTF-8 text (byte {error.start}); is it the right file?") from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """A temporary path to write to; it takes the name `path` when the block ends well, and is removed otherwise.

    Pipes, devices and links are written to directly: a file must not take their place.
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
    """Refuse what `folder_written_whole` would not replace; asked before work that would be lost."""
    if path.exists() and not (path / marker).is_file():
        raise InputError(f"{path}: exists and is not a folder with {marker}; choose another name or remove it")


@contextmanager
def folder_written_whole(path: Path, marker: str) -> Iterator[Path]:
    """As `written_whole`, for a folder. An existing folder is replaced only if it holds a file named `marker`."""
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
    """Put `new` in the place of `path`, keeping files of the old folder that the new one does not have."""
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


# A folder holds one of each pair; writing one must not leave the other, older one beside it.
_ALTERNATIVES = frozenset({"layers.csv", "layers.parquet", "transfers.csv", "transfers.parquet"})


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 text, whole or not at all."""
    with written_whole(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


def write_bytes(path: Path, data: bytes) -> None:
    """Write bytes, whole or not at all."""
    with written_whole(path) as temporary:
        temporary.write_bytes(data)


def _reason(error: OSError | ValueError) -> str:
    return (os.strerror(error.errno).lower() if isinstance(error, OSError) and error.errno else str(error)) or repr(
        error
    )
