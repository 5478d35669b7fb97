"""How long things take where speeds change: as `scenario.finish_time`, on flat arrays.

Profile p has speed value[i] from time[i] on, for i from first[p] to first[p + 1] - 1.
"""

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from pipesim.base.arrays import Floats, Ints
from pipesim.base.kernels import borrowing
from pipesim.core.program import Program
from pipesim.core.scenario import STEADY, Speeds
from pipesim.engines.compiled.dependents import Shorts

STEADILY = -1  # the profile of what always goes at full speed


class Profiles(NamedTuple):
    """Speeds of lanes and of routes, in flat arrays; `of_task` is a task's profile."""

    of_task: Shorts
    first: Ints
    time: Ints
    value: Floats


def profiles_of(program: Program) -> Profiles:
    """The profile of every task: of its lane, or of its route."""
    of_task = np.full(len(program), STEADILY, np.int32)
    found: dict[Speeds, int] = {}
    for lane, speeds in program.lane_speeds.items():
        of_task[program.lane == lane] = found.setdefault(speeds, len(found))
    if program.media_speeds:
        known: dict[tuple[float, tuple[int, ...]], int] = {}
        for task in np.flatnonzero(~program.is_compute).tolist():
            key = float(program.limit[task]), tuple(program.route[task].tolist())
            if key not in known:
                speeds = program.route_speeds(task)
                known[key] = STEADILY if speeds is STEADY else found.setdefault(speeds, len(found))
            of_task[task] = known[key]
    return Profiles(of_task, *_flat(found))


def _flat(profiles: Iterable[Speeds]) -> tuple[Ints, Ints, Floats]:
    rows = list(profiles)
    first = np.concatenate([[0], np.cumsum([len(row.times) for row in rows])]).astype(np.int64)
    time = np.array([time for row in rows for time in row.times], np.int64)
    return first, time, np.array([value for row in rows for value in row.values], np.float64)


@borrowing
def finish(profiles: Profiles, profile: int, start: int, work: int) -> int:
    """When work that takes `work` ns at speed 1 is over if begun at `start`; rounded up once."""
    if profile < 0 or work == 0:
        return start + work
    time, value = profiles.time, profiles.value
    begin, end = profiles.first[profile], profiles.first[profile + 1]
    piece = begin
    while piece + 1 < end and time[piece + 1] <= start:
        piece += 1
    # Counted from the start on, as whole numbers until the last step: a float holds no more than 104 days to the ns.
    gone, left = 0.0, float(work)
    while True:
        needed = left / value[piece]
        if piece + 1 == end or gone + needed <= time[piece + 1] - start:
            gone += needed
            break
        left = max(0.0, left - (time[piece + 1] - start - gone) * value[piece])
        gone = float(time[piece + 1] - start)
        piece += 1
    ended: int = start + math.ceil(gone - 1e-6)
    return ended
