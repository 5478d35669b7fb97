"""What the package's source holds, read without importing it: functions, classes, registries and test files."""

import ast
import functools
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from helpers.places import ROOT, TESTS

PACKAGE = ROOT / "pipesim"
# What the command line must not import for --help: each costs 50 to 300 ms.
HEAVY = {"numpy", "pandas", "matplotlib", "networkx", "numba", "pyarrow", "simpy", "torch", "distributed", "sqlite3"}
_MEMBER = re.compile(r"pipesim\.(\w+)\.[\w.]+:\w+")


class Function(NamedTuple):
    name: str  # package.module:function
    lines: int  # without its docstring
    parameters: int  # without self


def files() -> list[Path]:
    """All modules in packages; the public API and `__main__` at the top are not."""
    return [path for path in sorted(PACKAGE.rglob("*.py")) if path.parent != PACKAGE]


def name_of(path: Path) -> str:
    """A module's name without `pipesim.`, that of a package without `__init__`."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


class Definitions(NamedTuple):
    functions: list[Function]  # and methods, inner ones too
    classes: dict[str, list[str]]  # name -> the modules that have one of this name


@functools.cache
def definitions() -> Definitions:
    """All functions and classes of the package; each file is parsed once for all tests."""
    found = Definitions([], {})
    for path in files():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                found.functions.append(Function(f"{name_of(path)}:{node.name}", _lines(node), _parameters(node.args)))
            elif isinstance(node, ast.ClassDef):
                found.classes.setdefault(node.name, []).append(name_of(path))
    return found


def _lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    first = node.body[0]
    lines = node.end_lineno - node.lineno + 1
    if ast.get_docstring(node) is not None:
        lines -= first.end_lineno - first.lineno + 1
    return lines


def _parameters(arguments: ast.arguments) -> int:
    names = [one.arg for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    more = [one for one in (arguments.vararg, arguments.kwarg) if one is not None]
    return len([name for name in names if name not in {"self", "cls"}]) + len(more)


def complex_functions(most: int) -> list[str]:
    """Functions whose cyclomatic complexity is higher, as ruff counts it, those with a `noqa` too."""
    ruff = [sys.executable, "-m", "ruff", "check", "--isolated", "--select", "C901", "--ignore-noqa", "--no-cache"]
    ruff += ["--config", f"lint.mccabe.max-complexity={most}", "--output-format", "concise", str(PACKAGE)]
    found = subprocess.run(ruff, capture_output=True, text=True, check=False, cwd=ROOT).stdout
    return [
        f"{name_of(ROOT / path)}:{name}"
        for path, name in re.findall(r"^(.*?\.py):\d+:\d+: C901 `(\w+)`", found, re.MULTILINE)
    ]


def stems() -> dict[str, list[str]]:
    """Name of a file -> the modules of this name; `__init__` is a name that all packages share."""
    found: dict[str, list[str]] = {}
    for path in files():
        if path.stem != "__init__":
            found.setdefault(path.stem, []).append(name_of(path))
    return found


def members() -> dict[str, set[str]]:
    """Family -> its registered members as package.module:function, from dicts of such texts."""
    found: dict[str, set[str]] = {}
    for path in files():
        for family, member in (
            (match.group(1), match.group().removeprefix("pipesim."))
            for match in _MEMBER.finditer(path.read_text(encoding="utf-8"))
        ):
            if path.parent == PACKAGE / family:
                found.setdefault(family, set()).add(member)
    return found


def untested() -> list[str]:
    """Modules without a test file of their own, or of a subpackage that they are in.

    The members of families have the contract tests of the family, and `__init__` those of its package.
    """
    registered = {member.partition(":")[0] for family in members().values() for member in family}
    return [
        name
        for name in map(name_of, (path for path in files() if path.name != "__init__.py"))
        if name not in registered and not any(place.exists() for place in _places(name))
    ]


def _places(name: str) -> Iterator[Path]:
    """Where the tests of a module may be: its own file, or one of a subpackage; in folders or not."""
    package, *inner = name.split(".")
    for end in range(1, len(inner) + 1):
        for folders in range(end):
            yield TESTS.joinpath(package, *inner[:folders], f"test_{inner[end - 1].strip('_')}.py")
