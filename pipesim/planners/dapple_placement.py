"""The devices of the next stage, by DAPPLE's three placement policies.

    machine 0  x x . .         fresh     unused machines, one after the other:      2: 0
    machine 1  x . . .         append    machines in use, one after the other:      0: 2-3, 1: 1
    machine 2  . . . .         scatter   one device of each machine in turn:        0: 2, 1: 1, 2: 0

A machine's devices are used in order, so their use is a number.
"""

from collections.abc import Iterable
from typing import NamedTuple

Used = tuple[int, ...]  # the number of devices of each machine that are used


class Piece(NamedTuple):
    """Devices first .. stop - 1 of a machine."""

    machine: int
    first: int
    stop: int


Group = tuple[Piece, ...]  # by machine


def size_of(group: Group) -> int:
    """The number of devices of a group."""
    return sum(piece.stop - piece.first for piece in group)


def take(sizes: Used, used: Used, need: int, machines: Iterable[int]) -> Group | None:
    """`need` devices of these machines, one machine after the other; None if they have fewer."""
    group = []
    for machine in machines:
        count = min(need, sizes[machine] - used[machine])
        if count:
            group.append(Piece(machine, used[machine], used[machine] + count))
            need -= count
    return tuple(group) if not need else None


def scatter(sizes: Used, used: Used, need: int) -> Group:
    """`need` devices, one of each machine in turn; that many must be free."""
    stops = list(used)
    while need:
        for machine, size in enumerate(sizes):
            if need and stops[machine] < size:
                stops[machine] += 1
                need -= 1
    return tuple(Piece(m, first, stop) for m, (first, stop) in enumerate(zip(used, stops, strict=True)) if stop > first)


def placements(sizes: Used, used: Used, need: int) -> list[Group]:
    """The groups of the three policies, without duplicates."""
    if sum(sizes) - sum(used) < need:
        return []
    fresh = take(sizes, used, need, [machine for machine, taken in enumerate(used) if not taken])
    append = take(sizes, used, need, [machine for machine, taken in enumerate(used) if taken])
    found = [group for group in (fresh, append) if group is not None]
    return list(dict.fromkeys([*found, scatter(sizes, used, need)]))


def after(used: Used, group: Group) -> Used:
    """The devices in use after a group is taken."""
    taken = list(used)
    for piece in group:
        taken[piece.machine] = piece.stop
    return tuple(taken)


def joined(one: Group, other: Group) -> Group:
    """Two groups as one; the second was taken right after the first."""
    pieces = {piece.machine: piece for piece in one}
    for piece in other:
        mine = pieces.get(piece.machine)
        pieces[piece.machine] = piece if mine is None else mine._replace(stop=piece.stop)
    return tuple(sorted(pieces.values()))


def placements_of_each(sizes: Used, used: Used, need: int, pipelines: int, most: int) -> list[tuple[Used, Group]]:
    """The placements of a stage of several pipelines, `need` devices each: (devices in use after it, its group).

    At most `most` of them are followed from pipeline to pipeline.
    """
    ways: list[tuple[Used, Group]] = [(used, ())]
    for _ in range(pipelines):
        further = ((after(u, g), joined(group, g)) for u, group in ways for g in placements(sizes, u, need))
        ways = list(dict.fromkeys(further))[:most]
    return ways
