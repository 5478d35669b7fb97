"""The text of stages: Megatron-LM's `--pipeline-model-parallel-layout`.

    Et*3|(tt|)*29,m|L     E embedding, t block, m multi-token prediction, L loss; a bar between stages; a comma means
                          nothing; x*n is a letter, or a bar, n times, (...)*n what is in parentheses n times

Parentheses do not nest. A stage may be empty: `Et||tL` has a position that only passes on what it receives.
"""

import re

from pipesim.base.errors import InputError, quoted
from pipesim.frameworks.training_layout import BLOCK, EMBEDDING, LOSS, MOST_LAYERS, PREDICTION, chunks

_GROUP = re.compile(r"\(([^()]+)\)\*([0-9]{1,6})(?![0-9])")
_TIMES = re.compile(r"([^*()0-9])\*([0-9]{1,6})(?![0-9])")
_LETTERS = {EMBEDDING, BLOCK, PREDICTION, LOSS, "|"}


def stages_of(text: str) -> tuple[str, ...]:
    """The letters of each stage.

    >>> stages_of("Et*3|(tt|)*2m|L")
    ('Ettt', 'tt', 'tt', 'm', 'L')
    """
    plain = _repeated(_GROUP, text.replace(",", ""), text)
    plain = _repeated(_TIMES, plain, text)
    wrong = next((letter for letter in plain if letter not in _LETTERS), None)
    if wrong is not None:
        raise InputError(
            f"layout {quoted(text)}: {wrong!r} found; E, t, m and L were expected, | between stages, x*n and (...)*n "
            "for repetition"
        )
    return tuple(plain.split("|"))


def _repeated(pattern: re.Pattern[str], text: str, whole: str) -> str:
    """Every repetition written out; refused before it is made if it would be too long."""
    length = len(text) + sum(len(match[1]) * int(match[2]) for match in pattern.finditer(text))
    if length > 2 * MOST_LAYERS:
        raise InputError(f"layout {quoted(whole)}: {length} letters found; {2 * MOST_LAYERS} at most were expected")
    return pattern.sub(lambda match: match[1] * int(match[2]), text)


def text_of(stages: tuple[str, ...]) -> str:
    """The shortest of these forms that reads back as the same stages.

    >>> text_of(("Ettt", "tt", "tt", "tt", "m", "L"))
    'Ettt|(tt|)*3m|L'
    """
    parts: list[str] = []
    *inner, last = stages
    for stage, count in chunks(inner):
        one = f"{_letters(stage)}|"
        group = f"({one})*{count}" if stage else f"|*{count}"
        parts.append(group if count > 1 and len(group) < len(one) * count else one * count)
    return "".join(parts) + _letters(last)


def _letters(stage: str) -> str:
    runs = []
    for letter, count in chunks(stage):
        runs.append(letter * count if count < 4 else f"{letter}*{count}")
    return "".join(runs)
