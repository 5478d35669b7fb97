"""JSON Schemas of dataclasses that have a file form, from the types of their fields, for editors to complete and check.

A schema accepts every file that `serialisation` reads, and refuses unknown keys, missing keys and wrong types; what
depends on several values is checked when a file is read.
"""

import dataclasses
import types
import typing
from collections.abc import Mapping
from typing import Any

from pipesim.base.settings import Setting

DRAFT = "https://json-schema.org/draft/2020-12/schema"
SCALARS: dict[Any, str] = {str: "string", int: "integer", float: "number", bool: "boolean"}
DIRECTIVE = "#:schema"  # the first line of a TOML file for Taplo, and for editors that use it

Schema = dict[str, Any]


def of_file(cls: type) -> Schema:
    """The schema of a file that holds this dataclass, headed by format and version."""
    return headed(cls.FORMAT, cls.VERSION, of_dataclass(cls))  # type: ignore[attr-defined]  # dataclasses with a file form have both


def headed(file_format: str, version: int, body: Schema) -> Schema:
    """The schema of a file: that of its content, and what every file is headed by."""
    header = {
        "format": {"const": file_format},
        "version": {"type": "integer", "minimum": 1, "maximum": version},
    }
    return {
        "$schema": DRAFT,
        "title": file_format,
        **body,
        "properties": {"$schema": {"type": "string"}, **header, **body["properties"]},
        "required": ["format", "version", *body.get("required", [])],
    }


def of_dataclass(cls: type) -> Schema:
    """The schema of a table with the fields of a dataclass."""
    fields = [one for one in dataclasses.fields(cls) if one.metadata.get("file", True)]
    hints = typing.get_type_hints(cls)
    needed = [
        one.name for one in fields if one.default is dataclasses.MISSING and one.default_factory is dataclasses.MISSING
    ]
    return {
        "description": (cls.__doc__ or "").strip().split("\n")[0],
        "type": "object",
        "properties": {one.name: _field(hints[one.name], one) for one in fields},
        "additionalProperties": False,
        **({"required": needed} if needed else {}),
    }


def _field(kind: Any, field: dataclasses.Field[Any]) -> Schema:  # noqa: ANN401 - any annotation
    """A field; one with a `parse` function also takes what people write: text with a unit, or one item for a list."""
    found = _kind(kind)
    if "parse" in field.metadata:
        found = {"type": ["number", "string"]} if "items" not in found else {"anyOf": [found, {"type": "string"}]}
    if type(None) in typing.get_args(kind):  # in JSON; TOML leaves the key out
        found = {"anyOf": [found, {"type": "null"}]}
    if field.default is not dataclasses.MISSING and isinstance(field.default, str | int | float):
        found = found | {"default": field.default}
    return found


def _kind(kind: Any) -> Schema:  # noqa: ANN401, PLR0911 - any annotation; one return per kind
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in {typing.Union, types.UnionType}:
        return _kind(next(option for option in arguments if option is not types.NoneType))
    if origin is Mapping:
        return {"type": "object", "additionalProperties": _kind(arguments[1])}
    if origin is tuple:
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return {"type": "array", "items": _kind(arguments[0])}
        return {
            "type": "array", "prefixItems": list(map(_kind, arguments)),
            "minItems": len(arguments), "maxItems": len(arguments),
        }  # fmt: skip
    if origin is typing.Literal:
        return {"enum": list(arguments)}
    if dataclasses.is_dataclass(kind):
        return of_dataclass(kind)  # type: ignore[arg-type]  # a dataclass type, as just checked
    return {"type": SCALARS[kind]}


def of_settings(settings: Mapping[str, Setting]) -> Schema:
    """The schema of a table whose keys are settings; text may stand for a number, since it may hold a formula."""
    return {
        "type": "object",
        "properties": {name: _setting(about) for name, about in settings.items()},
        "additionalProperties": False,
    }


def _setting(about: Setting) -> Schema:
    # A formula in braces is computed at each point, and units are written in text.
    kinds = [SCALARS.get(about.kind, "string"), *([] if about.kind is str and about.parse is None else ["string"])]
    if about.parse is not None and not {"number", "integer"} & set(kinds):
        kinds.append("number")
    found: Schema = {"description": about.help, "type": list(dict.fromkeys(kinds))}
    if about.choices:
        found = {
            "description": about.help,
            "anyOf": [{"enum": list(about.choices)}, {"type": "string", "pattern": "{"}],
        }
    if about.multiple:
        found = {"description": about.help, "anyOf": [found, {"type": "array", "items": found}]}
    return found
