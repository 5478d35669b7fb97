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
import sys
import traceback
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pipesim.base.errors import InputError, PipesimError, UnknownNameError, clipped, quoted, shown, within

Family = Mapping[str, str]

_BITS = 63  # of a whole number: more fit neither columns nor floating point


def resolve(text: str, family: Family, noun: str) -> Callable[..., Any]:
    """The function that `text` names, with the arguments that `text` gives already bound."""
    name, positional, keywords = parse_call(text, noun)
    function = function_named(name, family, noun)
    if not positional and not keywords:
        return function
    with within(f"{noun} {quoted(text)}"):
        signature = _signature(function)
        try:
            signature.bind_partial(*positional, **keywords)
        except TypeError as error:
            raise InputError(f"{clipped(str(error), 300)}; {_usage(name, function)}") from None
        _check_types(function, keywords)
    return functools.partial(function, *positional, **keywords)


def call(text: str, family: Family, noun: str) -> Any:  # noqa: ANN401 - what the family makes
    """Call the function that `text` names with just the arguments that `text` gives."""
    function = resolve(text, family, noun)
    with within(f"{noun} {quoted(text)}"):
        signature = _signature(function)
        try:
            signature.bind()
        except TypeError as error:
            name = text.partition("(")[0].strip()
            original = function.func if isinstance(function, functools.partial) else function
            raise InputError(f"{clipped(str(error), 300)}; {_usage(name, original)}") from None
    with calling(text, noun):
        return function()


@contextmanager
def calling(text: str, noun: str) -> Iterator[None]:
    """Say of errors inside whose they are; what anybody's own function raises is told in a sentence, with its place."""
    with within(f"{noun} {quoted(text)}"):
        try:
            yield
        except PipesimError:
            raise
        except Exception as error:
            if ":" not in text.partition("(")[0]:
                raise
            raise InputError(f"raised {_told(error)}{_place(error)}") from error


def check_takes(function: Callable[..., object], arguments: str) -> None:
    """Refuse a function that cannot be called with these arguments, `plan, costs, watch=`."""
    positional = [name for name in arguments.split(", ") if not name.endswith("=")]
    keywords = {name[:-1]: None for name in arguments.split(", ") if name.endswith("=")}
    try:
        inspect.signature(function).bind(*positional, **keywords)
    except (TypeError, ValueError):
        raise InputError(f"cannot be called with ({arguments})") from None


def _told(error: BaseException) -> str:
    """Its kind and the first line of what it says."""
    first = next(iter(str(error).strip().splitlines()), "")
    return f"{type(error).__name__}: {first[:300]}" if first else type(error).__name__


def _place(error: BaseException) -> str:
    """Where it was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    return f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""


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
        hint = hints.get(key, object)
        either = typing.get_origin(hint) in {typing.Union, types.UnionType}
        kinds = set(typing.get_args(hint)) if either or typing.get_origin(hint) is typing.Literal else {hint}
        if any(typing.get_origin(kind) is Callable for kind in kinds):
            raise InputError(
                f"{key}: {shown(value)} found; a function, which can be given only in Python, was expected"
            )
        if typing.get_origin(hint) is typing.Literal and not isinstance(value, tuple(map(type, kinds))):
            known = ", ".join(map(repr, typing.get_args(hint)))
            raise InputError(f"{key}: {shown(value)} found; one of {known} was expected")
        if not kinds <= _PLAIN or isinstance(value, _accepted(kinds)):
            continue
        names = " or ".join(sorted(kind.__name__ for kind in kinds if kind is not types.NoneType))
        raise InputError(f"{key}: {shown(value)} found; {names} was expected")


_GIVEN = {"costs", "path", "program"}
_PLAIN = {int, float, str, bool, types.NoneType}


def _accepted(kinds: set[type]) -> tuple[type, ...]:
    return (*kinds, int) if float in kinds else tuple(kinds)


def _usage(name: str, function: Callable[..., Any]) -> str:
    """How to write it."""
    return f"write {name}({', '.join(map(written, _written(function)))})"


def written(parameter: inspect.Parameter) -> str:
    """How to give a parameter: by its place, or by name and its default; `inner=...` where it has none."""
    if parameter.default is not parameter.empty:
        return f"{parameter.name}={parameter.default!r}"
    return f"{parameter.name}=..." if parameter.kind is parameter.KEYWORD_ONLY else parameter.name


def _written(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """What one writes in the brackets: where what comes first is given by the program, only the options."""
    parameters = list(inspect.signature(function).parameters.values())
    given = any(p.annotation is not p.empty and p.name in _GIVEN for p in parameters)
    return [p for p in parameters if p.kind is p.KEYWORD_ONLY] if given else parameters


def defaults_of(function: Callable[..., Any]) -> dict[str, Any]:
    """The defaults of the options of a function."""
    parameters = _signature(function).parameters.values()
    return {parameter.name: parameter.default for parameter in parameters if parameter.default is not parameter.empty}


def described(family: Family, noun: str, *, by_module: bool = False) -> dict[str, dict[str, Any]]:
    """Of every member what it needs, its options with their defaults, and the first line of what it says of itself.

    Or, where it is told by its module what a member is about, of what that says.
    """
    found = {}
    for name in family:
        function = function_named(name, family, noun)
        parameters = _written(function)
        found[name] = {
            "needs": [p.name for p in parameters if p.default is p.empty],
            "options": {p.name: repr(p.default) for p in parameters if p.default is not p.empty},
            "about": ((sys.modules[function.__module__] if by_module else function).__doc__ or "").partition("\n")[0],
        }
    return found


def function_named(name: str, family: Family, noun: str) -> Callable[..., Any]:
    """The function of a family's member, or of "module:function"."""
    target = family.get(name, name)
    module, colon, attribute = target.partition(":")
    if not colon:
        raise UnknownNameError(f"no {noun} is called {quoted(name)}; {suggest(name, family)}")
    with within(f"{noun} {quoted(name)}"):
        found = _imported(module)
        if not hasattr(found, attribute):
            raise UnknownNameError(
                f"module {quoted(module)} has no {quoted(attribute)}; {suggest(attribute, _functions(found))}"
            )
        function = getattr(found, attribute)
        if inspect.isbuiltin(function) or not callable(function):
            raise UnknownNameError(f"is a {type(function).__name__}; a function written in Python was expected")
        return function  # type: ignore[no-any-return]  # checked to be callable just above


def _imported(module: str) -> types.ModuleType:
    try:
        return importlib.import_module(module)
    except (ImportError, ValueError, TypeError) as error:
        raise UnknownNameError(f"cannot import {quoted(module)}: {clipped(str(error), 300)}") from None
    except (Exception, SystemExit) as error:  # anything may happen while a module is imported
        raise UnknownNameError(f"importing {quoted(module)} raised {_told(error)}{_place(error)}") from error


def _functions(module: types.ModuleType) -> list[str]:
    """The functions that a module has itself, the first few."""
    own = [name for name, value in vars(module).items() if inspect.isfunction(value) and not name.startswith("_")]
    return [name for name in own if vars(module)[name].__module__ == module.__name__][:20] or ["none"]


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
        raise InputError(f"{noun} {quoted(text)} cannot be read; write it like name(2, 8, key='25 Gb/s')")
    positional = [_literal(argument, text, noun) for argument in node.args]
    keywords = {}
    for keyword in node.keywords:
        if keyword.arg is None or keyword.arg in keywords:
            raise InputError(f"{noun} {quoted(text)}: arguments must be named once each")
        keywords[keyword.arg] = _literal(keyword.value, text, noun)
    return name.strip(), positional, keywords


def _literal(node: ast.expr, text: str, noun: str) -> Any:  # noqa: ANN401 - any literal
    for inner in ast.walk(node):
        if isinstance(inner, ast.Constant) and isinstance(inner.value, int) and inner.value.bit_length() > _BITS:
            found = clipped(_source(inner), 60)
            raise InputError(f"{noun} {quoted(text)}: {found} found; less than 2^{_BITS} was expected")
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        shown = _source(node)[:60]
        raise InputError(f"{noun} {quoted(text)}: {shown!r} is not a plain number, text, list or tuple") from None


def _source(node: ast.expr) -> str:
    """How an expression is written; Python does not say it of what is nested very deeply."""
    try:
        return ast.unparse(node)
    except RecursionError:
        return "a very long expression"
