"""From what people call a thing to the function that makes it.

"balanced"                       a member of a family
"megatron(interleave=2)"         a member with arguments; parsed, never evaluated
"my_package.my_module:planner"   anybody's function
"""

import ast
import difflib
import functools
import importlib
import inspect
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any

from pipesim.errors import InputError, UnknownNameError, shown, within

Family = Mapping[str, str]


def resolve(text: str, family: Family, noun: str) -> Callable[..., Any]:
    """The function that `text` names, with the arguments that `text` gives already bound."""
    name, positional, keywords = parse_call(text, noun)
    function = function_named(name, family, noun)
    if not positional and not keywords:
        return function
    with within(f"{noun} {text!r}"):
        signature = _signature(function)
        try:
            signature.bind_partial(*positional, **keywords)
        except TypeError as error:
            raise InputError(f"{error}; {_usage(name, function)}") from None
        _check_types(function, keywords)
    return functools.partial(function, *positional, **keywords)


def call(text: str, family: Family, noun: str) -> Any:  # noqa: ANN401 - what the family makes
    """Call the function that `text` names with just the arguments that `text` gives."""
    function = resolve(text, family, noun)
    with within(f"{noun} {text!r}"):
        signature = _signature(function)
        try:
            signature.bind()
        except TypeError as error:
            name = text.partition("(")[0].strip()
            original = function.func if isinstance(function, functools.partial) else function
            raise InputError(f"{error}; {_usage(name, original)}") from None
        return function()


def _signature(function: Callable[..., Any]) -> inspect.Signature:
    """What a function takes; some that are not written in Python do not say it."""
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        raise InputError("does not say which arguments it takes; a function written in Python was expected") from None


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    """The annotations of a function; none where they name what is imported for type checkers only."""
    try:
        return typing.get_type_hints(function)
    except (NameError, TypeError, AttributeError, SyntaxError):
        return {}


def _check_types(function: Callable[..., Any], keywords: dict[str, Any]) -> None:
    """Refuse options of a kind that their annotation does not name, where it names plain ones."""
    hints = _hints(function)
    for key, value in keywords.items():
        kinds = set(typing.get_args(hints.get(key)) or (hints.get(key, object),))
        if any(typing.get_origin(kind) is Callable for kind in kinds):
            raise InputError(
                f"{key}: {shown(value)} found; a function, which can be given only in Python, was expected"
            )
        if not kinds <= _PLAIN or isinstance(value, _accepted(kinds)):
            continue
        names = " or ".join(sorted(kind.__name__ for kind in kinds if kind is not types.NoneType))
        raise InputError(f"{key}: {shown(value)} found; {names} was expected")


_PLAIN = {int, float, str, bool, types.NoneType}


def _accepted(kinds: set[type]) -> tuple[type, ...]:
    return (*kinds, int) if float in kinds else tuple(kinds)


def _usage(name: str, function: Callable[..., Any]) -> str:
    """How to write it: where what comes first is given by the program, only the options."""
    parameters = inspect.signature(function).parameters.values()
    options = [p for p in parameters if p.kind is p.KEYWORD_ONLY]
    given = (
        options if any(p.annotation is not p.empty and p.name in {"costs", "path"} for p in parameters) else parameters
    )
    shown = [p.name if p.default is p.empty else f"{p.name}={p.default!r}" for p in given]
    return f"write {name}({', '.join(shown)})"


def function_named(name: str, family: Family, noun: str) -> Callable[..., Any]:
    """The function of a family's member, or of "module:function"."""
    target = family.get(name, name)
    module, colon, attribute = target.partition(":")
    if not colon:
        raise UnknownNameError(f"no {noun} is called {name!r}; {suggest(name, family)}")
    try:
        function = getattr(importlib.import_module(module), attribute)
    except (ImportError, ValueError, TypeError) as error:
        raise UnknownNameError(f"{noun} {name!r}: cannot import {module!r}: {error}") from None
    except AttributeError:
        raise UnknownNameError(f"{noun} {name!r}: module {module!r} has no {attribute!r}") from None
    if not callable(function):
        raise UnknownNameError(f"{noun} {name!r}: is a {type(function).__name__}; a function was expected")
    return function  # type: ignore[no-any-return]  # checked to be callable just above


def suggest(name: str, known: Mapping[str, Any] | list[str]) -> str:
    """A sentence that says what was probably meant, and which names exist."""
    names = list(known)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    meant = f"did you mean {close[0]!r}? " if close else ""
    return f"{meant}known are {', '.join(names)}"


def parse_call(text: str, noun: str) -> tuple[str, list[Any], dict[str, Any]]:
    """`name(1, "a", key=2.5)` as name, positional and keyword arguments; only literals are understood."""
    name, parenthesis, rest = text.partition("(")
    if not parenthesis:
        return text.strip(), [], {}
    try:  # any name will do, "bert-large" and "package.module:function" too: only what follows it is Python
        node = ast.parse(f"f({rest.strip()}", mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        node = None
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
        raise InputError(f"{noun} {text!r} cannot be read; write it like name(2, 8, key='25 Gb/s')")
    positional = [_literal(argument, text, noun) for argument in node.args]
    keywords = {}
    for keyword in node.keywords:
        if keyword.arg is None or keyword.arg in keywords:
            raise InputError(f"{noun} {text!r}: arguments must be named once each")
        keywords[keyword.arg] = _literal(keyword.value, text, noun)
    return name.strip(), positional, keywords


def _literal(node: ast.expr, text: str, noun: str) -> Any:  # noqa: ANN401 - any literal
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        shown = ast.unparse(node)[:60]
        raise InputError(f"{noun} {text!r}: {shown!r} is not a plain number, text, list or tuple") from None
