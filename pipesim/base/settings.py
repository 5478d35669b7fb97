"""Settings: fields of a dataclass that users set, declared once for the command line, Python and files.

    microbatches: int = setting(8, int, "Microbatches in one iteration.", short="m")

From such a field come an option of commands (`--microbatches`, `-m`, its type, default and help), a keyword in Python,
a key in files, and a line of the documentation. This module knows no command line and no file format.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from pipesim.base.errors import InputError
from pipesim.base.lookup import suggest

_KEY = "setting"


@dataclass(frozen=True, slots=True)
class Setting:
    """What all interfaces need to know of a field beside its name and its default."""

    kind: type  # of its plain form: text, a number, a truth value
    help: str
    short: str = ""  # the letter of a short option
    flag: str = ""  # the option where it is not called as the field
    flags: tuple[str, ...] = ()  # other spellings of the option
    metavar: str | None = None
    choices: tuple[str, ...] = ()
    family: str = ""  # what its names are members of: completed in the shell
    is_file: bool = False
    multiple: bool = False  # may be given several times; the field is a tuple
    required: bool = False
    parse: Callable[[Any], Any] | None = None  # makes the value of text and numbers that people write
    group: str = ""  # the heading under which --help has it
    in_key: bool = True  # whether it determines a result; what does not is no part of a key of stored results


def setting(default: Any, kind: type, help_text: str, **about: Any) -> Any:  # noqa: ANN401 - a field of any type
    """A dataclass field that users set."""
    return dataclasses.field(default=default, metadata={_KEY: Setting(kind, help_text, **about)})


def settings_of(record: type) -> Mapping[str, Setting]:
    """The settings of a dataclass, by name, in the order of its fields."""
    return _settings(record)


@functools.cache  # of few dataclasses, asked for at each value of a long axis
def _settings(record: type) -> Mapping[str, Setting]:
    found = {field.name: field.metadata[_KEY] for field in dataclasses.fields(record) if _KEY in field.metadata}
    return MappingProxyType(found)


def defaults_of(record: type) -> dict[str, Any]:
    """The defaults of the settings of a dataclass."""
    return {field.name: field.default for field in dataclasses.fields(record) if _KEY in field.metadata}


def check_names(names: Iterable[str], known: Mapping[str, object] | list[str], what: str) -> None:
    """Refuse names that no setting has, and suggest what was probably meant."""
    for name in names:
        if name not in known:
            raise InputError(f"{what} {name!r} is unknown; {suggest(name, list(known))}")


def default_is_none(record: object, name: str) -> bool:
    """Whether a setting need not be given."""
    return defaults_of(type(record))[name] is None


def check_choices(record: object) -> None:
    """Refuse values that are none of the choices of their setting."""
    for name, about in settings_of(type(record)).items():
        value = getattr(record, name)
        if about.choices and value not in about.choices and not (value is None and default_is_none(record, name)):
            raise InputError(f"{name} {value!r} found; one of {', '.join(about.choices)} was expected")


def described(record: type) -> str:
    """All settings of a dataclass with default and help, a line each, for docstrings and reference pages."""
    defaults = defaults_of(record)
    width = max(map(len, defaults), default=0)
    lines = []
    for name, about in settings_of(record).items():
        default = "" if defaults[name] is None else f" Default: {defaults[name]!r}."
        choices = f" One of {', '.join(about.choices)}." if about.choices else ""
        lines.append(f"{name.ljust(width)}  {about.help}{choices}{default}")
    return "\n".join(lines)
