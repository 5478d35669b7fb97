"""What a transfer and its ends wait for, as frameworks post sends and receives.

eager        a transfer starts when its tensor is there; its consumer waits for it
posted       the receive is posted ahead: when the receiver has done what it does before the sender's send, in a dry
             run in which each action takes a turn (PyTorch, with several stages on each rank)
rendezvous   the receive is posted when the receiver has done all that comes before the consumer
blocking     as rendezvous, and the sender goes on only when the message has gone; sends and receives that meet
             between two computations are posted together, as batched sends and receives are (Megatron-LM, PyTorch)
paired       as blocking, in one exchange for a forward and the backward that follows it: what both make is sent after
             the second, what both need is received before the first (Megatron-LM's interleaved schedule before it
             overlapped its sends)
sequential   as blocking, one message after the other on each device: those that are made in an earlier step first,
             of one step gradients before activations, and of each sends before receives (DeepSpeed)
"""

import numpy as np
from numpy.typing import NDArray

from pipesim.base.arrays import Ints, Ragged
from pipesim.core.program import GRADIENT
from pipesim.core.schedule import BACKWARD, FORWARD, INPUT, Schedule
from pipesim.lowering.setup import Setup
from pipesim.lowering.tasks import Tasks

Needs = list[tuple[Ints, Ints]]  # what waits, and for what


def needs_of(  # noqa: PLR0917 - columns of messages
    tasks: Tasks, setup: Setup, transfer: Ints, producer: Ints, consumer: Ints, kind: Ints
) -> Needs:
    """What transfers wait for, and what waits for them; a row is a message, of which a transfer may be several."""
    if setup.options.transfers == "paired":
        first, last = _pairs_on_lanes(setup.schedule)
        producer, consumer = last[producer], first[consumer]
    found: Needs = [(transfer, producer), (consumer, transfer)]
    if setup.options.transfers == "eager":
        return found
    if setup.options.transfers == "posted":
        after = _posted_after(setup.schedule, producer, consumer)
        return [*found, (transfer[after >= 0], after[after >= 0])]
    starts = setup.schedule.starts
    has_before = ~np.isin(consumer, starts[:-1])
    found.append((transfer[has_before], consumer[has_before] - 1))
    if setup.options.transfers == "rendezvous":
        return found
    after, has_after = _next_on_lane(tasks, setup, producer)
    found.append((after[has_after], transfer[has_after]))
    if setup.options.transfers == "sequential":
        found += _one_after_the_other(setup, transfer, producer, consumer, kind)
    return found


def _posted_after(schedule: Schedule, producer: Ints, consumer: Ints) -> Ints:
    """For each message the action after which its receive is posted, -1 for none.

    As PyTorch's `_add_send_recv` places them: rank after rank does its next action if all that this needs has been
    sent, and each send places its receive after what the receiver has done until then.
    """
    count = len(schedule)
    sent, wanted = Ragged.of_pairs(len(schedule.rank), producer, np.arange(len(producer))), [0] * len(schedule.rank)
    for action in consumer.tolist():
        wanted[action] += 1
    starts, found = schedule.starts.tolist(), np.full(len(producer), -1, np.int64)
    at, paired, receiver = starts[:count], schedule.paired.tolist(), schedule.rank[consumer].tolist()
    moved = True
    while moved:
        moved = False
        for rank in range(count):
            first = at[rank]
            if first == starts[rank + 1] or wanted[first]:
                continue
            last, moved = first + paired[first], True
            at[rank] = last + 1
            for row in sent[last].tolist():
                wanted[int(consumer[row])] -= 1
                to = receiver[row]
                if at[to] > starts[to]:
                    found[row] = at[to] - 1
    return found


def _next_on_lane(tasks: Tasks, setup: Setup, action: Ints) -> tuple[Ints, NDArray[np.bool_]]:
    """What a rank does after an action, the optimizer's step included, and whether it does anything."""
    ends = setup.schedule.starts[1:]
    step = np.full(len(ends), -1, np.int64)  # the first optimizer step of each rank: of the slot whose task comes first
    for slot, task in sorted(tasks.optimizer_of.items(), key=lambda item: -item[1]):
        step[setup.slots[slot][1]] = task
    after = np.where(np.isin(action + 1, ends), step[setup.schedule.rank[action]], action + 1)
    return after, after >= 0


def _one_after_the_other(setup: Setup, transfer: Ints, producer: Ints, consumer: Ints, kind: Ints) -> Needs:
    """Of the messages that a rank sends and receives between two computations, each waits for the one before.

    Between teams, all messages of one tensor are one. The key rises along every dependency, so that pipelines end. A
    circle of devices that all send first (chunks on each device, as interleaved pipelines have) is stuck, as it is in
    fact where sends wait for their receivers.
    """
    rank, steps = setup.schedule.rank, _steps(setup.schedule, producer, consumer)
    step = np.zeros(int(transfer.max()) + 1, np.int64)
    np.maximum.at(step, transfer, steps[producer])
    # A message is at a place of both its ends: after its producer, and before its consumer.
    ends = np.concatenate([rank[producer], rank[consumer]])
    place = np.concatenate([producer + 1, consumer])
    received = np.repeat([0, 1], len(transfer))
    # On channels, all messages of a microbatch between two stages are one transfer.
    tensor = producer * (len(rank) + 1) + consumer if setup.sharing_rule.has_links else transfer
    made, is_activation, tensors = (np.tile(column, 2) for column in (step[transfer], kind != GRADIENT, tensor))
    keys = np.stack([ends, place, made, is_activation, received, tensors], axis=1)
    order = np.lexsort(keys.T[::-1])
    keys, task = keys[order], np.tile(transfer, 2)[order]
    begins = np.ones(len(task), bool)
    begins[1:] = (keys[1:] != keys[:-1]).any(axis=1)
    first = np.flatnonzero(begins)
    length = np.diff([*first.tolist(), len(task)])
    same_gap = np.zeros(len(first), bool)
    same_gap[1:] = (keys[first[1:], :2] == keys[first[:-1], :2]).all(axis=1)
    found: Needs = []
    for n in np.flatnonzero(same_gap).tolist():
        now, before = (task[first[i] : first[i] + length[i]] for i in (n, n - 1))
        found.append((np.repeat(now, len(before)), np.tile(before, len(now))))
    return found


def _steps(schedule: Schedule, producer: Ints, consumer: Ints) -> Ints:
    """In which step each action runs if every action takes one, and messages none."""
    count = len(schedule.rank)
    used_by: list[list[int]] = [[] for _ in range(count)]
    lane_starts = set(schedule.starts[:-1].tolist())
    open_needs = np.array([int(action not in lane_starts) for action in range(count)])
    for action in range(1, count):
        if action not in lane_starts:
            used_by[action - 1].append(action)
    for made, used in dict.fromkeys(zip(producer.tolist(), consumer.tolist(), strict=True)):
        used_by[made].append(used)
        open_needs[used] += 1
    step = np.zeros(count, np.int64)
    ready = np.flatnonzero(open_needs == 0).tolist()
    while ready:
        action = ready.pop()
        for later in used_by[action]:
            step[later] = max(step[later], step[action] + 1)
            open_needs[later] -= 1
            if not open_needs[later]:
                ready.append(later)
    return step


def _pairs_on_lanes(schedule: Schedule) -> tuple[Ints, Ints]:
    """For each action the first and the last of its pair: a forward and a backward next to each other on a rank.

    Forwards at the beginning and backwards at the end have none: F F F|F B|F B|B B. Nor has what is next to each other
    only where the former end and the latter begin: F F F B B B.
    """
    forward, backward = schedule.kind == FORWARD, np.isin(schedule.kind, [BACKWARD, INPUT])
    follows = np.zeros(len(forward), bool)
    follows[1:] = backward[1:] & forward[:-1] & (schedule.rank[1:] == schedule.rank[:-1])
    follows &= (np.bincount(schedule.rank[follows], minlength=len(schedule)) > 1)[schedule.rank]
    at = np.arange(len(forward))
    first, last = at - follows, at.copy()
    last[np.flatnonzero(follows) - 1] += 1
    return first, last
