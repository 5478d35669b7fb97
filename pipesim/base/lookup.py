"""Functions by name, as users write them.

"balanced"                       a member of a family
"megatron(interleave=2)"         a member with arguments; parsed without eval
"1F1B", "megatron(VPP=2)"        other spellings, and aliases that the member declares for itself and its options
"my_package.my_module:planner"   a function of the user's
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
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from pipesim.base import spelling
from pipesim.base.errors import InputError, PipesimError, UnknownNameError, clipped, quoted, shown, within

Family = Mapping[str, str]

DECLARED = "declared_info"  # of a member's function: what it declares, with its `aliases` and `option_aliases`
_BITS = 63  # of an integer: larger ones fit neither columns nor floating point


def resolve(text: str, family: Family, kind: str) -> Callable[..., Any]:
    """The function that `text` names, with the arguments in `text` bound."""
    name, positional, keywords = parse_member(text, family, kind)
    function = function_named(name, family, kind)
    if not positional and not keywords:
        return function
    with within(f"{kind} {quoted(text)}"):
        signature = _signature(function)
        try:
            signature.bind_partial(*positional, **keywords)
        except TypeError as error:
            raise InputError(f"{clipped(str(error), 300)}; {_usage(name, function)}") from None
        _check_types(function, keywords)
    return functools.partial(function, *positional, **keywords)


def parse_member(text: str, family: Family, kind: str) -> tuple[str, list[Any], dict[str, Any]]:
    """As `parse_call`, with the names by which the family and the function know the member and its options."""
    name, positional, keywords = parse_call(text, kind)
    function = function_named(name, family, kind)
    return member_named(name, family) or name, positional, _known_options(text, function, keywords, kind)


def _known_options(text: str, function: Callable[..., Any], keywords: dict[str, Any], kind: str) -> dict[str, Any]:
    """Options under the names of the function's parameters; unknown ones are left as they are."""
    if not keywords:
        return keywords
    with within(f"{kind} {quoted(text)}"):
        names = list(_signature(function).parameters)
        aliases = getattr(getattr(function, DECLARED, None), "option_aliases", {})
        known = spelling.spellings([*((name, name) for name in names), *aliases.items()])
        found: dict[str, Any] = {}
        for key, value in keywords.items():
            name = key if key in names else known.get(spelling.plain(key), key)
            if name in found:
                raise InputError(f"{name} is given twice, as {key} too")
            found[name] = value
    return found


def call(text: str, family: Family, kind: str) -> Any:  # noqa: ANN401 - the return type of the family
    """Call the function that `text` names with the arguments in `text` and no others."""
    function = resolve(text, family, kind)
    with within(f"{kind} {quoted(text)}"):
        signature = _signature(function)
        try:
            signature.bind()
        except TypeError as error:
            name = text.partition("(")[0].strip()
            original = function.func if isinstance(function, functools.partial) else function
            raise InputError(f"{clipped(str(error), 300)}; {_usage(name, original)}") from None
    with calling(text, kind):
        return function()


@contextmanager
def calling(text: str, kind: str) -> Iterator[None]:
    """Add the name of the function to errors raised inside; wrap what the user's own function raises."""
    with within(f"{kind} {quoted(text)}"):
        try:
            yield
        except PipesimError:
            raise
        except Exception as error:
            if ":" not in text.partition("(")[0]:
                raise
            raise InputError(f"raised {_summary(error)}{_place(error)}") from error


def check_takes(function: Callable[..., object], arguments: str) -> None:
    """Refuse a function that cannot be called with these arguments, `plan, costs, watch=`."""
    positional = [name for name in arguments.split(", ") if not name.endswith("=")]
    keywords = {name[:-1]: None for name in arguments.split(", ") if name.endswith("=")}
    try:
        inspect.signature(function).bind(*positional, **keywords)
    except (TypeError, ValueError):
        raise InputError(f"cannot be called with ({arguments})") from None


def _summary(error: BaseException) -> str:
    """Its type and the first line of its message."""
    first = next(iter(str(error).strip().splitlines()), "")
    return f"{type(error).__name__}: {first[:300]}" if first else type(error).__name__


_PACKAGE = str(Path(__file__).parents[1])


def _place(error: BaseException) -> str:
    """Where it was raised, or where the user's code called what of ours raised it."""
    frames = traceback.extract_tb(error.__traceback__)
    theirs = [frame for frame in frames if not frame.filename.startswith((_PACKAGE, "<"))]
    last = (theirs or frames)[-1:]
    return "".join(f" ({frame.filename}, line {frame.lineno})" for frame in last)


def _signature(function: Callable[..., Any]) -> inspect.Signature:
    """The signature of a function; some that are not written in Python have none."""
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        raise InputError("has no signature; a function written in Python was expected") from None


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    """The annotations of a function; none if they name types that are imported for type checkers only."""
    try:
        return typing.get_type_hints(function)
    except (NameError, TypeError, AttributeError, SyntaxError):
        return {}


def _check_types(function: Callable[..., Any], keywords: dict[str, Any]) -> None:
    """Refuse options whose type differs from their annotation, if that is a plain one."""
    hints = _hints(function)
    for key, value in keywords.items():
        hint = hints.get(key, object)
        either = typing.get_origin(hint) in {typing.Union, types.UnionType}
        kinds = set(typing.get_args(hint)) if either or typing.get_origin(hint) is typing.Literal else {hint}
        if any(typing.get_origin(kind) is Callable for kind in kinds):
            raise InputError(
                f"{key}: {shown(value)} found; a function was expected, which can be passed only from Python"
            )
        if typing.get_origin(hint) is typing.Literal and not isinstance(value, tuple(map(type, kinds))):
            known = ", ".join(map(repr, typing.get_args(hint)))
            raise InputError(f"{key}: {shown(value)} found; one of {known} was expected")
        if not kinds <= _PLAIN or isinstance(value, _accepted(kinds)):
            continue
        names = " or ".join(sorted(kind.__name__ for kind in kinds if kind is not types.NoneType))
        raise InputError(f"{key}: {shown(value)} found; {names} was expected")


_PASSED = {"costs", "path", "program"}
_PLAIN = {int, float, str, bool, types.NoneType}


def _accepted(kinds: set[type]) -> tuple[type, ...]:
    return (*kinds, int) if float in kinds else tuple(kinds)


def _usage(name: str, function: Callable[..., Any]) -> str:
    """How to write a call."""
    return f"write {name}({', '.join(map(written, _parameters_to_write(function)))})"


def written(parameter: inspect.Parameter) -> str:
    """How to write a parameter: by position, or by name and default; `inner=...` if it has no default."""
    if parameter.default is not parameter.empty:
        return f"{parameter.name}={parameter.default!r}"
    return f"{parameter.name}=..." if parameter.kind is parameter.KEYWORD_ONLY else parameter.name


def _parameters_to_write(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """The parameters that a user writes: only the options if the program passes the first arguments."""
    parameters = list(inspect.signature(function).parameters.values())
    given = any(p.annotation is not p.empty and p.name in _PASSED for p in parameters)
    return [p for p in parameters if p.kind is p.KEYWORD_ONLY] if given else parameters


def defaults_of(function: Callable[..., Any]) -> dict[str, Any]:
    """The defaults of the options of a function."""
    parameters = _signature(function).parameters.values()
    return {parameter.name: parameter.default for parameter in parameters if parameter.default is not parameter.empty}


def described(family: Family, kind: str, *, by_module: bool = False) -> dict[str, dict[str, Any]]:
    """Required arguments, options with defaults, aliases, and first docstring line of each member of a family.

    With `by_module`, the docstring is that of its module.
    """
    found = {}
    for name in family:
        function = function_named(name, family, kind)
        parameters = _parameters_to_write(function)
        found[name] = {
            "needs": [p.name for p in parameters if p.default is p.empty],
            "options": {p.name: repr(p.default) for p in parameters if p.default is not p.empty},
            "aliases": list(getattr(getattr(function, DECLARED, None), "aliases", ())),
            "about": ((sys.modules[function.__module__] if by_module else function).__doc__ or "").partition("\n")[0],
        }
    return found


def function_named(name: str, family: Family, kind: str) -> Callable[..., Any]:
    """The function of a family's member, or of "module:function"."""
    member = member_named(name, family)
    target = name if member is None else family[member]
    module, colon, attribute = target.partition(":")
    if not colon:
        raise UnknownNameError(f"unknown {kind} {quoted(name)}; {_suggested_member(name, family)}")
    with within(f"{kind} {quoted(name)}"):
        found = _imported(module)
        if not hasattr(found, attribute):
            raise UnknownNameError(
                f"module {quoted(module)} has no {quoted(attribute)}; {suggest(attribute, _functions(found))}"
            )
        function = getattr(found, attribute)
        if inspect.isbuiltin(function) or not callable(function):
            raise UnknownNameError(f"is a {type(function).__name__}; a function written in Python was expected")
        return function  # type: ignore[no-any-return]  # checked to be callable just above


def member_named(name: str, family: Family) -> str | None:
    """The member that a name means: its name, another spelling of it, or an alias that it declares."""
    if name in family or ":" in name:
        return name if name in family else None
    word, names = spelling.plain(name), _first_names(family)
    return spelling.spellings(names).get(word) or _with_aliases(family, names).get(word)


def _first_names(family: Family) -> list[tuple[str, str]]:
    """Pairs of a name and the member; of names for the same function, that is the first."""
    first: dict[str, str] = {}
    return [(name, first.setdefault(target, name)) for name, target in family.items()]


def _with_aliases(family: Family, names: list[tuple[str, str]]) -> dict[str, str]:
    """The members by all spellings; this imports all of them, but for those that need an extra that is missing."""
    for member in dict.fromkeys(member for _, member in names):
        with suppress(UnknownNameError):
            declared = getattr(function_named(member, family, ""), DECLARED, None)
            names = [*names, *((alias, member) for alias in getattr(declared, "aliases", ()))]
    return spelling.spellings(names)


def _suggested_member(name: str, family: Family) -> str:
    """A sentence with the member that was probably meant, and all members.

    In a family whose members have aliases, names of the field that are close to each other mean other things: there it
    is only what was mistyped.
    """
    names = _first_names(family)
    known = _with_aliases(family, names)
    if len(known) == len(spelling.spellings(names)):
        return suggest(name, family)
    meant = spelling.mistyped(name, known)
    return f"{'' if meant is None else f'did you mean {meant!r}? '}known are {', '.join(family)}"


def _imported(module: str) -> types.ModuleType:
    try:
        return importlib.import_module(module)
    except (ImportError, ValueError, TypeError) as error:
        raise UnknownNameError(f"cannot import {quoted(module)}: {clipped(str(error), 300)}") from None
    except (Exception, SystemExit) as error:  # importing a module runs its code
        raise UnknownNameError(f"importing {quoted(module)} raised {_summary(error)}{_place(error)}") from error


def _functions(module: types.ModuleType) -> list[str]:
    """The first few functions that a module defines."""
    own = [name for name, value in vars(module).items() if inspect.isfunction(value) and not name.startswith("_")]
    return [name for name in own if vars(module)[name].__module__ == module.__name__][:20] or ["none"]


def suggest(name: str, known: Mapping[str, Any] | list[str]) -> str:
    """A sentence with the name that was probably meant and all known names."""
    return f"{meant(name, known)}known are {', '.join(known)}"


def meant(name: str, known: Iterable[str]) -> str:
    """A question with the name that was probably meant, and a space; nothing if no name is close."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"did you mean {close[0]!r}? " if close else ""


def parse_call(text: str, kind: str) -> tuple[str, list[Any], dict[str, Any]]:
    """`name(1, "a", key=2.5)` as name, positional and keyword arguments; only literals are allowed."""
    name, parenthesis, rest = text.partition("(")
    if not parenthesis:
        return text.strip(), [], {}
    try:  # names such as "bert-large" and "package.module:function" are not Python; what follows is
        node = ast.parse(f"f({rest.strip()}", mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        node = None
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
        raise InputError(f"{kind} {quoted(text)} cannot be read; write it like name(2, 8, key='25 Gb/s')")
    positional = [_literal(argument, text, kind) for argument in node.args]
    keywords = {}
    for keyword in node.keywords:
        if keyword.arg is None or keyword.arg in keywords:
            raise InputError(f"{kind} {quoted(text)}: arguments must be named once each")
        keywords[keyword.arg] = _literal(keyword.value, text, kind)
    return name.strip(), positional, keywords


def _literal(node: ast.expr, text: str, kind: str) -> Any:  # noqa: ANN401 - any literal
    if isinstance(node, ast.Constant) and isinstance(node.value, str | float):
        return node.value
    for inner in ast.walk(node):
        if isinstance(inner, ast.Constant) and isinstance(inner.value, int) and inner.value.bit_length() > _BITS:
            found = clipped(_source(inner), 60)
            raise InputError(f"{kind} {quoted(text)}: {found} found; less than 2^{_BITS} was expected")
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        shown = _source(node)[:60]
        raise InputError(f"{kind} {quoted(text)}: {shown!r} is not a plain number, text, list or tuple") from None


def _source(node: ast.expr) -> str:
    """The source of an expression; Python cannot unparse very deeply nested ones."""
    try:
        return ast.unparse(node)
    except RecursionError:
        return "a very long expression"
