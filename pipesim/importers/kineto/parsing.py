"""From the text of a profiler's file to the objects in it, in bounded memory."""

import gc
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import orjson

from pipesim.base.errors import FormatError, shown

EXPECTED = "a file of PyTorch's profiler, .json or .json.gz, was expected"
# Old versions divide by a duration of 0, and write what is no JSON.
_NOT_FINITE = re.compile(rb"(:\s*)-?(?:inf|nan|NaN|Infinity)(?=\s*[,}\]])")
_SMALL, _MOST_PER_BYTE = 2**20, 18


def parsed(text: bytes) -> Any:  # noqa: ANN401 - any JSON
    """The objects that are written in a text."""
    if not text or text.isspace():
        raise FormatError(f"is empty; {EXPECTED}")
    _check_pieces(text)
    return _parse(text)


@contextmanager
def without_collecting() -> Iterator[None]:
    """Python looks for circles again and again while millions of objects are made: reading took 3 times as long."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _check_pieces(text: bytes) -> None:
    """Refuse what would take more than 20 times its size in memory: lists of next to nothing, millions of them.

    An object takes some 260 bytes, a list 130, what a comma parts from the next about 100; of files that profilers
    wrote they make 6 to 10 bytes for each byte, of [{},{},{}] more than 80.
    """
    pieces = 260 * text.count(b"{") + 130 * text.count(b"[") + 100 * text.count(b",")
    if len(text) > _SMALL and pieces > _MOST_PER_BYTE * len(text):
        raise FormatError(f"is made of pieces too small for events, such as {shown(text[-40:])}; {EXPECTED}")


def _parse(data: bytes) -> Any:  # noqa: ANN401 - any JSON
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        mended, count = _NOT_FINITE.subn(rb"\1null", data)
        if count:
            del data
            return _parse(mended)
        raise FormatError(f"is not JSON: {str(error)[:200]}; {EXPECTED}") from None
