"""Where the next stage may go: devices of machines, taken by one of DAPPLE's three policies.

    machine 0  x x . .         fresh     machines that nobody uses yet, one after the other:      2: 0
    machine 1  x . . .         append    machines in use, one after the other                     0: 2-3, 1: 1
    machine 2  . . . .         scatter   one device of each machine in turn                       0: 2, 1: 1, 2: 0

A machine's devices are taken from its first on, so what is used of it is a number.
"""

from collections.abc import Iterable
from typing import NamedTuple

Used = tuple[int, ...]  # of each machine, how many devices are taken


class Piece(NamedTuple):
    """Devices first .. stop - 1 of a machine."""

    machine: int
    first: int
    stop: int


Group = tuple[Piece, ...]  # by machine


def size_of(group: Group) -> int:
    """How many devices a group has."""
    return sum(piece.stop - piece.first for piece in group)


def take(sizes: Used, used: Used, need: int, machines: Iterable[int]) -> Group | None:
    """So many devices from these machines, one machine after the other; None if they have not got them."""
    group = []
    for machine in machines:
        count = min(need, sizes[machine] - used[machine])
        if count:
            group.append(Piece(machine, used[machine], used[machine] + count))
            need -= count
    return tuple(group) if not need else None


def scatter(sizes: Used, used: Used, need: int) -> Group:
    """So many devices, one of each machine in turn; there must be as many."""
    stops = list(used)
    while need:
        for machine, size in enumerate(sizes):
            if need and stops[machine] < size:
                stops[machine] += 1
                need -= 1
    return tuple(Piece(m, first, stop) for m, (first, stop) in enumerate(zip(used, stops, strict=True)) if stop > first)


def placements(sizes: Used, used: Used, need: int) -> list[Group]:
    """What the three policies make of it, each group once."""
    if sum(sizes) - sum(used) < need:
        return []
    fresh = take(sizes, used, need, [machine for machine, taken in enumerate(used) if not taken])
    append = take(sizes, used, need, [machine for machine, taken in enumerate(used) if taken])
    found = [group for group in (fresh, append) if group is not None]
    return list(dict.fromkeys([*found, scatter(sizes, used, need)]))


def after(used: Used, group: Group) -> Used:
    """What is used once a group is taken."""
    taken = list(used)
    for piece in group:
        taken[piece.machine] = piece.stop
    return tuple(taken)


def joined(one: Group, other: Group) -> Group:
    """Two groups as one, where the other was taken right after the one."""
    pieces = {piece.machine: piece for piece in one}
    for piece in other:
        mine = pieces.get(piece.machine)
        pieces[piece.machine] = piece if mine is None else mine._replace(stop=piece.stop)
    return tuple(sorted(pieces.values()))


def placements_of_each(sizes: Used, used: Used, need: int, pipelines: int, most: int) -> list[tuple[Used, Group]]:
    """What is used then, and the devices, when each of several pipelines takes so many: at most `most` ways."""
    ways: list[tuple[Used, Group]] = [(used, ())]
    for _ in range(pipelines):
        further = ((after(u, g), joined(group, g)) for u, group in ways for g in placements(sizes, u, need))
        ways = list(dict.fromkeys(further))[:most]
    return ways
