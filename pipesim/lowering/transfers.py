"""The pass that adds transfers: activations and gradients at each cut, between all replicas that share a microbatch.

Between teams a tensor is several messages. Each GPU has all of it, and sends that to its counterpart; or (with
`scatter_sends`, or where tensors are divided along the sequence) each sends the part that it has:

    every GPU sends all      from 2 GPUs to 4      the parts that GPUs have       from 2 GPUs to 4
    0 ─> 0   0 ─> 1   1 ─> 2   1 ─> 3              0 ─> 0   0 ─> 1   1 ─> 2   1 ─> 3     a quarter of the tensor each
"""

import functools
from typing import NamedTuple

import numpy as np

from pipesim.base import units
from pipesim.base.arrays import Bools, Floats, Ints, Ragged, row_codes
from pipesim.core.program import ACTIVATION, GRADIENT
from pipesim.core.teams import Widths
from pipesim.lowering.messages import Alone, alone, alone_each
from pipesim.lowering.posting import needs_of
from pipesim.lowering.setup import Setup
from pipesim.lowering.tasks import GATHERS, MESSAGES, RingTasks, Tasks


class Streams(NamedTuple):
    """Who hands what to whom: kind, the sender's and receiver's slot, which microbatches; a row is a message for each.

    `part` numbers the messages that a tensor is between two teams.
    """

    kind: Ints
    source: Ints
    target: Ints
    part: Ints
    first: Ints  # the first microbatch
    step: Ints  # ... and then every so many

    def rows(self, chosen: Ints | Bools) -> "Streams":
        """Only these, in this order."""
        return Streams(*(column[chosen] for column in self))


class Messages(NamedTuple):
    """The messages of some streams: of which each is, and for which microbatch."""

    streams: Streams
    stream: Ints
    microbatch: Ints

    @classmethod
    def of(cls, streams: Streams, microbatches: int) -> "Messages":
        """All, sorted by microbatch, gradients first: the order in which ties are settled."""
        ranked = (streams.part, streams.target, streams.source, streams.kind == ACTIVATION)
        streams = streams.rows(np.lexsort(ranked))
        count = len(streams.kind)
        if (streams.step == 1).all():
            return cls(streams, np.tile(np.arange(count), microbatches), np.repeat(np.arange(microbatches), count))
        of_each = -((streams.first - microbatches) // streams.step)
        stream = np.repeat(np.arange(count), of_each)
        microbatch = streams.first[stream] + _counted(of_each) * streams.step[stream]
        order = np.argsort(microbatch, kind="stable")
        return cls(streams, stream[order], microbatch[order])

    def rows(self, chosen: Ints | Bools) -> "Messages":
        """Only these, in this order, and only their streams."""
        used, stream = np.unique(self.stream[chosen], return_inverse=True)
        return Messages(self.streams.rows(used), stream, self.microbatch[chosen])

    @property
    def kind(self) -> Ints:
        """Of each message."""
        return self.streams.kind[self.stream]

    @property
    def source(self) -> Ints:
        """The sender's slot."""
        return self.streams.source[self.stream]

    @property
    def target(self) -> Ints:
        """The receiver's slot."""
        return self.streams.target[self.stream]

    def ends(self, setup: Setup) -> tuple[Ints, Ints]:
        """The actions that make and that use each message."""
        side = (self.streams.kind == GRADIENT).astype(np.int64)[self.stream]
        made, used = (setup.action_at(side, slot, self.microbatch) for slot in (self.source, self.target))
        return setup.cell_end[made], setup.cell_start[used]


def all_streams(setup: Setup) -> Streams:
    """What every stage hands to its neighbours, as one message to each; gradients only where one is needed."""
    model, stages, replicas = setup.costs.model, setup.plan.stages, np.array(setup.plan.replication, np.int64)
    back = [not model.is_partly_frozen or model.gradient_bytes[stage.stop - 1] > 0 for stage in stages[:-1]]
    ways = [(n + way, n + 1 - way, way) for n, needed in enumerate(back) for way in ((0, 1) if needed else (0,))]
    sender, receiver, way = np.array(ways, np.int64).reshape(-1, 3).T
    senders, receivers = replicas[sender], replicas[receiver]
    if setup.plan.replicas == "whole":  # one of each takes a microbatch, in turns
        step = np.lcm(senders, receivers)
        count = np.minimum(step, setup.plan.microbatches)
        of = np.repeat(np.arange(len(ways)), count)
        first = _counted(count)
        source, target, step = first % senders[of], first % receivers[of], step[of]
    else:
        count = senders * receivers
        of = np.repeat(np.arange(len(ways)), count)
        source, target = np.divmod(_counted(count), receivers[of])
        first, step = np.zeros(len(of), np.int64), np.ones(len(of), np.int64)
    slot = np.array(setup.first_slot, np.int64)
    kind = np.where(way == 0, ACTIVATION, GRADIENT)[of]
    return Streams(kind, slot[sender[of]] + source, slot[receiver[of]] + target, np.zeros_like(kind), first, step)


def add_transfers(tasks: Tasks, setup: Setup) -> None:
    """What one stage hands to the next; on one device the tensor is there already."""
    near, messages = _near_and_far(setup)
    tasks.needs += near
    if messages is not None:
        (_add_pair_transfers if setup.sharing_rule.has_links else _add_channel_transfers)(tasks, setup, messages)


def _near_and_far(setup: Setup) -> tuple[list[tuple[Ints, Ints]], Messages | None]:
    """What uses and makes tensors that stay on a device, and the messages between devices, if there are any."""
    streams, rank, needs = all_streams(setup), setup.rank_of_slot, list[tuple[Ints, Ints]]()
    if setup.fold is not None:
        streams = streams.rows(setup.fold.has_rank(rank[streams.source]))
    near = rank[streams.source] == rank[streams.target]
    if near.any():
        made, used = Messages.of(streams.rows(near), setup.plan.microbatches).ends(setup)
        needs.append((used, made))
        streams = streams.rows(~near)
    if not len(streams.kind):
        return needs, None
    return needs, Messages.of(between_gpus(setup, streams), setup.plan.microbatches)


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


def between_gpus(setup: Setup, streams: Streams) -> Streams:
    """The same with each message between two teams a row of its own."""
    if not setup.has_teams or not len(streams.kind):
        return streams
    stage_of = setup.stage_of_slot
    code = stage_of[streams.source] * len(setup.plan.stages) + stage_of[streams.target]
    known, inverse = np.unique(code, return_inverse=True)
    each = np.array([len(_messages(setup, *divmod(number, len(setup.plan.stages)))) for number in known.tolist()])
    count = each[inverse]
    return streams.rows(np.repeat(np.arange(len(count)), count))._replace(part=_counted(count))


def _add_pair_transfers(tasks: Tasks, setup: Setup, every: Messages) -> None:
    """One task per message."""
    few, streams, message = _simulated(setup, every)
    timing, of, sender = Timing.of(setup, few.streams), few.stream, few.streams.source
    rank_of = setup.rank_of_slot
    index = tasks.add(
        len(of),
        kind=few.kind,
        stage=setup.stage_of_slot[sender][of],
        microbatch=few.microbatch,
        source=setup.represented(rank_of[sender])[of],
        target=setup.represented(rank_of[few.streams.target])[of],
        duration=timing.duration[of],
        delay=timing.delay[of],
        size=timing.size[of],
        limit=timing.limit[of],
    )
    tasks.add_routes(timing.routes.take(of), setup.fold, streams)
    tasks.ends.append((index, timing.source[of], timing.target[of]))
    if setup.fold is not None:
        tasks.name_classes(MESSAGES, *_class_of(setup, few, setup.fold.streams[streams]))
    index = index[message]
    made, used = every.ends(setup)
    tasks.needs += needs_of(tasks, setup, index, made, used, every.kind)
    if gathers_messages(setup):
        _add_team_gathers(tasks, setup, every, index, used)


def _simulated(setup: Setup, every: Messages) -> tuple[Messages, Ints, Ints]:
    """The messages that get a task, the streams that they are of, and for each message which of those represents it."""
    fold, sent = setup.fold, every.streams
    if fold is None:
        return every, NOTHING, np.arange(len(every.stream))
    streams = fold.pairs.find(setup.stream_codes(sent.source, sent.target, sent.part))[every.stream]
    if fold.expanded:
        return every, streams, np.arange(len(streams))
    kept = fold.keeps(streams)
    _, number = np.unique(row_codes(*_class_of(setup, every, fold.streams[streams])), return_inverse=True)
    represented_by = np.full(int(number.max(initial=-1)) + 1, -1, np.int64)
    represented_by[number[kept]] = np.arange(int(kept.sum()))
    return every.rows(kept), streams[kept], represented_by[number]


def _class_of(setup: Setup, messages: Messages, streams: Ints) -> tuple[Ints, Ints, Ints]:
    """What messages of a class have in common: the stream, what is sent by which stage, and of which microbatch."""
    sent = messages.streams.kind * len(setup.plan.stages) + setup.stage_of_slot[messages.streams.source]
    return streams, sent[messages.stream], setup.ordinal(messages.source, messages.microbatch)


def gathers_messages(setup: Setup) -> bool:
    """Whether teams receive tensors in parts and must gather them."""
    return setup.options.scatter_sends and setup.has_teams and not setup.costs.model.sequence_parallel


def gather_edges(setup: Setup, rank: int) -> list[tuple[str, str]]:
    """The edges of the rings in which a team gathers a tensor: of all GPUs that have the same part of a sequence."""
    team, width = setup.members(rank), setup.plan.widths(setup.plan.chunks[rank][0]).tensor
    rings = [team[i : i + width] for i in range(0, len(team), width) if width > 1]
    return [edge for ring in rings for edge in zip(ring, (*ring[1:], ring[0]), strict=True)]


def ends_of_messages(setup: Setup, streams: Streams) -> list[tuple[str, str, float]]:
    """From which GPU to which each message goes, and what part of the tensor it is."""
    found = []
    for source, target, part in zip(
        streams.source.tolist(), streams.target.tolist(), streams.part.tolist(), strict=True
    ):
        (n, rank), (n2, rank2) = setup.slots[source], setup.slots[target]
        message = _messages(setup, n, n2)[part] if setup.has_teams else WHOLE
        found.append((setup.members(rank)[message.source], setup.members(rank2)[message.target], message.part))
    return found


def _add_team_gathers(tasks: Tasks, setup: Setup, every: Messages, index: Ints, used: Ints) -> None:
    """A team whose GPUs each receive a part of a tensor gathers it: a ring, t-1 messages of a part on each edge.

    Context-parallel GPUs need only their part of the sequence: each t of them that share one are a ring.
    """
    slots = len(setup.slots)
    code = ((every.microbatch * 2 + (every.kind == ACTIVATION)) * slots + every.source) * slots + every.target
    tensors, first, of_message = np.unique(code, return_index=True, return_inverse=True)
    known: dict[tuple[int, int], list[_Edge]] = {}
    edges: list[list[_Edge]] = []
    widths: list[int] = []
    for n, slot in zip(every.source[first].tolist(), every.target[first].tolist(), strict=True):
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
        streams = setup.fold.gathers.find(setup.stream_codes(every.source[rows], every.target[rows], number))
        kept = np.flatnonzero(setup.fold.keeps(streams))
        streams, tensor, messages = streams[kept], tensor[kept], [messages[n] for n in kept.tolist()]
    rows, stage_of, rank_of = first[tensor], setup.stage_of_slot, setup.rank_of_slot
    gathered = tasks.add(
        len(rows),
        kind=every.kind[rows],
        stage=stage_of[every.source[rows]],
        microbatch=every.microbatch[rows],
        source=setup.represented(rank_of[every.target[rows]]),
        target=setup.represented(rank_of[every.target[rows]]),
        duration=np.array([edge.duration for edge in messages]),
        delay=np.array([edge.delay for edge in messages]),
        size=np.array([edge.size for edge in messages]),
        limit=np.array([edge.limit for edge in messages]),
    )
    tasks.add_routes(Ragged.of([edge.media for edge in messages]), setup.fold, streams)
    if setup.fold is None:
        _record_gathers(tasks, gathered, edges, np.array(widths)[tensor])
    else:
        tasks.name_classes(GATHERS, *_class_of(setup, every.rows(rows), setup.fold.streams[streams]))
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


def _add_channel_transfers(tasks: Tasks, setup: Setup, every: Messages) -> None:
    """One half-duplex machine per stage boundary: a microbatch's messages pass as one block, at the slowest's pace."""
    stage_of, rank_of = setup.stage_of_slot, setup.rank_of_slot
    source, target, kind = every.source, every.target, every.kind
    boundary = np.minimum(stage_of[source], stage_of[target])
    code = (every.microbatch * 2 + (kind == ACTIVATION)) * len(setup.plan.stages) + boundary
    _, first, block = np.unique(code, return_index=True, return_inverse=True)
    timing = Timing.of(setup, every.streams)
    duration, delay, size = np.zeros(len(first), np.int64), np.zeros(len(first), np.int64), np.zeros(len(first))
    np.maximum.at(duration, block, timing.duration[every.stream])
    np.maximum.at(delay, block, timing.delay[every.stream])
    np.add.at(size, block, timing.size[every.stream])
    index = tasks.add(
        len(first),
        kind=kind[first],
        stage=stage_of[source[first]],
        microbatch=every.microbatch[first],
        source=rank_of[source[first]],
        target=rank_of[target[first]],
        duration=duration,
        delay=delay,
        size=size,
    )
    used_boundaries, channel = np.unique(boundary[first], return_inverse=True)
    for n, number in zip(used_boundaries.tolist(), range(len(used_boundaries)), strict=True):
        most, moving = size[channel == number].max(), (duration - delay)[channel == number].max()
        tasks.channels.append((f"stage{n}<->stage{n + 1}", float(most / max(moving, 1)) if most else 1.0))
    tasks.routes.append(Ragged.of_lengths(np.ones(len(first), np.int64), channel.astype(np.int64)))
    made, used = every.ends(setup)
    tasks.needs += needs_of(tasks, setup, index[block], made, used, kind)


class Timing(NamedTuple):
    """What a message of each stream costs alone on its route."""

    duration: Ints
    delay: Ints
    size: Floats
    limit: Floats
    routes: Ragged
    source: Ints  # GPUs, by their index in the cluster
    target: Ints

    @classmethod
    def of(cls, setup: Setup, streams: Streams) -> "Timing":
        """Of streams between GPUs."""
        source, target, size = _ends_and_bytes(setup, streams)
        found = alone_each(setup.cluster, source, target, size, 1)
        software = units.ns_of(setup.options.message_time)
        duration, delay = found.duration + software, found.delay + software
        return cls(duration, delay, found.size, found.limit, found.routes, source, target)


def _ends_and_bytes(setup: Setup, streams: Streams) -> tuple[Ints, Ints, Floats]:
    """From which GPU to which messages go, and how many bytes they are."""
    stages, stage_of = len(setup.plan.stages), setup.stage_of_slot
    code, cut = np.unique(stage_of[streams.source] * stages + stage_of[streams.target], return_inverse=True)
    cuts = [divmod(number, stages) for number in code.tolist()]
    size = np.array([_cut_bytes(setup, *ends) for ends in cuts])[cut]
    gpu, first = setup.gpus_of_ranks
    source, target = (first[setup.rank_of_slot[slot]] for slot in (streams.source, streams.target))
    if not setup.has_teams:
        return gpu[source], gpu[target], size
    messages = [_messages(setup, *ends) for ends in cuts]
    most = max(map(len, messages))
    table = np.array([[*each, *[WHOLE] * (most - len(each))] for each in messages])[cut, streams.part]
    source, target = source + table[:, 0].astype(np.int64), target + table[:, 1].astype(np.int64)
    return gpu[source], gpu[target], size * table[:, 2]


def _cut_bytes(setup: Setup, stage: int, other: int) -> float:
    """Bytes from one replica of a stage to one of the next: 1/(k k') of the cut when microbatches are split."""
    cut = setup.plan.stages[min(stage, other)].stop - 1
    crossing = setup.costs.model.cut_bytes if stage < other else setup.costs.model.gradient_bytes
    return float(crossing[cut]) * setup.plan.share(stage) * setup.plan.share(other)
