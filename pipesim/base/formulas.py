"""Formulas that users write in files: parsed, checked, and evaluated over named values without Python's eval.

    gpus % 8 == 0 and planner != "brute"        numbers, text, names; + - * / // % **; comparisons; and, or, not, in
    max(1, gpus // 8)                           abs, min, max, round; x if condition else y

A template is text with formulas in braces: `servers({gpus // 8}, 8, inter="{rate} Gb/s")`; `{{` is a brace.
"""

import ast
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pipesim.base import lookup
from pipesim.base.errors import InputError, shown, within

Value = Any  # a number, text, or true or false
Values = Mapping[str, Value]

_LONGEST = 1000  # characters
_WIDEST = 1024  # bits of an integer

_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
_UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Not: operator.not_,
}
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda item, items: item in items,
    ast.NotIn: lambda item, items: item not in items,
}
_FUNCTIONS: dict[str, Callable[..., Any]] = {"abs": abs, "min": min, "max": max, "round": round}


@dataclass(frozen=True, slots=True)
class Formula:
    """A formula, and the names in it."""

    text: str
    names: frozenset[str]
    tree: ast.expr = field(repr=False, compare=False)

    def value(self, values: Values) -> Value:
        """Its value, given the values of names."""
        try:
            return _value(self.tree, values)
        except KeyError as error:
            known = lookup.suggest(str(error.args[0]), list(values))
            raise InputError(f"{self.text!r}: unknown name {error.args[0]!r}; {known}") from None
        except (TypeError, ArithmeticError, ValueError, RecursionError) as error:
            used = ", ".join(f"{name} = {shown(values[name])}" for name in sorted(self.names) if name in values)
            where = f" where {used}" if used else ""
            raise InputError(f"{self.text!r} cannot be evaluated{where}: {error}") from None


def parse(text: str) -> Formula:
    """The formula in a text; an InputError names the part that is not allowed."""
    if not isinstance(text, str) or not text.strip() or len(text) > _LONGEST:
        raise InputError(f"{shown(text)} found; a formula such as 'gpus >= 8' was expected")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
        names = frozenset(_check(tree))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise InputError(f"{shown(text)} cannot be read; a formula such as 'gpus >= 8' was expected") from None
    return Formula(text, names, tree)


def _check(node: ast.AST) -> list[str]:
    """The names in a formula; all other syntax is refused."""
    match node:
        case ast.Name():
            return [node.id]
        case ast.Constant(value=bool() | int() | float() | str()):
            return []
        case ast.Call(func=ast.Name(id=name)) if name in _FUNCTIONS and not node.keywords:
            return [found for argument in node.args for found in _check(argument)]
        case ast.BinOp() if type(node.op) not in _BINARY:
            raise InputError(f"{ast.unparse(node)[:60]!r} found; the operators are + - * / // % **")
        case ast.UnaryOp() if type(node.op) not in _UNARY:
            raise InputError(f"{ast.unparse(node)[:60]!r} found; the unary operators are - + not")
        case ast.Compare() if any(type(op) not in _COMPARE for op in node.ops):
            raise InputError(f"{ast.unparse(node)[:60]!r} found; the comparisons are == != < <= > >= in")
        case ast.BinOp() | ast.UnaryOp() | ast.BoolOp() | ast.Compare() | ast.IfExp() | ast.Tuple() | ast.List():
            parts = [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]
            return [found for part in parts for found in _check(part)]
    raise InputError(
        f"{ast.unparse(node)[:60]!r} found; numbers, text, names, arithmetic, comparisons and "
        f"{', '.join(_FUNCTIONS)} were expected"
    )


def _value(node: ast.expr, values: Values) -> Value:  # noqa: PLR0911 - one return per sort of node
    match node:
        case ast.Name():
            return values[node.id]
        case ast.Constant():
            return node.value
        case ast.BinOp():
            return _arithmetic(node.op, _value(node.left, values), _value(node.right, values))
        case ast.UnaryOp():
            return _UNARY[type(node.op)](_value(node.operand, values))
        case ast.BoolOp():
            return _either(node, values)
        case ast.Compare():
            return _comparison(node, values)
        case ast.IfExp():
            return _value(node.body if _value(node.test, values) else node.orelse, values)
        case ast.Call(func=ast.Name(id=name)):
            return _FUNCTIONS[name](*(_value(argument, values) for argument in node.args))
    return tuple(_value(item, values) for item in getattr(node, "elts", ()))


def _either(node: ast.BoolOp, values: Values) -> Value:
    """The first operand that decides, as in Python; later ones are not evaluated."""
    stops = isinstance(node.op, ast.Or)
    *parts, last = node.values
    for part in parts:
        found = _value(part, values)
        if bool(found) == stops:
            return found
    return _value(last, values)


def _arithmetic(op: ast.operator, left: Value, right: Value) -> Value:
    """Arithmetic on numbers only, with a limit on the size of the result."""
    for side in (left, right):
        if not isinstance(side, int | float):
            raise TypeError(f"{shown(side)} found; a number was expected")
    whole = isinstance(left, int) and isinstance(right, int)
    if isinstance(op, ast.Pow) and whole and left.bit_length() * right > _WIDEST:
        raise OverflowError(f"{left} ** {right} is too large")
    found = _BINARY[type(op)](left, right)
    if isinstance(found, complex) or (isinstance(found, int) and found.bit_length() > _WIDEST):
        raise OverflowError("the result is too large or not real")
    return found


def _comparison(node: ast.Compare, values: Values) -> bool:
    left = _value(node.left, values)
    for op, other in zip(node.ops, node.comparators, strict=True):
        right = _value(other, values)
        if not _COMPARE[type(op)](left, right):
            return False
        left = right
    return True


# --- templates -------------------------------------------------------------------------------------------------------

_PIECE = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]|[^{}]+")


@dataclass(frozen=True, slots=True)
class Template:
    """Text with formulas in it."""

    pieces: tuple[str | Formula, ...]

    @property
    def names(self) -> frozenset[str]:
        """The names in its formulas."""
        return frozenset().union(*(piece.names for piece in self.pieces if isinstance(piece, Formula)))

    def value(self, values: Values) -> Value:
        """The text with every formula evaluated; the value of a template that is one formula keeps its type."""
        found = [piece if isinstance(piece, str) else piece.value(values) for piece in self.pieces]
        if len(found) == 1 and isinstance(self.pieces[0], Formula):
            return found[0]
        return "".join(map(str, found))


def template(text: str) -> Template:
    """The template in a text."""
    pieces: list[str | Formula] = []
    for match in _PIECE.finditer(text):
        piece, formula = match.group(), match.group(1)
        if piece in {"{", "}"}:
            raise InputError(f"{shown(text)}: unbalanced {piece!r}; write '{{name}}', or {piece * 2!r} for a brace")
        if formula is not None:
            with within(shown(text)):
                pieces.append(parse(formula))
        else:
            pieces.append(piece[:1] if piece in {"{{", "}}"} else piece)
    return Template(tuple(pieces))
