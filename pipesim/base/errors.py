"""All errors, as one tree; the command line prints one paragraph and exits with a code, 2 for most of them.

    PipesimError
    ├── InputError               a value, an option or a file is wrong
    │   ├── FormatError          a file does not have the format it should have
    │   ├── UnknownNameError     a name that is not registered
    │   ├── DoesNotFitError      a plan, or every plan, needs more memory than devices have; exit code 3
    │   ├── PlanError            stages that are not a valid plan
    │   └── ScheduleError        actions that are not a valid schedule
    │       └── DeadlockError    an order in which all ranks wait for each other
    ├── RefusedError             a valid request that this engine, planner or exporter does not support
    ├── MissingExtraError        an optional dependency is not installed
    └── CorruptTimelineError     a timeline that violates the rules of the simulation

Every message states what was found, what was expected and what to do; `within` adds the place, outermost first:
`traces/bert/layers.csv: line 7: forward_s: -1.0 is negative`.
"""

import reprlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

_LONGEST_PLACE = 500  # characters: longer than file names, shorter than a screen


class PipesimError(Exception):
    """An error with a message for the user and the place where it happened."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message
        self.places: list[str] = []

    def __str__(self) -> str:
        return ": ".join([*self.places, self.message])

    def within(self, place: str) -> Self:
        """Prepend a place: a file, a line, a field."""
        self.places.insert(0, clipped(place, _LONGEST_PLACE))
        return self


class InputError(PipesimError):
    """A value, an option or a file is wrong."""


class FormatError(InputError):
    """A file does not have the format it should have."""


class UnknownNameError(InputError):
    """A name that is not registered."""


class DoesNotFitError(InputError):
    """A plan, or every plan, needs more memory than devices have."""


class PlanError(InputError):
    """Stages that are not a valid plan."""


class ScheduleError(InputError):
    """Actions that are not a valid schedule."""


class DeadlockError(ScheduleError):
    """An order in which all ranks wait for each other."""


class RefusedError(PipesimError):
    """A valid request that this engine, planner or exporter does not support."""


class MissingExtraError(PipesimError):
    """An optional dependency is not installed."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} needs the extra '{extra}': pip install 'pipesim[{extra}]'")


class CorruptTimelineError(PipesimError):
    """A timeline that violates the rules of the simulation."""


def is_interrupt(error: BaseException) -> bool:
    """Whether it is an interrupt, or was raised in place of one: as by Python or compiled code that was under way."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, KeyboardInterrupt):
        cause = cause.__cause__ or cause.__context__
    return cause is not None


def shown(value: object) -> str:
    """A short representation of a value for messages, also of very long or deeply nested ones."""
    text = _SHORT.repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def clipped(text: str, most: int) -> str:
    """Text of at most so many characters: the beginning and the end of longer text."""
    half = (most - 5) // 2
    return text if len(text) <= most else f"{text[:half]} ... {text[-half:]}"


def quoted(text: str) -> str:
    """User input in quotes; only the beginning and the end where it is very long."""
    return repr(clipped(text, _LONGEST_PLACE))


class _Short(reprlib.Repr):
    """As `Repr`, but describes integers that Python refuses to convert to text."""

    def repr_int(self, x: int, level: int) -> str:
        return f"a whole number of {x.bit_length()} bits" if x.bit_length() > 256 else super().repr_int(x, level)


_SHORT = _Short()
_SHORT.maxstring = _SHORT.maxother = 60
_SHORT.maxlevel = 3


@contextmanager
def within(place: str) -> Iterator[None]:
    """Add this place to every error raised inside."""
    try:
        yield
    except PipesimError as error:
        error.within(place)
        raise
