"""Reading files that can be compressed with gzip: the beginning or the whole file, in bounded memory."""

import zlib
from pathlib import Path

from pipesim.base import files
from pipesim.base.errors import FormatError, within

_GZIP = b"\x1f\x8b"
_AS_GZIP = 31  # zlib's window bits for a gzip header
_MOST_RATIO, _ALWAYS = 200, 2**26


def read_inflated(path: Path) -> bytes:
    """The bytes of a file, decompressed if it is gzip; refused if it expands more than any recording."""
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
            raise FormatError(f"expands to more than {most} bytes; a compressed trace was expected")
        if not inflate.eof:
            raise FormatError("is an incomplete gzip file; copy or record it again")
    return text


def beginning(path: Path, most: int) -> str:
    """The first characters of a file, decompressed if it is gzip."""
    return inflated_beginning(files.read_bytes(path, most), most)


def inflated_beginning(data: bytes, most: int) -> str:
    """The first characters of a file that begins with these bytes, decompressed if they are gzip."""
    if data.startswith(_GZIP):
        try:
            data = zlib.decompressobj(_AS_GZIP).decompress(data, most)
        except zlib.error:
            return ""
    return data.decode("utf-8-sig", errors="replace")
