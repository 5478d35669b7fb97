"""Files spoilt at random, again and again, whatever they hold: bytes, text, JSON, messages with lengths, arrays.

spoilt(data, rng)    the data with one to three things wrong; the same for the same rng
"""

import json
import random
import re

from helpers.chakra_files import varint
from helpers.mutations import NAMES, NUMBERS, VALUES

_ODD_BYTES = (0, 1, 0x0A, 0x20, 0x2C, 0x7F, 0x80, 0xFF)


def spoilt(data: bytes, rng: random.Random) -> bytes:
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        data = rng.choice(_ways(data))(data, rng)
    return data


def _ways(data: bytes):
    """The ways to spoil it; those that keep its form come more often, as they lead deeper into a reader."""
    ways = [_flip, _odd_byte, _cut_out, _doubled, _cut_off, _junk, _overwritten]
    if data.startswith(b"\x93NUMPY"):
        return [*ways, *[_header] * 7]
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return [*ways, *[_message] * 10] if _messages(data) else ways
    if _messages(data):
        return [*ways, *[_message] * 10]
    ways += [_word, _word, _number, _number, _number, _lines, _lines, _separators]
    return [*ways, *[_key] * 8] if text.lstrip().startswith("{") else ways


# --- bytes -----------------------------------------------------------------------------------------------------------


def _at(data: bytes, rng: random.Random) -> int:
    return rng.randrange(len(data) + 1)


def _part(data: bytes, rng: random.Random) -> tuple[int, int]:
    start = _at(data, rng)
    return start, min(len(data), start + rng.choice((1, 2, 8, 50, len(data) // 3)))


def _flip(data: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(data)) if data else 0
    return data[:at] + bytes(byte ^ 1 << rng.randrange(8) for byte in data[at : at + 1]) + data[at + 1 :]


def _odd_byte(data: bytes, rng: random.Random) -> bytes:
    at = _at(data, rng)
    return data[:at] + bytes([rng.choice(_ODD_BYTES)]) + data[at + 1 :]


def _cut_out(data: bytes, rng: random.Random) -> bytes:
    start, stop = _part(data, rng)
    return data[:start] + data[stop:]


def _doubled(data: bytes, rng: random.Random) -> bytes:
    start, stop = _part(data, rng)
    return data[:stop] + data[start:stop] * rng.choice((1, 1, 1, 9)) + data[stop:]


def _cut_off(data: bytes, rng: random.Random) -> bytes:
    return data[: _at(data, rng)]


def _junk(data: bytes, rng: random.Random) -> bytes:
    at = _at(data, rng)
    return data[:at] + rng.randbytes(rng.choice((1, 2, 9, 99))) + data[at:]


def _overwritten(data: bytes, rng: random.Random) -> bytes:
    (start, stop), at = _part(data, rng), _at(data, rng)
    return data[:at] + data[start:stop] + data[at + stop - start :]


# --- text ------------------------------------------------------------------------------------------------------------


def _replaced(data: bytes, rng: random.Random, pattern: str, replacements) -> bytes:
    text = data.decode(errors="replace")
    found = list(re.finditer(pattern, text))
    if not found:
        return data
    place = rng.choice(found)
    return (text[: place.start()] + rng.choice(replacements) + text[place.end() :]).encode("utf-8", "surrogatepass")


def _number(data: bytes, rng: random.Random) -> bytes:
    return _replaced(data, rng, r"(?<![\w.])\d+(\.\d+)?(e-?\d+)?(?![\w.])", NUMBERS)


def _word(data: bytes, rng: random.Random) -> bytes:
    return _replaced(data, rng, r"[A-Za-z_]\w*", NAMES)


def _separators(data: bytes, rng: random.Random) -> bytes:
    return _replaced(data, rng, r" -- |[,;=:\[\]{}\"]", (",", ";", " -- ", "=", '"', "[", "]", "{", "", "\t"))


def _lines(data: bytes, rng: random.Random) -> bytes:
    lines = data.split(b"\n")
    one, other = rng.randrange(len(lines)), rng.randrange(len(lines))
    way = rng.randrange(4)
    if way == 0:
        lines[one], lines[other] = lines[other], lines[one]
    elif way == 1:
        del lines[one]
    elif way == 2:
        lines.insert(one, lines[other])
    else:
        lines.insert(one, rng.choice((b"", b"   ", b"\t", b"junk", b"# comment", b"," * 20)))
    return b"\n".join(lines)


# --- JSON ------------------------------------------------------------------------------------------------------------


def _key(data: bytes, rng: random.Random) -> bytes:
    """A key somewhere inside is missing, or holds something else."""
    try:
        whole = inner = json.loads(data)
    except (ValueError, RecursionError):
        return _word(data, rng)
    while True:
        keys = list(inner) if isinstance(inner, dict) else range(len(inner))
        if not keys:
            return data
        key = rng.choice(keys)
        if isinstance(inner[key], dict | list) and inner[key] and rng.random() < 0.8:
            inner = inner[key]
            continue
        if rng.random() < 0.3:
            del inner[key]
        else:
            inner[key] = rng.choice(VALUES)
        return json.dumps(whole).encode("utf-8", "surrogatepass")


# --- messages with lengths -------------------------------------------------------------------------------------------


def _messages(data: bytes) -> list[bytes]:
    """The messages of an execution trace, if this is one."""
    found, at = [], 0
    while at < len(data):
        length = shift = 0
        while True:
            if at >= len(data) or shift > 28:
                return []
            length |= (data[at] & 0x7F) << shift
            shift, at = shift + 7, at + 1
            if data[at - 1] < 0x80:
                break
        if at + length > len(data):
            return []
        found.append(data[at : at + length])
        at += length
    return found if len(found) > 1 else []


def _message(data: bytes, rng: random.Random) -> bytes:
    """One message is spoilt inside, missing, there twice or elsewhere; all lengths before messages stay right."""
    messages = _messages(data)
    if not messages:
        return _flip(data, rng)
    one, other = rng.randrange(len(messages)), rng.randrange(len(messages))
    way = rng.randrange(9)
    if way == 0:
        messages[one], messages[other] = messages[other], messages[one]
    elif way == 1:
        del messages[one]
    elif way == 2:
        messages.insert(one, messages[other])
    else:
        inside = rng.choice((_flip, _flip, _odd_byte, _cut_out, _doubled, _cut_off, _junk))
        messages[one] = inside(messages[one], rng)
    return b"".join(varint(len(message)) + message for message in messages)


# --- arrays ----------------------------------------------------------------------------------------------------------


def _header(data: bytes, rng: random.Random) -> bytes:
    """The header of an array says something else, at its old length."""
    stop = data.find(b"\n") + 1
    header, rest = data[:stop], data[stop:]
    if rng.random() < 0.2:
        return header + _flip(rest, rng)
    old = rng.choice((b"<f8", b"False", b"(", b",)", b"shape", b"descr", b"3", b"6"))
    new = rng.choice((b"<f4", b">f8", b"|O", b"<c16", b"<i8", b"|b1", b"True", b"(9999999,", b"(-1,", b"(0,", b"[" * 30,
                      b"9" * 30, b"None", b"<U3", b"<M8[s]", b"V8", b"(2, 3)"))  # fmt: skip
    changed = header.replace(old, new, 1)
    spaces = len(changed) - len(header)
    return (changed.replace(b" " * spaces, b"", 1) if spaces > 0 else changed) + rest
