"""Bytes of each layer: its output, what it keeps for its backward, its parameters.

output        the first input of the next layer's first operator (record_shapes); else the largest block that the
              layer allocates and does not release (profile_memory)
stash         all blocks that the layer allocates and does not release (profile_memory); else its output
parameters    the gradients that AccumulateGrad accumulates in the layer's backward (record_shapes)
"""

from dataclasses import dataclass

import numpy as np

from pipesim.base.arrays import Ints
from pipesim.importers.kineto.events import NODE_PREFIX, OP, Events
from pipesim.importers.kineto.nesting import Owners
from pipesim.importers.kineto.numbering import NumberedCalls
from pipesim.importers.kineto.work_pieces import BACKWARD, PHASES


@dataclass(frozen=True, slots=True, eq=False)
class LayerSizes:
    """Bytes per layer."""

    output: Ints
    stash: Ints
    parameters: Ints


def layer_sizes(events: Events, numbered: NumberedCalls, owner: Owners, *, on_gpu: bool) -> LayerSizes:
    """The largest sizes in any sample, for each layer."""
    layer, count = numbered.layer, len(numbered.names)
    kept, largest = _outliving(events, numbered, on_gpu=on_gpu)
    read = _inputs_of_next(events, numbered)
    output_bytes = np.where(read >= 0, read, largest)
    output, stash = np.zeros(count, np.int64), np.zeros(count, np.int64)
    np.maximum.at(output, layer, output_bytes)
    np.maximum.at(stash, layer, kept)
    if not len(events.memory.time):
        stash = output.copy()
    return LayerSizes(output, stash, _parameters(events, numbered, owner))


def _outliving(events: Events, numbered: NumberedCalls, *, on_gpu: bool) -> tuple[Ints, Ints]:
    """For each call the bytes of all blocks, and of the largest, that it allocates and does not release."""
    calls, memory = numbered.calls, events.memory
    kept, largest = (np.zeros(len(calls.row), np.int64) for _ in range(2))
    rows = np.flatnonzero(memory.on_device == (on_gpu and bool(memory.on_device.any())))
    time, released = memory.time[rows], _released(memory.address[rows], memory.size[rows], memory.time[rows])
    size, thread = memory.size[rows], memory.thread[rows]
    for call in np.flatnonzero(~numbered.again).tolist():
        first, last = np.searchsorted(time, [calls.start[call], calls.end[call]])
        mine = (size[first:last] > 0) & (released[first:last] >= calls.end[call])
        mine &= thread[first:last] == events.thread[calls.row[call]]
        blocks = size[first:last][mine]
        kept[call], largest[call] = blocks.sum(), blocks.max(initial=0)
    return kept, largest


def _released(address: Ints, size: Ints, time: Ints) -> Ints:
    """When each allocated block is released; the largest int64 if never."""
    found = np.full(len(address), np.iinfo(np.int64).max)
    held: dict[int, int] = {}
    for row, (place, change, now) in enumerate(zip(address.tolist(), size.tolist(), time.tolist(), strict=True)):
        if change > 0:
            held[place] = row
        elif place in held:
            found[held.pop(place)] = now
    return found


def _inputs_of_next(events: Events, numbered: NumberedCalls) -> Ints:
    """For each call the bytes that the first operator of the next call reads, -1 where they are unknown."""
    calls, found = numbered.calls, np.full(len(numbered.calls.row), -1, np.int64)
    forward = np.flatnonzero(~numbered.again)
    same = numbered.sample[forward[1:]] == numbered.sample[forward[:-1]]
    rows = np.flatnonzero((events.category == OP) & (events.size > 0))
    thread, start = events.thread[rows], events.start[rows]
    for call, after in zip(forward[:-1][same].tolist(), forward[1:][same].tolist(), strict=True):
        lane = events.thread[calls.row[after]]
        first, last = np.searchsorted(thread, [lane, lane + 1])
        at = first + np.searchsorted(start[first:last], calls.start[after])
        if at < last and start[at] < calls.end[after]:
            found[call] = events.size[rows[at]]
    return found


def _parameters(events: Events, numbered: NumberedCalls, owner: Owners) -> Ints:
    """The bytes of gradients that a backward of each layer accumulates, the most of all samples."""
    layers = len(numbered.names)
    chosen = [not name.startswith(NODE_PREFIX) and name.endswith("AccumulateGrad") for name in events.names]
    rows = np.flatnonzero((events.category == OP) & np.array(chosen, bool)[events.name] & (events.size > 0))
    label = owner.at(events.thread[rows], events.start[rows])
    mine = (label >= 0) & (label % PHASES == BACKWARD)
    call = label[mine] // PHASES
    total = np.zeros((layers, numbered.samples), np.int64)
    np.add.at(total, (numbered.layer[call], numbered.sample[call]), events.size[rows][mine])
    return np.asarray(total.max(axis=1, initial=0), np.int64)
