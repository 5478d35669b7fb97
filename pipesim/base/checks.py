"""Checks of arguments; an error names the argument, the value that was found and the values that are allowed."""

import operator
from collections.abc import Iterable, Sequence
from math import inf
from numbers import Integral, Real

from pipesim.base.errors import InputError, shown

MOST = 2**63 - 1  # of anything that is counted: columns of numbers have 64 bits


def check_at_least(name: str, value: float, least: int = 1, error: type[InputError] = InputError) -> None:
    """Refuse a number below `least`, or one that does not fit into 64 bits."""
    if value < least:
        raise error(f"{name} = {shown(value)} found; at least {least} was expected")
    if value > MOST:
        raise error(f"{name} = {shown(value)} found; at most {MOST} was expected")


def check_whole(name: str, value: object, least: int = 1, most: int = MOST) -> int:
    """The value as an int; refused unless it is a whole number from `least` to `most`, of Python or of NumPy."""
    try:
        whole = operator.index(value)  # type: ignore[arg-type]  # the TypeError is what is asked for
    except TypeError:
        whole = least - 1
    if isinstance(value, bool) or not least <= whole <= most:
        limits = f", at least {least}," if most == MOST else f" from {least} to {most}"
        raise InputError(f"{name} = {shown(value)} found; a whole number{limits} was expected")
    return whole


def check_not_negative(name: str, value: object) -> None:
    """Refuse what is not a finite number of at least 0."""
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 <= value < inf:  # type: ignore[operator]
        raise InputError(f"{name} = {shown(value)} found; a finite number, not negative, was expected")


def check_one_of(name: str, value: object, allowed: Iterable[str], error: type[InputError] = InputError) -> None:
    """Refuse a value that is not among the allowed names."""
    names = list(allowed)
    if not isinstance(value, str) or value not in names:
        raise error(f"{name} = {shown(value)} found; one of {', '.join(names)} was expected")


def check_sequence(name: str, value: object, of: type[int] | type[str]) -> None:
    """Refuse what is not a sequence of whole numbers, or of texts."""
    is_sequence = isinstance(value, Sequence) and not isinstance(value, str)
    kind, what = (Integral, "whole numbers") if of is int else (str, "texts")
    if not is_sequence or not all(isinstance(one, kind) for one in value):  # type: ignore[attr-defined]
        raise InputError(f"{name} = {shown(value)} found; {what} in brackets were expected")
