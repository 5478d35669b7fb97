"""Lengths of sequences in tokens: drawn from a distribution, or from a file of recorded ones.

    lognormal(median, sigma)     uniform(least, most)     exponential(mean)     lengths.csv: one length per line

Lengths are whole numbers from 1 to the longest that is given; longer ones are cut to that.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pipesim.base import files, lookup, units
from pipesim.base.arrays import Floats, Ints
from pipesim.base.errors import InputError, shown, within

_LONGEST = 2**40
Sampler = Callable[[np.random.Generator, int], Floats]


def lognormal(median: float, sigma: float) -> Sampler:
    """Lengths whose logarithm is normal: documents of text, say."""
    _check("median", median)
    if not 0 <= sigma <= 10:
        raise InputError(f"sigma = {shown(sigma)} found; 0 to 10 was expected")
    return lambda rng, count: np.asarray(rng.lognormal(np.log(median), sigma, count))


def uniform(least: float, most: float) -> Sampler:
    """Lengths that are all equally probable."""
    _check("least", least)
    _check("most", most)
    if least > most:
        raise InputError(f"least = {least} found; at most {most}, the most, was expected")
    return lambda rng, count: np.asarray(rng.uniform(least, most, count))


def exponential(mean: float) -> Sampler:
    """Lengths of which most are short."""
    _check("mean", mean)
    return lambda rng, count: np.asarray(rng.exponential(mean, count))


DISTRIBUTIONS: dict[str, str] = {
    name: f"pipesim.core.sequence_lengths:{name}" for name in ("lognormal", "uniform", "exponential")
}


def _check(name: str, value: float) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 1 <= value <= _LONGEST:
        raise InputError(f"{name} = {shown(value)} found; 1 to {_LONGEST} tokens were expected")


@dataclass(frozen=True, slots=True)
class SequenceLengths:
    """Where lengths are drawn from: the text of a distribution, or recorded lengths."""

    name: str
    recorded: tuple[int, ...] = ()

    @classmethod
    def of(cls, text: str) -> "SequenceLengths":
        """A distribution, or the lengths in a file."""
        if "(" not in text:
            return cls.load(text)
        found = cls(text)
        found._sampler()  # refused now, not later
        return found

    @classmethod
    def load(cls, path: Path | str) -> "SequenceLengths":
        """A file with one length per line; a line of text before them is their heading."""
        lines = [line.strip() for line in files.read_text(Path(path)).splitlines()]
        found = []
        with within(str(path)):
            for number, line in enumerate(lines, 1):
                if not line or (number == 1 and not line[0].isdecimal()):
                    continue
                try:
                    length = units.whole(line)
                except ValueError:
                    raise InputError(f"line {number}: {shown(line)} found; a number of tokens was expected") from None
                if not 1 <= length <= _LONGEST:
                    raise InputError(f"line {number}: {length} found; 1 to {_LONGEST} tokens were expected")
                found.append(length)
            if not found:
                raise InputError("has no lengths; one per line was expected")
        return cls(Path(path).name, tuple(found))

    def draw(self, rng: np.random.Generator, count: int, longest: int) -> Ints:
        """So many lengths."""
        if self.recorded:
            values = np.array(self.recorded)[rng.integers(len(self.recorded), size=count)]
        else:
            values = np.rint(self._sampler()(rng, count))
        found: Ints = np.clip(values, 1, longest).astype(np.int64)
        return found

    def _sampler(self) -> Sampler:
        found: Sampler = lookup.call(self.name, DISTRIBUTIONS, "distribution")
        if not callable(found):
            raise InputError(
                f"distribution {self.name!r}: {type(found).__name__} found; a function (rng, count) was expected"
            )
        return found


def packed(lengths: Ints, longest: int, samples: int) -> list[Ints]:
    """Sequences put one after the other into this many samples of `longest` tokens; what does not fit is cut there.

    `lengths` are used in their order, and again from the first where they are too few.
    """
    found, at = list[Ints](), 0
    for _ in range(samples):
        left, parts = longest, []
        while left:
            part = min(int(lengths[at % len(lengths)]), left)
            parts.append(part)
            left -= part
            at += 1
        found.append(np.array(parts, np.int64))
    return found
