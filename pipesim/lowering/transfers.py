"""The pass that adds transfers: activations and gradients at each cut, between all replicas that share a microbatch.

Between teams a tensor is several messages. Each GPU has all of it, and sends that to its counterpart; or (with
`scatter_sends`, or where tensors are divided along the sequence) each sends the part that it has:

    every GPU sends all      from 2 GPUs to 4      the parts that GPUs have       from 2 GPUs to 4
    0 ─> 0   0 ─> 1   1 ─> 2   1 ─> 3              0 ─> 0   0 ─> 1   1 ─> 2   1 ─> 3     a quarter of the tensor each
"""

import functools
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipesim.base import units
from pipesim.base.arrays import Floats, Ints, Ragged, row_codes
from pipesim.core.program import ACTIVATION, GRADIENT
from pipesim.core.teams import Widths
from pipesim.lowering.messages import Alone, alone, alone_each
from pipesim.lowering.posting import connect
from pipesim.lowering.setup import Setup
from pipesim.lowering.tasks import GATHERS, MESSAGES, RingTasks, Tasks


class Pairs(NamedTuple):
    """Who hands what to whom: per message its kind, the sender's and receiver's slot, the microbatch, and which it is.

    `part` numbers the messages that a tensor is between two teams.
    """

    kind: Ints
    source: Ints
    target: Ints
    microbatch: Ints
    part: Ints

    def rows(self, chosen: Ints | NDArray[np.bool_]) -> "Pairs":
        """Only these messages, in this order."""
        return Pairs(*(column[chosen] for column in self))

    def ends(self, setup: Setup) -> tuple[Ints, Ints]:
        """The actions that make and that use each message."""
        side = (self.kind == GRADIENT).astype(np.int64)
        made, used = (setup.action_at(side, slot, self.microbatch) for slot in (self.source, self.target))
        return setup.cell_end[made], setup.cell_start[used]


def all_pairs(setup: Setup) -> Pairs:
    """What every stage hands to its neighbours, of all microbatches; gradients only where one is needed."""
    model, blocks = setup.costs.model, []
    for n, stage in enumerate(setup.plan.stages[:-1]):
        blocks.append(_pairs(setup, n, n + 1, ACTIVATION))
        if not model.is_partly_frozen or model.gradient_bytes[stage.stop - 1]:
            blocks.append(_pairs(setup, n + 1, n, GRADIENT))
    if not blocks:
        return Pairs(*[NOTHING] * len(Pairs._fields))
    return Pairs(*(np.concatenate(columns) for columns in zip(*blocks, strict=True)))


def add_transfers(tasks: Tasks, setup: Setup) -> None:
    """What one stage hands to the next; on one device the tensor is there already."""
    pairs, rank = all_pairs(setup), setup.rank_of_slot
    if setup.fold is not None:
        pairs = pairs.rows(setup.fold.has_rank(rank[pairs.source]))
    if not len(pairs.kind):
        return
    near = rank[pairs.source] == rank[pairs.target]
    add = _add_pair_transfers if setup.sharing_rule.has_links else _add_channel_transfers
    if near.any():
        made, used = pairs.rows(near).ends(setup)
        tasks.needs.append((used, made))
        pairs = pairs.rows(~near)
    if len(pairs.kind):
        add(tasks, setup, between_gpus(setup, pairs))


class Message(NamedTuple):
    """One of the messages between two teams: from which GPU to which, and what part of the tensor."""

    source: int
    target: int
    part: float


WHOLE = Message(0, 0, 1.0)
NOTHING: Ints = np.zeros(0, np.int64)


@functools.cache
def messages_between(source: Widths, target: Widths, *, scattered: bool) -> tuple[Message, ...]:
    """The messages between teams of these widths, so that the receivers have the tensor as they need it.

    Along the context width, each GPU has and needs its part of the sequence; a tensor is divided over tensor widths
    only if it is scattered.

    >>> messages_between(Widths(2), Widths(4), scattered=True)[2]
    Message(source=1, target=2, part=0.25)
    """
    sent, got = source.context, target.context
    if scattered:
        n, m = source.gpus, target.gpus
        overlaps = ((i, j, min((i + 1) * m, (j + 1) * n) - max(i * m, j * n)) for i in range(n) for j in range(m))
        return tuple(Message(i, j, both / (n * m)) for i, j, both in overlaps if both > 0)
    found = []
    for i in range(sent):
        for j in range(got):
            both = min((i + 1) * got, (j + 1) * sent) - max(i * got, j * sent)
            if both > 0:
                found += [
                    Message(
                        i * source.tensor + to * source.tensor // target.tensor,
                        j * target.tensor + to,
                        both / (sent * got),
                    )
                    for to in range(target.tensor)
                ]
    return tuple(found)


def _messages(setup: Setup, stage: int, other: int) -> tuple[Message, ...]:
    scattered = setup.options.scatter_sends or setup.costs.model.sequence_parallel
    return messages_between(setup.plan.widths(stage), setup.plan.widths(other), scattered=scattered)


def between_gpus(setup: Setup, pairs: Pairs) -> Pairs:
    """The pairs with each message between two teams a row of its own."""
    if not setup.has_teams or not len(pairs.kind):
        return pairs
    stage_of = np.array(setup.slots)[:, 0]
    code = stage_of[pairs.source] * len(setup.plan.stages) + stage_of[pairs.target]
    known, inverse = np.unique(code, return_inverse=True)
    each = np.array([len(_messages(setup, *divmod(number, len(setup.plan.stages)))) for number in known.tolist()])
    count = each[inverse]
    rows = np.repeat(np.arange(len(count)), count)
    first = np.concatenate([[0], np.cumsum(count)[:-1]])
    return pairs.rows(rows)._replace(part=np.arange(len(rows)) - first[rows])


def _pairs(setup: Setup, sender: int, receiver: int, kind: int) -> Pairs:
    """All replica pairs for every microbatch (split), or the one pair of each microbatch (whole)."""
    plan, m = setup.plan, np.arange(setup.plan.microbatches)
    k, k2 = len(plan.stages[sender].devices), len(plan.stages[receiver].devices)
    if plan.replicas == "whole":
        source, target, microbatch = m % k, m % k2, m
    else:
        grid = np.meshgrid(np.arange(k), np.arange(k2), m, indexing="ij")
        source, target, microbatch = (axis.ravel() for axis in grid)
    kinds = np.full(len(microbatch), kind)
    slots = source + setup.first_slot[sender], target + setup.first_slot[receiver]
    return Pairs(kinds, *slots, microbatch, np.zeros_like(kinds))


def _add_pair_transfers(tasks: Tasks, setup: Setup, pairs: Pairs) -> None:
    """One task per message; sorted by microbatch, gradients first: the order in which ties are settled."""
    every = pairs.rows(np.lexsort((pairs.part, pairs.target, pairs.source, pairs.kind == ACTIVATION, pairs.microbatch)))
    pairs, streams, message = _simulated(setup, every)
    timing = Timing.of(setup, pairs)
    index = tasks.add(
        len(pairs.kind),
        kind=pairs.kind,
        stage=setup.stage_of_slot[pairs.source],
        microbatch=pairs.microbatch,
        source=setup.represented(setup.rank_of_slot[pairs.source]),
        target=setup.represented(setup.rank_of_slot[pairs.target]),
        duration=timing.duration,
        delay=timing.delay,
        size=timing.size,
        limit=timing.limit,
    )
    tasks.add_routes(timing.routes, setup.fold, streams)
    tasks.ends.append((index, timing.source, timing.target))
    if setup.fold is not None:
        tasks.name_classes(MESSAGES, *_class_of(setup, pairs, setup.fold.streams[streams]))
    index = index[message]
    made, used = every.ends(setup)
    connect(tasks, setup, index, made, used, every.kind)
    if gathers_messages(setup):
        _add_team_gathers(tasks, setup, every, index, used)


def _simulated(setup: Setup, pairs: Pairs) -> tuple[Pairs, Ints, Ints]:
    """The messages that get a task, the streams that they are of, and for each message which of those represents it."""
    fold = setup.fold
    if fold is None:
        return pairs, NOTHING, np.arange(len(pairs.kind))
    streams = fold.pairs.find(setup.stream_codes(pairs.source, pairs.target, pairs.part))
    if fold.expanded:
        return pairs, streams, np.arange(len(pairs.kind))
    kept = fold.keeps(streams)
    _, number = np.unique(row_codes(*_class_of(setup, pairs, fold.streams[streams])), return_inverse=True)
    represented_by = np.full(int(number.max(initial=-1)) + 1, -1, np.int64)
    represented_by[number[kept]] = np.arange(int(kept.sum()))
    return pairs.rows(kept), streams[kept], represented_by[number]


def _class_of(setup: Setup, pairs: Pairs, streams: Ints) -> tuple[Ints, Ints, Ints]:
    """What messages of a class have in common: the stream, what is sent by which stage, and of which microbatch."""
    sent = pairs.kind * len(setup.plan.stages) + setup.stage_of_slot[pairs.source]
    return streams, sent, setup.ordinal(pairs.source, pairs.microbatch)


def gathers_messages(setup: Setup) -> bool:
    """Whether teams receive tensors in parts and must gather them."""
    return setup.options.scatter_sends and setup.has_teams and not setup.costs.model.sequence_parallel


def gather_edges(setup: Setup, rank: int) -> list[tuple[str, str]]:
    """The edges of the rings in which a team gathers a tensor: of all GPUs that have the same part of a sequence."""
    team, width = setup.members(rank), setup.plan.widths(setup.plan.chunks[rank][0]).tensor
    rings = [team[i : i + width] for i in range(0, len(team), width) if width > 1]
    return [edge for ring in rings for edge in zip(ring, (*ring[1:], ring[0]), strict=True)]


def ends_of_messages(setup: Setup, pairs: Pairs) -> list[tuple[str, str, float]]:
    """From which GPU to which each message goes, and what part of the tensor it is."""
    found = []
    for source, target, part in zip(pairs.source.tolist(), pairs.target.tolist(), pairs.part.tolist(), strict=True):
        (n, rank), (n2, rank2) = setup.slots[source], setup.slots[target]
        message = _messages(setup, n, n2)[part] if setup.has_teams else WHOLE
        found.append((setup.members(rank)[message.source], setup.members(rank2)[message.target], message.part))
    return found


def _add_team_gathers(tasks: Tasks, setup: Setup, pairs: Pairs, index: Ints, used: Ints) -> None:
    """A team whose GPUs each receive a part of a tensor gathers it: a ring, t-1 messages of a part on each edge.

    Context-parallel GPUs need only their part of the sequence: each t of them that share one are a ring.
    """
    slots = len(setup.slots)
    code = ((pairs.microbatch * 2 + (pairs.kind == ACTIVATION)) * slots + pairs.source) * slots + pairs.target
    tensors, first, of_message = np.unique(code, return_index=True, return_inverse=True)
    known: dict[tuple[int, int], list[_Edge]] = {}
    edges: list[list[_Edge]] = []
    widths: list[int] = []
    for n, slot in zip(pairs.source[first].tolist(), pairs.target[first].tolist(), strict=True):
        (stage, _), (other, rank) = setup.slots[n], setup.slots[slot]
        width = setup.plan.widths(other).tensor
        if (n, slot) not in known:
            part = _cut_bytes(setup, stage, other) / len(setup.members(rank))
            place = setup.cluster.index
            known[n, slot] = [
                _Edge(alone(setup.cluster, a, b, part, width - 1), place[a], place[b], part)
                for a, b in gather_edges(setup, rank)
            ]
        edges.append(known[n, slot])
        widths.append(width)
    tensor = np.repeat(np.arange(len(tensors)), [len(ring) for ring in edges])
    if not len(tensor):
        return
    messages, streams = [edge.message for ring in edges for edge in ring], NOTHING
    if setup.fold is not None:
        rows, number = first[tensor], np.arange(len(tensor)) - np.searchsorted(tensor, tensor)
        streams = setup.fold.gathers.find(setup.stream_codes(pairs.source[rows], pairs.target[rows], number))
        kept = np.flatnonzero(setup.fold.keeps(streams))
        streams, tensor, messages = streams[kept], tensor[kept], [messages[n] for n in kept.tolist()]
    rows, stage_of, rank_of = first[tensor], setup.stage_of_slot, setup.rank_of_slot
    gathered = tasks.add(
        len(rows),
        kind=pairs.kind[rows],
        stage=stage_of[pairs.source[rows]],
        microbatch=pairs.microbatch[rows],
        source=setup.represented(rank_of[pairs.target[rows]]),
        target=setup.represented(rank_of[pairs.target[rows]]),
        duration=np.array([edge.duration for edge in messages]),
        delay=np.array([edge.delay for edge in messages]),
        size=np.array([edge.size for edge in messages]),
        limit=np.array([edge.limit for edge in messages]),
    )
    tasks.add_routes(Ragged.of([edge.media for edge in messages]), setup.fold, streams)
    if setup.fold is None:
        _record_gathers(tasks, gathered, edges, np.array(widths)[tensor])
    else:
        tasks.name_classes(GATHERS, *_class_of(setup, pairs.rows(rows), setup.fold.streams[streams]))
    tasks.needs.append((used[rows], gathered))
    # Each edge waits for all messages of its tensor.
    starts = np.searchsorted(tensor, np.arange(len(tensors) + 1))
    count = np.diff(starts)[of_message]
    places = np.repeat(starts[of_message], count) + _counted(count)
    tasks.needs.append((gathered[places], np.repeat(index, count)))


class _Edge(NamedTuple):
    """One edge of a ring: its messages together, between which GPUs, and bytes of each message."""

    message: Alone
    source: int
    target: int
    part: float


def _record_gathers(tasks: Tasks, gathered: Ints, edges: list[list[_Edge]], width: Ints) -> None:
    """Between which GPUs they are: of the edges of a tensor, every `width` are a ring."""
    every = [edge for ring in edges for edge in ring]
    source, target, part = (np.array([getattr(edge, name) for edge in every]) for name in ("source", "target", "part"))
    tasks.ends.append((gathered, source, target))
    first = np.flatnonzero(np.concatenate([np.arange(len(ring)) for ring in edges]) % width == 0)
    tasks.rings.append(RingTasks("all_gather", gathered[first], width[first], part[first]))


def _counted(count: Ints) -> Ints:
    """0, 1, ... up to each of these numbers, one after the other."""
    ends: Ints = np.cumsum(count)
    return np.arange(int(ends[-1]) if len(ends) else 0) - np.repeat(ends - count, count)


def _add_channel_transfers(tasks: Tasks, setup: Setup, pairs: Pairs) -> None:
    """One half-duplex machine per stage boundary: a microbatch's messages pass as one block, at the slowest's pace."""
    stage_of, rank_of = np.array(setup.slots).T
    boundary = np.minimum(stage_of[pairs.source], stage_of[pairs.target])
    code = (pairs.microbatch * 2 + (pairs.kind == ACTIVATION)) * len(setup.plan.stages) + boundary
    _, first, block = np.unique(code, return_index=True, return_inverse=True)
    timing = Timing.of(setup, pairs)
    duration, delay, size = np.zeros(len(first), np.int64), np.zeros(len(first), np.int64), np.zeros(len(first))
    np.maximum.at(duration, block, timing.duration)
    np.maximum.at(delay, block, timing.delay)
    np.add.at(size, block, timing.size)
    index = tasks.add(
        len(first),
        kind=pairs.kind[first],
        stage=stage_of[pairs.source[first]],
        microbatch=pairs.microbatch[first],
        source=rank_of[pairs.source[first]],
        target=rank_of[pairs.target[first]],
        duration=duration,
        delay=delay,
        size=size,
    )
    used_boundaries, channel = np.unique(boundary[first], return_inverse=True)
    for n, number in zip(used_boundaries.tolist(), range(len(used_boundaries)), strict=True):
        most, moving = size[channel == number].max(), (duration - delay)[channel == number].max()
        tasks.channels.append((f"stage{n}<->stage{n + 1}", float(most / max(moving, 1)) if most else 1.0))
    tasks.routes.append(Ragged.of_lengths(np.ones(len(first), np.int64), channel.astype(np.int64)))
    made, used = pairs.ends(setup)
    connect(tasks, setup, index[block], made, used, pairs.kind)


class Timing(NamedTuple):
    """What transfers cost alone on their routes."""

    duration: Ints
    delay: Ints
    size: Floats
    limit: Floats
    routes: Ragged
    source: Ints  # GPUs, by their index in the cluster
    target: Ints

    @classmethod
    def of(cls, setup: Setup, pairs: Pairs) -> "Timing":
        """Each different (source slot, target slot, message of a team) is looked up once."""
        slots = len(setup.slots)
        unique, inverse = np.unique((pairs.part * slots + pairs.source) * slots + pairs.target, return_inverse=True)
        rest, to = np.divmod(unique, slots)
        part, sender = np.divmod(rest, slots)
        source, target, size = _ends_and_bytes(setup, sender, to, part)
        found = alone_each(setup.cluster, source, target, size, 1)
        software = units.ns_of(setup.options.message_time)
        duration, delay = ((column + software)[inverse] for column in (found.duration, found.delay))
        size, limit = (column[inverse] for column in (found.size, found.limit))
        return cls(duration, delay, size, limit, found.routes.take(inverse), source[inverse], target[inverse])


def _ends_and_bytes(setup: Setup, sender: Ints, receiver: Ints, part: Ints) -> tuple[Ints, Ints, Floats]:
    """From which GPU to which messages between slots go, and how many bytes they are."""
    stages, stage_of = len(setup.plan.stages), setup.stage_of_slot
    code, cut = np.unique(stage_of[sender] * stages + stage_of[receiver], return_inverse=True)
    cuts = [divmod(number, stages) for number in code.tolist()]
    size = np.array([_cut_bytes(setup, *ends) for ends in cuts])[cut]
    gpu, first = setup.gpus_of_ranks
    source, target = (first[setup.rank_of_slot[slot]] for slot in (sender, receiver))
    if not setup.has_teams:
        return gpu[source], gpu[target], size
    messages = [_messages(setup, *ends) for ends in cuts]
    most = max(map(len, messages))
    table = np.array([[*each, *[WHOLE] * (most - len(each))] for each in messages])[cut, part]
    source, target = source + table[:, 0].astype(np.int64), target + table[:, 1].astype(np.int64)
    return gpu[source], gpu[target], size * table[:, 2]


def _cut_bytes(setup: Setup, stage: int, other: int) -> float:
    """Bytes from one replica of a stage to one of the next: 1/(k k') of the cut when microbatches are split."""
    cut = setup.plan.stages[min(stage, other)].stop - 1
    crossing = setup.costs.model.cut_bytes if stage < other else setup.costs.model.gradient_bytes
    return float(crossing[cut]) * setup.plan.share(stage) * setup.plan.share(other)
