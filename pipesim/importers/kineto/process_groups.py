"""The communication of process groups: point-to-point messages and collectives, with bytes, ends and seconds.

    rank 0   kernel   |- waits for rank 1 ----|== moves ==|       a communication kernel also waits for the others: of
    rank 1   kernel                           |== moves ==|       those that belong together, the shortest only moves

Bytes and ends are arguments of the kernel ("Collective name", ...) or, from older profilers, of the range `nccl:...`
that launched it. Without kernels, the ranges (`gloo:...`) themselves are used.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from pipesim.base import units
from pipesim.base.arrays import Ints
from pipesim.base.tables import Table
from pipesim.importers.kineto.events import DEVICE, GROUP_PREFIXES, OP, RANGE, Events
from pipesim.importers.kineto.nesting import inside
from pipesim.importers.kineto.reading import BYTES, group_name
from pipesim.importers.kineto.work_pieces import launches

P2P = "p2p"
_MOST_BYTES = 2**50
_MOST_DIGITS = 8  # of a rank


class Communication(NamedTuple):
    """One message or collective on one rank; start and end in nanoseconds since the epoch."""

    kind: str
    rank: int
    source: int
    target: int
    size: int
    participants: int
    start: int
    end: int
    receives: bool = False
    on_gpu: bool = False


def communications(events: Events, rank: int) -> list[Communication]:
    """The communication of one rank, in order of time."""
    rows = events.of(DEVICE)[events.communicates[events.of(DEVICE)]]
    found = list(_by_kernels(events, rank, rows) if len(rows) else _by_ranges(events, rank))
    return sorted(found, key=lambda one: (one.start, one.end))


def _by_kernels(events: Events, rank: int, rows: Ints) -> Iterator[Communication]:
    ranges = np.flatnonzero((events.category == RANGE) & events.named(*GROUP_PREFIXES))
    launched = dict(zip(events.of(DEVICE).tolist(), launches(events).tolist(), strict=True))
    by = np.array([launched[row] for row in rows.tolist()], np.int64)
    around = inside(
        np.where(by >= 0, events.thread[by], -1),
        events.start[by],
        (events.thread[ranges], events.start[ranges], events.end[ranges]),
    )
    for row, at in zip(rows.tolist(), around.tolist(), strict=True):
        args = events.details.get(row, {})
        if "Collective name" in args:
            yield from _from_arguments(events, rank, row, args)
        elif at >= 0:
            yield from _from_range(events, rank, int(ranges[at]), row)


def _from_arguments(events: Events, rank: int, row: int, args: dict[str, Any]) -> Iterator[Communication]:
    """From the arguments of a kernel."""
    kind = _kind(str(args["Collective name"]))
    each = BYTES.get(str(args.get("dtype", "")).lower(), 0)
    size = each * max(_count(args.get("In msg nelems")), _count(args.get("Out msg nelems")))
    members = [
        int(text) for text in re.findall(rf"[0-9]{{1,{_MOST_DIGITS}}}", str(args.get("Process Group Ranks", "")))
    ]
    several = _count(args.get("Group size")) or len(members) or events.world
    if 0 < size <= _MOST_BYTES:
        sender, receiver = _peer(args.get("Src Rank")), _peer(args.get("Dst Rank"))
        here = int(events.start[row]) + events.origin, int(events.end[row]) + events.origin
        if kind != P2P:
            ends = (members[0], members[-1]) if members else (0, several - 1)
            yield Communication(kind, rank, *ends, size, several, *here, on_gpu=True)
        elif sender >= 0 or receiver >= 0:
            receives = "recv" in str(args["Collective name"]).lower()
            source, target = (sender if sender >= 0 else rank), (receiver if receiver >= 0 else rank)
            yield Communication(kind, rank, source, target, size, 2, *here, receives=receives, on_gpu=True)


def _from_range(events: Events, rank: int, row: int, kernel: int) -> Iterator[Communication]:
    """From the range that launched a kernel."""
    kind, size = _kind(group_name(events.text(row))), int(events.size[row])
    if size > 0 and kind != P2P:  # a range does not name the receiver of a message
        here = int(events.start[kernel]) + events.origin, int(events.end[kernel]) + events.origin
        yield Communication(kind, rank, 0, events.world - 1, size, events.world, *here, on_gpu=True)


def _by_ranges(events: Events, rank: int) -> Iterator[Communication]:
    rows = np.flatnonzero((events.category == RANGE) & events.named(*GROUP_PREFIXES) & (events.size > 0))
    ops = np.flatnonzero((events.category == OP) & events.named("c10d::"))
    around = inside(
        events.thread[rows], events.start[rows], (events.thread[ops], events.start[ops], events.end[ops])
    ).tolist()
    for row, at in zip(rows.tolist(), around, strict=True):
        name, size = group_name(events.text(row)), int(events.size[row])
        here = int(events.start[row]) + events.origin, int(events.end[row]) + events.origin
        if _kind(name) != P2P:
            yield Communication(_kind(name), rank, 0, events.world - 1, size, events.world, *here)
            continue
        peer = _peer_of(events.details.get(int(ops[at]), {})) if at >= 0 else -1
        if peer >= 0:
            source, target = (peer, rank) if "recv" in name else (rank, peer)
            yield Communication(P2P, rank, source, target, size, 2, *here, receives="recv" in name)


def _peer_of(args: dict[str, Any]) -> int:
    """The rank at the other end, the third input of operators that send and receive."""
    inputs = args.get("Concrete Inputs")
    return _peer(inputs[2]) if isinstance(inputs, list) and len(inputs) > 2 else -1


def _peer(value: Any) -> int:  # noqa: ANN401 - any JSON
    text = str(value)
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS else -1


def _count(value: Any) -> int:  # noqa: ANN401 - any JSON
    return value if type(value) is int and 0 <= value <= _MOST_BYTES else 0


_KINDS = (
    ("all_reduce", ("allreduce",)),
    ("all_gather", ("allgather",)),
    ("reduce_scatter", ("reducescatter",)),
    ("all_to_all", ("alltoall",)),
    ("broadcast", ("broadcast",)),
    (P2P, ("send", "recv")),
)


def _kind(name: str) -> str:
    """One name for different spellings: allreduce, all_reduce, _allreduce_base."""
    bare = re.sub(r"[^a-z]", "", name.lower())
    return next((kind for kind, parts in _KINDS if any(part in bare for part in parts)), bare[:40] or "collective")


# --- several ranks ---------------------------------------------------------------------------------------------------


def transfer_table(seen: Sequence[Communication]) -> Table:
    """One row for each message and collective, matched over the ranks that were recorded."""
    groups: dict[tuple[Any, ...], dict[tuple[int, bool], list[Communication]]] = defaultdict(lambda: defaultdict(list))
    for one in seen:
        key = (one.kind, one.source, one.target, one.size, one.participants)
        groups[key][one.rank, one.receives].append(one)
    rows = [
        (key, _seconds(together), number)
        for key, by_rank in groups.items()
        for number, together in enumerate(_matched(by_rank))
    ]
    if not rows:
        return {}
    keys, seconds, number = zip(*rows, strict=True)
    kind, source, target, size, participants = zip(*keys, strict=True)
    return {
        "source": np.array([f"rank{rank}" for rank in source], object),
        "target": np.array([f"rank{rank}" for rank in target], object),
        "bytes": np.array(size, np.int64),
        "seconds": np.array(seconds, np.float64),
        "kind": np.array(kind, object),
        "participants": np.array(participants, np.int64),
        "sample": np.array(number, np.int64),
    }


def _matched(by_rank: dict[tuple[int, bool], list[Communication]]) -> Iterator[list[Communication]]:
    """Groups of the n-th communication of every rank."""
    for number in range(max(map(len, by_rank.values()))):
        yield [found[number] for found in by_rank.values() if number < len(found)]


def _seconds(together: list[Communication]) -> float:
    """The time of the transfer without waiting. On a CPU it ends when the receiver ends; senders return earlier."""
    receivers = [one for one in together if one.receives]
    if together[0].kind == P2P and receivers and not together[0].on_gpu:
        both = max(one.start for one in together)
        return units.to_s(max(min(one.end for one in receivers) - both, 0))
    return units.to_s(min(one.end - one.start for one in together))
