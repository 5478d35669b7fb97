"""Which ranges are actions of a pipeline's schedule, by their names.

    PP:0F3                              torch.distributed.pipelining: interleaved, zero-bubble, V schedules
    Forward 3, Backward 3               torch.distributed.pipelining: GPipe, whose only stage is its rank
    0F3, 2I1, 2W1                       as in a schedule
    forward stage 0 microbatch 3        words in any order and with any separator: bwd_stage1_mb2, stage0.F.mb3
    a regex                             groups `stage` (without it: the rank), `kind` and `microbatch`

A kind is F (forward, fwd), B (backward, bwd), I (input gradient, backward_input, dgrad) or W (weight gradient, wgrad).
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from pipesim.base.arrays import Ints
from pipesim.base.errors import InputError, RefusedError, shown
from pipesim.core.schedule import LETTERS
from pipesim.importers.kineto.events import RANGE, Events
from pipesim.importers.kineto.layer_ranges import compiled_pattern, ranges_there
from pipesim.importers.kineto.nesting import parents

_NUMBER = "[0-9]{1,6}"
_SHORT = re.compile(rf"(?:PP:)?(?P<stage>{_NUMBER})(?P<kind>[FBIW])(?P<microbatch>{_NUMBER})")
_GPIPE = re.compile(rf"(?P<kind>Forward|Backward) (?P<microbatch>{_NUMBER})")
_STAGE = re.compile(rf"stage[\W_]*({_NUMBER})", re.IGNORECASE)
_MICROBATCH = re.compile(rf"(?:micro[\W_]*batch|(?<![a-z])mb)[\W_]*({_NUMBER})", re.IGNORECASE)
_TOGETHER = re.compile(r"PP:\(.*\)OVERLAP_F_B")
_MOVES = re.compile(r"send|recv|receive|wait", re.IGNORECASE)
# Names of kinds in use, tried in this order: "backward weight" is not a backward.
_KINDS = (
    ("W", r"weights?|wgrad|(?:full_)?backward[\W_]*w(?:eights?)?"),
    ("I", r"inputs?|dgrad|backward[\W_]*i(?:nputs?)?"),
    ("B", r"(?:full[\W_]*)?backward|bwd|b"),
    ("F", r"forward|fwd|f"),
    ("W", r"w"),
    ("I", r"i"),
)
_WORDS = tuple((letter, re.compile(rf"(?<![a-z])(?:{words})(?![a-z])", re.IGNORECASE)) for letter, words in _KINDS)


class NamedAction(NamedTuple):
    """The action that a range is named after; `stage` is None where the name has none: the rank is the stage."""

    stage: int | None
    kind: int
    microbatch: int


def action_of(name: str, pattern: re.Pattern[str] | None = None) -> NamedAction | None:
    """The action that a range of this name is, or None."""
    if pattern is not None:
        match = pattern.search(name)
        return _from_groups(match) if match else None
    match = _SHORT.fullmatch(name) or _GPIPE.fullmatch(name)
    if match:
        return _from_groups(match)
    if _TOGETHER.fullmatch(name):
        raise RefusedError(f"{shown(name)}: a forward and a backward that overlap cannot be separated in a recording")
    microbatch, stage = _MICROBATCH.search(name), _STAGE.search(name)
    if microbatch is None or _MOVES.search(name):
        return None
    rest = _MICROBATCH.sub(" ", _STAGE.sub(" ", name)).replace("_", " ")
    kind = _kind(rest)
    return None if kind is None else NamedAction(int(stage[1]) if stage else None, kind, int(microbatch[1]))


def _from_groups(match: re.Match[str]) -> NamedAction:
    groups = match.groupdict()
    kind = _kind(groups["kind"] or "")
    if kind is None:
        raise InputError(
            f"actions: {shown(groups['kind'])} in {shown(match.string)} found; a kind was expected: forward, backward, "
            "input or weight, or their first letters"
        )
    for name in ("stage", "microbatch"):
        text = groups.get(name)
        if not (text and re.fullmatch(_NUMBER, text)) and not (text is None and name == "stage"):
            raise InputError(f"actions: {name} {shown(text)} in {shown(match.string)} found; a number was expected")
    stage = groups.get("stage")
    return NamedAction(None if stage is None else int(stage), kind, int(groups["microbatch"]))


def _kind(text: str) -> int | None:
    return next((LETTERS.index(letter) for letter, words in _WORDS if words.search(text)), None)


def pattern_of(text: str | None) -> re.Pattern[str] | None:
    """A user's own regular expression, with the groups that it must have."""
    if text is None:
        return None
    pattern = compiled_pattern(text, "actions")
    missing = {"kind", "microbatch"} - set(pattern.groupindex)
    if missing:
        raise InputError(
            f"actions = {shown(text)}: has no group {', '.join(sorted(missing))}; named groups kind, microbatch and "
            "(where a rank has several) stage were expected, such as (?P<kind>[FB])"
        )
    return pattern


def actions_in(events: Events, rank: int, pattern: re.Pattern[str] | None) -> tuple[Ints, list[NamedAction]]:
    """The rows of the ranges that are actions (the innermost where they nest), and the actions."""
    named = [action_of(name, pattern) for name in events.names]
    hit = np.array([one is not None for one in named], bool)
    rows = events.of(RANGE)
    rows = rows[hit[events.name[rows]] & ~events.communicates[rows]]
    if not len(rows):
        raise InputError(
            f"no range has the name of an action, such as PP:0F3 or 'forward stage 0 microbatch 3'; "
            f"{ranges_there(events)}; describe the names with a regular expression (option actions)"
        )
    above = parents(events.thread[rows], events.start[rows], events.end[rows])
    rows = np.delete(rows, above[above >= 0])
    rows = rows[np.argsort(events.start[rows], kind="stable")]
    return rows, list(_with_stage(named, events.name[rows].tolist(), rank))


def any_action(events: Events) -> bool:
    """Whether any range has the name of an action."""
    return any(action_of(events.names[name]) for name in np.unique(events.name[events.of(RANGE)]).tolist())


def _with_stage(named: list[NamedAction | None], names: list[int], rank: int) -> Iterator[NamedAction]:
    for name in names:
        one = named[name]
        if one is not None:
            yield one if one.stage is not None else one._replace(stage=rank)


def have_actions(events: Events) -> bool:
    """Whether a file was recorded in a pipelined run of torch.distributed.pipelining, by the names of its ranges."""
    return any(name.startswith("PP:") and _SHORT.fullmatch(name) for name in events.names)
