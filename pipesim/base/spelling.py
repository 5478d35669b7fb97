"""Spellings of names: the member of a family that a user means, and the one that was mistyped.

1F1B, zb-h1, ZBVZeroBubble      letters and digits count, whatever their case: 1f1b, zbh1, zbvzerobubble
gpiep, interleavd               a typing error: suggested
zb_h2, dualpipe_x, zb_w         other things, or too short to know: never suggested
"""

from collections.abc import Iterable, Mapping

SHORTEST = 5  # characters of a name in which a typing error is recognised


def plain(name: str) -> str:
    """The letters and digits of a name in lower case; a plus is one too, as in SPP+."""
    return "".join(letter for letter in name.casefold().replace("+", "plus") if letter.isalnum())


def spellings(names: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The meaning of each spelling, from pairs of a spelling and what it means; those with several are left out."""
    found: dict[str, set[str]] = {}
    for spelling, meaning in names:
        found.setdefault(plain(spelling), set()).add(meaning)
    return {spelling: next(iter(meant)) for spelling, meant in found.items() if len(meant) == 1}


def mistyped(name: str, known: Mapping[str, str]) -> str | None:
    """What a name means if it is a spelling with a typing error; None if it may be several things, or another one.

    A typing error is a letter that is missing, one too many, or exchanged with the next; a wrong letter may be another
    name (looped_dfs), and so may a wrong digit (zb_h2). A known name that goes on is another one (dualpipe_x), and a
    beginning of several is none of them (dualp).
    """
    word = plain(name)
    begun = {meaning for spelling, meaning in known.items() if spelling.startswith(word)}
    if len(word) < SHORTEST or len(begun) > 1 or any(word.startswith(spelling) for spelling in known):
        return None
    near = {meaning for spelling, meaning in known.items() if _has_one_error(word, spelling)}
    wrong = {meaning for spelling, meaning in known.items() if _has_wrong_letter(word, spelling)}
    return near.pop() if len(near) == len(near | wrong) == 1 else None


def _has_one_error(word: str, spelling: str) -> bool:
    """Whether a letter is missing, one too many, or exchanged with the next."""
    short, long = sorted((word, spelling), key=len)
    at = next((n for n, (a, b) in enumerate(zip(short, long, strict=False)) if a != b), len(short))
    if len(long) == len(short) + 1:
        return long[at].isalpha() and long[:at] + long[at + 1 :] == short
    exchanged = word[at : at + 2][::-1]
    return exchanged.isalpha() and word[:at] + exchanged + word[at + 2 :] == spelling


def _has_wrong_letter(word: str, spelling: str) -> bool:
    return len(word) == len(spelling) and sum(a != b for a, b in zip(word, spelling, strict=True)) == 1
