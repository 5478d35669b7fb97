"""Dataclasses to TOML and JSON and back, with errors that carry the path of the wrong key (`stages[2].devices[0]`).

Every file starts with its format and version: `format = "pipesim.plan"`, `version = 1`.
"""

import dataclasses
import json
import math
import re
import tomllib
import types
import typing
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import tomli_w

from pipesim.base import files
from pipesim.base.errors import FormatError, InputError, PipesimError, shown, within

T = TypeVar("T")
Data = dict[str, Any]

HEADER = frozenset({"format", "version", "$schema"})  # keys of every file; `$schema` is for editors

_INT64 = 2**63
_SURROGATE = re.compile("[\ud800-\udfff]")


def save(value: Any, path: Path) -> None:  # noqa: ANN401 - any of the project's dataclasses
    """Write a dataclass to a .toml or .json file, headed by its format and version."""
    files.write_text(path, dumps(value, path.suffix))


def dumps(value: Any, suffix: str) -> str:  # noqa: ANN401 - any of the project's dataclasses
    """The text of a dataclass as TOML or JSON, headed by its format and version."""
    data = {"format": value.FORMAT, "version": value.VERSION, **to_data(value)}
    if suffix == ".toml":
        return tomli_w.dumps(_without_none(data))
    if suffix == ".json":
        return json.dumps(data, indent=2, ensure_ascii=False) + "\n"
    raise InputError(f"cannot write a {suffix or 'file without suffix'}; use .toml or .json")


def load(cls: type[T], path: Path, ignore: frozenset[str] = frozenset()) -> T:
    """Read a dataclass from a .toml or .json file. Keys in `ignore` are derived, so they are not read."""
    data = read_data(path)
    with within(str(path)):
        check_header(data, cls.FORMAT, cls.VERSION)  # type: ignore[attr-defined]  # dataclasses with a file form have both
        body = {key: value for key, value in data.items() if key not in HEADER | ignore}
        return from_data(cls, body)


def read_data(path: Path, limit: int = files.DOCUMENT) -> Data:
    """The mapping in a TOML or JSON file."""
    text = files.read_text(path, limit)
    with within(str(path)):
        return parse_data(text, path.suffix)


def parse_data(text: str, suffix: str) -> Data:
    """The mapping in TOML or JSON text."""
    if suffix not in {".toml", ".json"}:
        raise InputError(f"has the suffix {suffix!r}; a .toml or .json file was expected")
    try:
        data = tomllib.loads(text) if suffix == ".toml" else json.loads(text, parse_constant=_refuse_constant)
    except PipesimError:
        raise
    except (ValueError, RecursionError, OverflowError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise FormatError(f"is not {suffix[1:].upper()}: {reason[:200]}") from None
    if not isinstance(data, dict):
        raise FormatError(f"contains a {type(data).__name__}; a table of keys and values was expected")
    return data


def _refuse_constant(text: str) -> float:
    raise FormatError(f"{text} found; numbers must be finite")


def check_header(data: Mapping[str, Any], expected: str, version: int) -> None:
    """Refuse a file of another format, or of a version newer than this program knows."""
    found = data.get("format")
    if found != expected:
        what = f"format = {shown(found)} found" if "format" in data else "no key 'format' found"
        raise FormatError(f"{what}; format = {expected!r} was expected")
    number = data.get("version")
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise FormatError(f"version = {shown(number)} found; a whole number, at most {version}, was expected")
    if number > version:
        raise FormatError(
            f"{expected} version {shown(number)} is newer than this pipesim reads ({version}); upgrade pipesim"
        )


def to_data(value: Any) -> Any:  # noqa: ANN401 - recursive over all kinds of values
    """Plain lists, mappings, numbers and text from a dataclass.

    Fields marked `file=False` are left out, and those marked `unless_default` where they have their default.
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_data(getattr(value, f.name)) for f in dataclasses.fields(value) if _in_file(value, f)}
    if isinstance(value, tuple | list):
        return [to_data(item) for item in value]
    if isinstance(value, dict):
        return {key: to_data(item) for key, item in value.items()}
    return value


def _in_file(value: Any, field: dataclasses.Field[Any]) -> bool:  # noqa: ANN401 - a dataclass
    if not field.metadata.get("file", True):
        return False
    return not (field.metadata.get("unless_default", False) and getattr(value, field.name) == field.default)


def _without_none(value: Any) -> Any:  # noqa: ANN401 - TOML has no null: a missing key means None
    if isinstance(value, dict):
        return {key: _without_none(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_none(item) for item in value]
    return value


def from_data(cls: type[T], data: Any, path: str = "") -> T:  # noqa: ANN401 - files may contain anything
    """A dataclass from plain data; unknown, missing and wrongly typed keys are refused with their path.

    The metadata of a field may have a `parse` function for what users write in files ("25 Gb/s").
    """
    if not isinstance(data, dict):
        raise InputError(f"{path or 'the file'}: {shown(data)} found; a table with keys was expected")
    fields = {field.name: field for field in dataclasses.fields(cls) if field.metadata.get("file", True)}  # type: ignore[arg-type]  # cls is a dataclass
    hints = typing.get_type_hints(cls)
    for key in data:
        if key not in fields:
            raise InputError(f"{_join(path, key)}: unknown key; known are {', '.join(fields)}")
    values = {}
    for name, field in fields.items():
        place = _join(path, name)
        if name in data:
            values[name] = _value(hints[name], data[name], place, field.metadata.get("parse"))
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise InputError(f"{place}: missing; {_type_name(hints[name])} was expected")
    if not path:
        return cls(**values)
    with within(path):
        return cls(**values)


def checked(kind: Any, value: Any, path: str) -> Any:  # noqa: ANN401 - any annotation, what a file holds is anything
    """A value from a file as a field of this type has it; refused with its path where it cannot have it."""
    return _value(kind, value, path)


def _value(kind: Any, value: Any, path: str, parse: Any = None) -> Any:  # noqa: ANN401, PLR0911 - one return per kind
    if parse is not None and not (value is None and type(None) in typing.get_args(kind)):
        return _parsed(kind, value, path, parse)
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in {typing.Union, types.UnionType}:
        if value is None:
            return None
        return _value(next(option for option in arguments if option is not types.NoneType), value, path)
    if origin is tuple:
        return _items(arguments, value, path)
    if origin is Mapping:
        if not isinstance(value, dict):
            raise InputError(f"{path}: {shown(value)} found; names and values were expected")
        return {str(key): _value(arguments[1], item, _join(path, str(key))) for key, item in value.items()}
    if origin is typing.Literal:
        if value not in arguments or not isinstance(value, str):
            raise InputError(f"{path}: {shown(value)} found; one of {', '.join(map(repr, arguments))} was expected")
        return value
    if dataclasses.is_dataclass(kind):
        return from_data(kind, value, path)  # type: ignore[arg-type]  # a dataclass type, as just checked
    return _scalar(kind, value, path)


def _parsed(kind: Any, value: Any, path: str, parse: Callable[[Any], Any]) -> Any:  # noqa: ANN401 - any value
    """The result of a field's `parse` function, checked as if it were the value in the file."""
    try:
        with within(path):
            parsed = parse(value)
    except (ValueError, OverflowError, RecursionError):
        raise InputError(f"{path}: {shown(value)} found; a smaller number was expected") from None
    return _value(kind, parsed, path)


def _items(arguments: tuple[Any, ...], value: Any, path: str) -> tuple[Any, ...]:  # noqa: ANN401 - any list
    if not isinstance(value, list | tuple):
        raise InputError(f"{path}: {shown(value)} found; a list was expected")
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        return tuple(_value(arguments[0], item, f"{path}[{i}]") for i, item in enumerate(value))
    if len(value) != len(arguments):
        raise InputError(f"{path}: {len(value)} values found; {len(arguments)} were expected")
    return tuple(_value(k, item, f"{path}[{i}]") for i, (k, item) in enumerate(zip(arguments, value, strict=True)))


def _scalar(kind: Any, value: Any, path: str) -> Any:  # noqa: ANN401 - text, number or Boolean
    right = isinstance(value, kind) if kind in {str, bool} else isinstance(value, int | float if kind is float else int)
    if not right or (isinstance(value, bool) and kind is not bool):
        raise InputError(f"{path}: {shown(value)} found; {_type_name(kind)} was expected")
    if kind is str and _SURROGATE.search(value):
        raise InputError(f"{path}: {shown(value)} found; text that UTF-8 can write was expected")
    if kind is int and not -_INT64 <= value < _INT64:
        raise InputError(f"{path}: {shown(value)} found; a 64-bit whole number was expected")
    if kind is float:
        try:
            value = float(value)
        except OverflowError:
            value = math.inf
        if not math.isfinite(value):
            raise InputError(f"{path}: {value} found; a finite number was expected")
    return value


def _type_name(kind: Any) -> str:  # noqa: ANN401 - any annotation
    names = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}
    if kind in names:
        return names[kind]
    return "a list" if typing.get_origin(kind) is tuple else "a value"


def _join(path: str, key: str) -> str:
    key = key if key.isprintable() and len(key) <= 60 else shown(key)
    return f"{path}.{key}" if path else key
