"""Parsing the JSON of a profiler's file in bounded memory."""

import gc
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import orjson

from pipesim.base.errors import FormatError, shown

EXPECTED = "a file of PyTorch's profiler, .json or .json.gz, was expected"
# Old versions divide by a duration of 0, and write numbers that are not JSON.
_NOT_FINITE = re.compile(rb"(:\s*)-?(?:inf|nan|NaN|Infinity)(?=\s*[,}\]])")
_SMALL, _MOST_PER_BYTE = 2**20, 18


def parse(text: bytes) -> Any:  # noqa: ANN401 - any JSON
    """The objects in a JSON text."""
    if not text or text.isspace():
        raise FormatError(f"is empty; {EXPECTED}")
    _check_pieces(text)
    return _parse(text)


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Without garbage collection, whose searches for cycles among millions of objects tripled the time of reading."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _check_pieces(text: bytes) -> None:
    """Refuse a text whose objects would take more than 20 times its size: millions of tiny lists or objects.

    An object takes about 260 bytes, a list 130, an element after a comma 100. That is 6 to 10 bytes for each byte of a
    file that a profiler wrote, and more than 80 for [{},{},{}].
    """
    pieces = 260 * text.count(b"{") + 130 * text.count(b"[") + 100 * text.count(b",")
    if len(text) > _SMALL and pieces > _MOST_PER_BYTE * len(text):
        raise FormatError(f"consists of objects too small for events, such as {shown(text[-40:])}; {EXPECTED}")


def _parse(data: bytes) -> Any:  # noqa: ANN401 - any JSON
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        fixed, count = _NOT_FINITE.subn(rb"\1null", data)
        if count:
            del data
            return _parse(fixed)
        raise FormatError(f"is not JSON: {str(error)[:200]}; {EXPECTED}") from None
