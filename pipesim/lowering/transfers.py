"""The pass that adds transfers: activations and gradients at each cut, between all replicas that share a microbatch."""

import functools
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipesim.base.arrays import Floats, Ints, Ragged
from pipesim.core.program import ACTIVATION, GRADIENT
from pipesim.lowering.messages import Alone, alone
from pipesim.lowering.setup import Setup
from pipesim.lowering.tasks import Tasks


class Pairs(NamedTuple):
    """Who hands what to whom: per message its kind, the sender's and the receiver's slot, the microbatch."""

    kind: Ints
    source: Ints
    target: Ints
    microbatch: Ints

    def rows(self, chosen: Ints | NDArray[np.bool_]) -> "Pairs":
        """Only these messages, in this order."""
        return Pairs(*(column[chosen] for column in self))

    def ends(self, setup: Setup) -> tuple[Ints, Ints]:
        """The actions that make and that use each message."""
        side = (self.kind == GRADIENT).astype(np.int64)
        made, used = (setup.action_at(side, slot, self.microbatch) for slot in (self.source, self.target))
        return setup.cell_end[made], setup.cell_start[used]


def add_transfers(tasks: Tasks, setup: Setup) -> None:
    """What one stage hands to the next; on one device the tensor is there already."""
    cuts = range(len(setup.plan.stages) - 1)
    blocks = [block for n in cuts for block in (_pairs(setup, n, n + 1, ACTIVATION), _pairs(setup, n + 1, n, GRADIENT))]
    if not blocks:
        return
    pairs = Pairs(*(np.concatenate(columns) for columns in zip(*blocks, strict=True)))
    rank = np.array([rank for _, rank in setup.slots])
    near = rank[pairs.source] == rank[pairs.target]
    made, used = pairs.rows(near).ends(setup)
    tasks.needs.append((used, made))
    add = _add_pair_transfers if setup.sharing_rule.has_links else _add_channel_transfers
    if not near.all():
        add(tasks, setup, pairs.rows(~near))


def _pairs(setup: Setup, sender: int, receiver: int, kind: int) -> Pairs:
    """All replica pairs for every microbatch (split), or the one pair of each microbatch (whole)."""
    plan, m = setup.plan, np.arange(setup.plan.microbatches)
    k, k2 = plan.replication[sender], plan.replication[receiver]
    if plan.replicas == "whole":
        source, target, microbatch = m % k, m % k2, m
    else:
        grid = np.meshgrid(np.arange(k), np.arange(k2), m, indexing="ij")
        source, target, microbatch = (axis.ravel() for axis in grid)
    kinds = np.full(len(microbatch), kind)
    return Pairs(kinds, source + setup.first_slot[sender], target + setup.first_slot[receiver], microbatch)


def _add_pair_transfers(tasks: Tasks, setup: Setup, pairs: Pairs) -> None:
    """One task per message; sorted by microbatch, gradients first: the order in which ties are settled."""
    pairs = pairs.rows(np.lexsort((pairs.target, pairs.source, pairs.kind == ACTIVATION, pairs.microbatch)))
    stage_of, rank_of = np.array(setup.slots).T
    timing = Timing.of(setup, pairs.source, pairs.target)
    index = tasks.add(
        len(pairs.kind),
        kind=pairs.kind,
        stage=stage_of[pairs.source],
        microbatch=pairs.microbatch,
        source=rank_of[pairs.source],
        target=rank_of[pairs.target],
        duration=timing.duration,
        delay=timing.delay,
        size=timing.size,
        limit=timing.limit,
    )
    tasks.routes.append(timing.routes)
    made, used = pairs.ends(setup)
    _connect(tasks, setup, index, made, used)


def _add_channel_transfers(tasks: Tasks, setup: Setup, pairs: Pairs) -> None:
    """One half-duplex machine per stage boundary: a microbatch's messages pass as one block, at the slowest's pace."""
    stage_of, rank_of = np.array(setup.slots).T
    boundary = np.minimum(stage_of[pairs.source], stage_of[pairs.target])
    code = (pairs.microbatch * 2 + (pairs.kind == ACTIVATION)) * len(setup.plan.stages) + boundary
    _, first, block = np.unique(code, return_index=True, return_inverse=True)
    timing = Timing.of(setup, pairs.source, pairs.target)
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
    _connect(tasks, setup, index[block], made, used)


class Timing(NamedTuple):
    """What transfers cost alone on their routes."""

    duration: Ints
    delay: Ints
    size: Floats
    limit: Floats
    routes: Ragged

    @classmethod
    def of(cls, setup: Setup, source: Ints, target: Ints) -> "Timing":
        """Each different (source slot, target slot) is looked up once."""
        unique, inverse = np.unique(source * len(setup.slots) + target, return_inverse=True)
        towards = np.argsort(unique % len(setup.slots), kind="stable")  # routes to one target are found together
        pair_bytes = functools.cache(functools.partial(_pair_bytes, setup))
        by_code: dict[int, Alone] = {}
        for code in unique[towards].tolist():
            (n, rank), (n2, rank2) = (setup.slots[slot] for slot in divmod(code, len(setup.slots)))
            ends = setup.plan.devices[rank], setup.plan.devices[rank2]
            by_code[code] = alone(setup.cluster, *ends, pair_bytes(n, n2), 1)
        found = [by_code[code] for code in unique.tolist()]
        duration, delay, size, limit = (np.array([row[i] for row in found])[inverse] for i in range(4))
        return cls(duration, delay, size, limit, Ragged.of([row.media for row in found]).take(inverse))


def _pair_bytes(setup: Setup, stage: int, other: int) -> float:
    """Bytes from one replica of a stage to one of the next: 1/(k k') of the cut when microbatches are split."""
    cut = setup.plan.stages[min(stage, other)].stop - 1
    return float(setup.costs.model.cut_bytes[cut]) * setup.plan.share(stage) * setup.plan.share(other)


def _connect(tasks: Tasks, setup: Setup, transfer: Ints, producer: Ints, consumer: Ints) -> None:
    """A transfer waits for its producer, its consumer waits for it; what else depends on how messages are posted.

    rendezvous   the receive is posted when the receiver has done all that comes before the consumer
    blocking     as rendezvous, and the sender goes on only when the message has gone; sends and receives that meet
                 between two computations are posted together, as batched sends and receives are
    """
    tasks.needs += [(transfer, producer), (consumer, transfer)]
    if setup.options.transfers == "eager":
        return
    starts = setup.schedule.starts
    has_before = ~np.isin(consumer, starts[:-1])
    tasks.needs.append((transfer[has_before], consumer[has_before] - 1))
    if setup.options.transfers == "blocking":
        after, has_after = _next_on_lane(tasks, setup, producer)
        tasks.needs.append((after[has_after], transfer[has_after]))


def _next_on_lane(tasks: Tasks, setup: Setup, action: Ints) -> tuple[Ints, NDArray[np.bool_]]:
    """What a rank does after an action, the optimizer's step included, and whether it does anything."""
    ends = setup.schedule.starts[1:]
    step = np.full(len(ends), -1, np.int64)  # the first optimizer step of each rank: of the slot whose task comes first
    for slot, task in sorted(tasks.optimizer_of.items(), key=lambda item: -item[1]):
        step[setup.slots[slot][1]] = task
    after = np.where(np.isin(action + 1, ends), step[setup.schedule.rank[action]], action + 1)
    return after, after >= 0
