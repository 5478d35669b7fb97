"""Conversion of quantities that users write, such as "25 Gb/s" and "16 GiB", to seconds, bytes and bytes/s.

Simulated time is a whole number of nanoseconds. Only this module converts seconds to nanoseconds.
"""

import math
import re
from decimal import Decimal
from typing import TYPE_CHECKING

from pipesim.base.errors import InputError, shown

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

NS_PER_S = 1e9
LONGEST_NS = 2.0**62  # times are 64-bit; half of that leaves room to add

# Scales are exact, so that "5us" is the float 5e-6 and not the next one.
_DECIMAL = {
    prefix: Decimal(10) ** power
    for prefix, power in zip(["", "k", "K", "M", "G", "T", "P"], [0, 3, 3, 6, 9, 12, 15], strict=True)
}
_BINARY = {
    prefix: Decimal(2) ** power for prefix, power in zip(["Ki", "Mi", "Gi", "Ti"], [10, 20, 30, 40], strict=True)
}
_SIZES = {prefix + "B": scale for prefix, scale in (_DECIMAL | _BINARY).items()}
_RATES = (
    {prefix + "B/s": scale for prefix, scale in (_DECIMAL | _BINARY).items()}
    | {prefix + "b/s": scale / 8 for prefix, scale in (_DECIMAL | _BINARY).items()}
    | {prefix + "bps": scale / 8 for prefix, scale in _DECIMAL.items()}
)
_TIMES = {
    unit: Decimal(10) ** power for unit, power in zip(["s", "ms", "us", "µs", "ns"], [0, -3, -6, -6, -9], strict=True)
}

_COUNTS = {
    unit: Decimal(10) ** power
    for unit, power in zip(["k", "K", "M", "B", "G", "T", "P"], [3, 3, 6, 9, 9, 12, 15], strict=True)
}

_PARTS = {"%": Decimal("0.01")}

# Possessive (++, *+, ?+), so that a text of 100,000 digits is matched once, and not from each of them.
_QUANTITY = re.compile(r"\s*+([+-]?(?:[0-9]++\.?+[0-9]*+|\.[0-9]++)(?:[eE][+-]?[0-9]++)?+)\s*+(\S*+)\s*+")


def number(text: str) -> float:
    """The number in a text, or ValueError. Unlike `float`, refuses 1_0 and digits of other scripts."""
    if not text.isascii() or "_" in text:
        raise ValueError(text)
    return float(text)


def whole(text: str) -> int:
    """The whole number in a text; see `number`."""
    if not text.isascii() or "_" in text:
        raise ValueError(text)
    return int(text)


def bandwidth(value: float | str) -> float:
    """Bytes per second from a number of bytes per second or from text such as "25 Gb/s" or "300GB/s"."""
    return _quantity(value, _RATES, "a bandwidth", "25 Gb/s")


def size(value: float | str) -> float:
    """Bytes from a number of bytes or from text such as "16 GiB"."""
    return _quantity(value, _SIZES, "a size", "16 GiB")


def duration(value: float | str) -> float:
    """Seconds from a number of seconds or from text such as "5us"."""
    return _quantity(value, _TIMES, "a time", "5us")


def count(value: float | str) -> float:
    """A number of things: 1.5e13, or "15T"; B is a thousand millions."""
    return _quantity(value, _COUNTS, "a number", "15T")


def fraction(value: float | str) -> float:
    """A part of a whole: 0.1, or "10%"."""
    return _quantity(value, _PARTS, "a part of a whole", "10%")


def _quantity(value: float | str, scales: dict[str, Decimal], what: str, example: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise InputError(f"{shown(value)} is not {what}; write a number or text such as {example!r}")
    try:
        number = _parse(value, scales, what, example) if isinstance(value, str) else float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number) or number < 0:
        raise InputError(f"{shown(value)} is not {what}; it must be finite and not negative")
    return number


def _parse(text: str, scales: dict[str, Decimal], what: str, example: str) -> float:
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise InputError(f"{shown(text)} is not {what}; write it as {example!r}")
    number, unit = match.groups()
    if unit and unit not in scales:
        raise InputError(f"{shown(text)} is not {what}: unknown unit {shown(unit)}; write it as {example!r}")
    try:
        return float(Decimal(number) * (scales[unit] if unit else 1))
    except ArithmeticError:  # an exponent out of range
        return math.inf


def to_ns(seconds: "NDArray[np.float64]") -> "NDArray[np.int64]":
    """Whole nanoseconds, to the nearest."""
    import numpy as np  # noqa: PLC0415 - a shell waits for the completion of a word, which reads numbers

    if not (seconds <= LONGEST_NS / NS_PER_S).all():
        raise InputError(f"{np.max(seconds):.3g} s found; the longest supported duration is 146 years")
    return np.rint(seconds * NS_PER_S).astype(np.int64)


def ns_of(seconds: float) -> int:
    """As `to_ns`, of one number: 20 times faster than an array of one."""
    if not seconds <= LONGEST_NS / NS_PER_S:
        raise InputError(f"{seconds:.3g} s found; the longest supported duration is 146 years")
    return round(seconds * NS_PER_S)


def ns_up(nanoseconds: float) -> int:
    """Nanoseconds rounded up, with a tolerance of a millionth of a nanosecond.

    So 1000.0000000001 from a division becomes 1000.
    """
    return math.ceil(nanoseconds - 1e-6)


def all_ns_up(nanoseconds: "NDArray[np.float64]") -> "NDArray[np.int64]":
    """As `ns_up`, of each."""
    import numpy as np  # noqa: PLC0415 - as above

    return np.ceil(nanoseconds - 1e-6).astype(np.int64)


def to_s(nanoseconds: float) -> float:
    """Seconds of a number of nanoseconds."""
    return float(nanoseconds) / NS_PER_S
