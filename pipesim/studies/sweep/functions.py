"""Functions of the user's own that an experiment names, `module:function`: what they may be, and where they come from.

An experiment that names one is a program: to run it is to import the module. To look at it, or at its results, is not:
then the module's file is found, and read for its digest, without importing it or the packages that it is in.
"""

import hashlib
import importlib.machinery
import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

from pipesim.base import lookup
from pipesim.base.errors import InputError, UnknownNameError, shown, within

Call = tuple[str, list[Any], dict[str, Any]]  # as `lookup.parse_call` returns it


@dataclass(slots=True)
class Functions:
    """Checks what is named. Without `imports` no module is run, and what was named so is `unchecked`."""

    imports: bool = True
    allowed: Sequence[str] | None = None  # modules and packages; None: all
    unchecked: list[str] = field(default_factory=list)
    _shapes: set[tuple[object, ...]] = field(default_factory=set)

    def check(self, text: str, family: Mapping[str, str], noun: str, call: Call | None = None) -> None:
        """Refuse a name that no function has, options that it does not take, and modules that are not allowed.

        `call` is what `text` was parsed to, if it was.
        """
        name = text.partition("(")[0].strip()
        if not is_own(name):
            self._check_known(text, family, noun, call)
            return
        self._check_allowed(name, noun)
        if self.imports:
            lookup.resolve(text, family, noun)
            return
        lookup.parse_call(text, noun)
        with within(f"{noun} {name!r}"):
            if _found(name.partition(":")[0]) is None:
                raise UnknownNameError(f"no module is called {name.partition(':')[0]!r}")
        if f"{noun} {name}" not in self.unchecked:
            self.unchecked.append(f"{noun} {name}")

    def _check_known(self, text: str, family: Mapping[str, str], noun: str, call: Call | None) -> None:
        """A function that comes with pipesim: checked once for options of the same names and types."""
        name, positional, keywords = call or lookup.parse_call(text, noun)
        shape = (noun, name, len(positional), *((key, type(value)) for key, value in keywords.items()))
        if shape not in self._shapes:
            lookup.resolve(text, family, noun)
            self._shapes.add(shape)

    def _check_allowed(self, name: str, noun: str) -> None:
        module = name.partition(":")[0]
        if self.allowed is None or any(module == one or module.startswith(f"{one}.") for one in self.allowed):
            return
        listed = ", ".join(self.allowed) or "none"
        raise InputError(
            f"{noun} {name!r}: module {module!r} is not allowed; allowed are {listed} "
            "(--allow-modules, or PIPESIM_ALLOW_MODULES)"
        )


def is_own(name: str) -> bool:
    """Whether a name is that of a user's function, and not of one that comes with pipesim."""
    return ":" in name.partition("(")[0]


def check_form(name: str) -> None:
    """Refuse what cannot be the name of a function in a module."""
    module, _, function = name.partition(":")
    if not function.isidentifier() or not all(part.isidentifier() for part in module.split(".")):
        raise UnknownNameError(f"{shown(name)} found; a name such as 'my_package.my_module:function' was expected")


def source_digest(function: str) -> str:
    """A digest of the file in which a function is; what that file imports does not count."""
    spec = _found(function.partition(":")[0])
    try:
        source = Path(spec.origin).read_bytes() if spec and spec.origin else b""
    except (OSError, ValueError):
        source = b""
    return "sha256:" + hashlib.sha256(source).hexdigest()


def _found(module: str) -> ModuleSpec | None:
    """Where a module is. Nothing is imported, packages neither: their folders are searched one after the other."""
    name, *parts = module.split(".")
    try:
        spec = importlib.util.find_spec(name)  # a name without a dot: its finders look for it, and do not run it
        for part in parts:
            folders = spec.submodule_search_locations if spec else None
            spec = importlib.machinery.PathFinder.find_spec(part, list(folders)) if folders else None
    except (ImportError, ValueError, OSError):
        return None
    return spec
