"""Files that may be compressed with gzip: their beginning, and all of them, within bounds."""

import zlib
from pathlib import Path

from pipesim.base import files
from pipesim.base.errors import FormatError, within

_GZIP = b"\x1f\x8b"
_AS_GZIP = 31  # zlib's window bits for a gzip header
_MOST_RATIO, _ALWAYS = 200, 2**26


def read_inflated(path: Path) -> bytes:
    """The bytes of a file, decompressed where it is gzip; refused where it grows beyond all measure."""
    data = files.read_bytes(path, limit=files.RECORDING)
    if not data.startswith(_GZIP):
        return data
    most = max(_ALWAYS, _MOST_RATIO * len(data))
    inflate = zlib.decompressobj(_AS_GZIP)
    with within(str(path)):
        try:
            text = inflate.decompress(data, most)
        except zlib.error as error:
            raise FormatError(f"is not a readable gzip file: {error}") from None
        if inflate.unconsumed_tail:
            raise FormatError(f"is a gzip file that holds more than {most} bytes; a trace was expected")
        if not inflate.eof:
            raise FormatError("is a gzip file that was cut off")
    return text


def beginning(path: Path, most: int) -> str:
    """The first characters of a file, decompressed where it is gzip."""
    data = files.read_bytes(path, most)
    if data.startswith(_GZIP):
        try:
            data = zlib.decompressobj(_AS_GZIP).decompress(data, most)
        except zlib.error:
            return ""
    return data.decode("utf-8-sig", errors="replace")
