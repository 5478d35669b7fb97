"""What can go wrong, as one tree that the command line turns into one paragraph and an exit code, 2 for most.

    PipesimError
    ├── InputError               a value, an option or a file is wrong
    │   ├── FormatError          a file cannot be read as what it claims to be
    │   ├── UnknownNameError     a name that no member of a family has
    │   ├── DoesNotFitError      a plan, or all of them, needs more memory than devices have; exit code 3
    │   ├── PlanError            stages that do not make a plan
    │   └── ScheduleError        actions that do not make a schedule
    │       └── DeadlockError    an order in which everyone waits for someone else
    ├── RefusedError             a correct request that this engine, planner or exporter cannot answer
    ├── MissingExtraError        an optional dependency is not installed
    └── CorruptTimelineError     a timeline that breaks the rules of the simulation

Every message says what was found, what was expected and what to do; `within` adds the place, outermost first:
`traces/bert/layers.csv: line 7: forward_s: -1.0 is negative`.
"""

import reprlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

_LONGEST_PLACE = 500  # characters; longer than any file's name and shorter than a screen


class PipesimError(Exception):
    """An error with a message for the user and the place it is about."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message
        self.places: list[str] = []

    def __str__(self) -> str:
        return ": ".join([*self.places, self.message])

    def within(self, place: str) -> Self:
        """Put one more place in front: a file, a line, a field."""
        self.places.insert(0, clipped(place, _LONGEST_PLACE))
        return self


class InputError(PipesimError):
    """A value, an option or a file is wrong."""


class FormatError(InputError):
    """A file cannot be read as what it claims to be."""


class UnknownNameError(InputError):
    """A name that no member of a family has."""


class DoesNotFitError(InputError):
    """A plan, or every plan there is, needs more memory than devices have."""


class PlanError(InputError):
    """Stages that do not make a plan."""


class ScheduleError(InputError):
    """Actions that do not make a schedule."""


class DeadlockError(ScheduleError):
    """An order in which everyone waits for someone else."""


class RefusedError(PipesimError):
    """A correct request that this engine, planner or exporter cannot answer."""


class MissingExtraError(PipesimError):
    """An optional dependency is not installed."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} needs the extra '{extra}': pip install 'pipesim[{extra}]'")


class CorruptTimelineError(PipesimError):
    """A timeline that breaks the rules of the simulation."""


def shown(value: object) -> str:
    """What was found, in a few words: a list may be too deep to write out, a number or a text too long."""
    text = _SHORT.repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def clipped(text: str, most: int) -> str:
    """Text of at most so many characters: of a longer one the beginning and the end."""
    half = (most - 5) // 2
    return text if len(text) <= most else f"{text[:half]} ... {text[-half:]}"


def quoted(text: str) -> str:
    """What was typed, in quotes; of what is longer than anybody reads, the beginning and the end."""
    return repr(clipped(text, _LONGEST_PLACE))


class _Short(reprlib.Repr):
    """As `Repr`, with what Python refuses to write out, alone or inside of lists, told in words."""

    def repr_int(self, x: int, level: int) -> str:
        return f"a whole number of {x.bit_length()} bits" if x.bit_length() > 256 else super().repr_int(x, level)


_SHORT = _Short()
_SHORT.maxstring = _SHORT.maxother = 60
_SHORT.maxlevel = 3


@contextmanager
def within(place: str) -> Iterator[None]:
    """Say of every error raised inside that it happened at this place."""
    try:
        yield
    except PipesimError as error:
        error.within(place)
        raise
