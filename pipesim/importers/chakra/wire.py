"""The wire format of protocol buffers: a message is a sequence of numbered fields, each a number or bytes.

tag       field number << 3 | type      a varint, as are lengths: 7 bits a byte, the least first, 0x80: more follow
type 0    a varint                      type 2    a length, and so many bytes: text, a message, packed numbers
type 1    8 bytes                       type 5    4 bytes
"""

from collections.abc import Iterator
from typing import NamedTuple

from pipesim.base.errors import FormatError

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
_WIDTH = {FIXED64: 8, FIXED32: 4}
_LONGEST_VARINT = 10  # bytes


def varint(data: bytes, at: int, stop: int) -> tuple[int, int]:
    """The number that begins here, and where it ends."""
    value = 0
    for shift in range(_LONGEST_VARINT):
        if at >= stop:
            raise FormatError(f"byte {at}: ends inside a number")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << 7 * shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, at
    raise FormatError(f"byte {at}: a number of more than {_LONGEST_VARINT} bytes found")


def spans(data: bytes) -> Iterator[tuple[int, int]]:
    """The begin and end of each message of a file, in which each message follows its length."""
    at = 0
    while at < len(data):
        length, start = varint(data, at, len(data))
        if length > len(data) - start:
            raise FormatError(
                f"byte {at}: a message of {length} bytes found; {len(data) - start} bytes are left (cut off, or not "
                "this format)"
            )
        at = start + length
        yield start, at


class Field(NamedTuple):
    """A field of a message. `start` is the value of a varint; of others, the value is data[start:stop]."""

    number: int
    wire_type: int
    start: int
    stop: int


def inside(data: bytes, field: Field) -> Iterator[Field]:
    """The fields of a message that is itself a field."""
    return fields(data, field.start, field.stop)


def fields(data: bytes, start: int, stop: int) -> Iterator[Field]:
    """Each field of a message."""
    at = start
    while at < stop:
        tag, after = varint(data, at, stop)
        number, wire_type = tag >> 3, tag & 7
        if wire_type == VARINT:
            value, at = varint(data, after, stop)
            yield Field(number, wire_type, value, value)
            continue
        if wire_type == BYTES:
            length, after = varint(data, after, stop)
        elif wire_type in _WIDTH:
            length = _WIDTH[wire_type]
        else:
            raise FormatError(f"byte {at}: field {number} of wire type {wire_type} found; 0, 1, 2 or 5 was expected")
        if length > stop - after:
            raise FormatError(f"byte {at}: field {number} has {length} bytes; {stop - after} are left in its message")
        at = after + length
        yield Field(number, wire_type, after, at)


def packed(data: bytes, start: int, stop: int) -> Iterator[int]:
    """Varints one after the other."""
    at = start
    while at < stop:
        value, at = varint(data, at, stop)
        yield value


def encoded(value: int) -> bytes:
    """A varint; a negative number has all its 64 bits."""
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def number_field(number: int, value: int) -> bytes:
    """A field that is a varint."""
    return encoded(number << 3 | VARINT) + encoded(value)


def bytes_field(number: int, value: bytes) -> bytes:
    """A field that is text, a message or packed numbers."""
    return encoded(number << 3 | BYTES) + encoded(len(value)) + value


def signed(value: int) -> int:
    """The signed number with these 64 bits."""
    return value - (1 << 64) if value >> 63 else value
