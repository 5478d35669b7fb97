"""The measurements of one file: nanoseconds of each layer by sample and phase, bytes, and work that is not of layers.

ns          [phase, layer, sample], phases forward, backward and recompute: the union of the work, not its sum
share       the part of layers in the work of the iterations, without communication, the optimizer, and data movement
            before and after the model
"""

import re
from collections import Counter
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pipesim.base.arrays import Bools, Ints
from pipesim.base.checks import check_at_least
from pipesim.base.errors import InputError, PipesimError
from pipesim.base.intervals import covered, covered_by_label
from pipesim.importers.kineto.data_operators import is_data_movement, repeated_ranges
from pipesim.importers.kineto.events import OP, Events
from pipesim.importers.kineto.layer_ranges import (
    AUTO,
    ITERATION,
    OPERATORS,
    WAYS,
    Calls,
    backward_nodes,
    calls,
    iterations,
    kind_of,
)
from pipesim.importers.kineto.layer_sizes import LayerSizes, layer_sizes
from pipesim.importers.kineto.nesting import inside
from pipesim.importers.kineto.numbering import NumberedCalls, number_calls
from pipesim.importers.kineto.work_pieces import ASIDE, OPTIMIZER, PHASES, WorkPieces, all_work, caused_work, labels


@dataclass(frozen=True, slots=True)
class LayerOptions:
    """The options for finding layers; `kineto` describes them."""

    layers: str = AUTO
    depth: int | None = None
    iteration: str = ITERATION
    microbatches: int | None = None
    moves: bool = False

    def __post_init__(self) -> None:
        if self.depth is not None:
            check_at_least("depth", self.depth, 0)


@dataclass(frozen=True, slots=True, eq=False)
class LayerMeasurements:
    """The measurements of the layers of one file."""

    events: Events
    names: tuple[str, ...]
    ns: Ints  # [phase, layer, sample]
    sizes: LayerSizes
    how: str
    samples: int
    microbatches: int
    left_out: int  # iterations that call other layers than most do
    all_ns: int  # work of layers and work without an owner
    layers_ns: int
    optimizer_ns: int
    on_gpu: bool
    aside_ns: int  # work of operators that only move or create data before and after the model
    aside: tuple[str, ...]  # their names
    outside_ns: int  # work outside of all iterations


def measure_layers(events: Events, choice: LayerOptions) -> LayerMeasurements:
    """Find the layers and their work, in the chosen way or in the first way that finds at least two."""
    if choice.layers != AUTO:
        return _measure_as(events, choice, choice.layers)
    refusals: list[PipesimError] = []
    for how in WAYS[1:]:
        try:
            found = _measure_as(events, choice, how)
        except PipesimError as error:
            refusals.append(error)
            continue
        if len(found.names) > 1 or how == WAYS[-1]:
            return found
    raise refusals[0]


def _measure_as(events: Events, choice: LayerOptions, how: str) -> LayerMeasurements:
    nodes = backward_nodes(events)
    lasting = caused_work(events)
    found = calls(events, how, choice.depth, lasting, nodes)
    steps = _iterations(events, choice, how, found)
    aside = found.chosen(np.zeros(len(found.row), bool))
    if how == OPERATORS and not choice.moves:
        found, aside = _without_data_movement(events, found, steps)
    again, unused = _recomputing_calls(events, found, nodes)
    number = number_calls(found.chosen(~unused), again[~unused], steps, choice.microbatches)
    owner = labels(events, number, nodes, steps[0], aside.row)
    every = all_work(events, owner)
    work = every.chosen(_inside(every, (steps[0][number.iterations], steps[1][number.iterations])))
    outside = every.chosen(~_inside(every, steps))
    label = owner.at(work.thread, work.caused)
    result = LayerMeasurements(
        events=events,
        names=number.names,
        ns=_ns(work, label, number),
        sizes=layer_sizes(events, number, owner, on_gpu=work.on_gpu),
        how=how,
        samples=number.samples,
        microbatches=number.microbatches,
        left_out=number.left_out,
        all_ns=_busy(work, (label != OPTIMIZER) & (label != ASIDE)),
        layers_ns=_busy(work, label >= 0),
        optimizer_ns=_busy(work, label == OPTIMIZER),
        on_gpu=work.on_gpu,
        aside_ns=_busy(work, label == ASIDE),
        aside=_names_by_work(aside, lasting),
        outside_ns=covered(outside.start, outside.end),
    )
    return result if how not in WAYS else _without_idle(result)


def _iterations(events: Events, choice: LayerOptions, how: str, found: Calls) -> tuple[Ints, Ints]:
    """When iterations begin and end: by the names of ranges or by the calls in them, else the whole file."""
    steps = iterations(events, choice.iteration)
    named = any(re.search(ITERATION, name) for name in events.names)
    if named or how != OPERATORS or choice.iteration != ITERATION:
        return steps
    return repeated_ranges(events, found) or steps


def _without_data_movement(events: Events, found: Calls, steps: tuple[Ints, Ints]) -> tuple[Calls, Calls]:
    """The calls of layers, and those that only move or create data before and after them."""
    aside = is_data_movement(events, found, steps)
    return found.chosen(~aside), found.chosen(aside)


def _names_by_work(aside: Calls, lasting: NDArray[np.float64]) -> tuple[str, ...]:
    """The names of these calls that do any work, by decreasing work."""
    total: Counter[str] = Counter()
    for name, time in zip(aside.names, lasting[aside.row].tolist(), strict=True):
        total[kind_of(name)] += time
    return tuple(name for name, time in total.most_common() if time)


def _busy(work: WorkPieces, which: Bools) -> int:
    """Nanoseconds during which at least one of these pieces of work ran."""
    return covered(work.start[which], work.end[which])


def _recomputing_calls(events: Events, found: Calls, nodes: Ints) -> tuple[Bools, Bools]:
    """Of the calls inside a node of autograd: which recompute a forward, and which are only part of a backward.

    Operators of a recomputed forward have sequence numbers, as those of every forward; other operators inside a node
    have none. It does not matter whether nodes with these numbers run: those of a reentrant checkpoint do, of others
    not.
    """
    thread, around = events.thread[found.row], (events.thread[nodes], events.start[nodes], events.end[nodes])
    in_node = inside(thread, found.start, around) >= 0
    rows = np.setdiff1d(np.flatnonzero((events.category == OP) & (events.sequence >= 0)), nodes)
    call = inside(events.thread[rows], events.start[rows], (thread, found.start, found.end))
    numbered_ = np.isin(np.arange(len(thread)), call)
    return in_node & numbered_, in_node & ~numbered_


def _inside(work: WorkPieces, steps: tuple[Ints, Ints]) -> Bools:
    """The pieces of work that were caused in one of these iterations."""
    number = np.searchsorted(steps[0], work.caused, side="right") - 1
    found: Bools = (number >= 0) & (work.caused < steps[1][np.maximum(number, 0)])
    return found


def _ns(work: WorkPieces, label: Ints, number: NumberedCalls) -> Ints:
    """[phase, layer, sample] -> nanoseconds during which at least one piece of its work ran, on any stream."""
    layers = len(number.names)
    mine = label >= 0
    call, phase = np.divmod(label[mine], PHASES)
    cell = (phase * layers + number.layer[call]) * number.samples + number.sample[call]
    total = covered_by_label(cell, work.start[mine], work.end[mine], PHASES * layers * number.samples)
    return total.reshape(PHASES, layers, number.samples)


def _without_idle(found: LayerMeasurements) -> LayerMeasurements:
    """Without layers that never work: views, bookkeeping, ranges around something else."""
    working = np.flatnonzero(found.ns.any(axis=(0, 2)))
    if not len(working):
        raise InputError(
            f"none of the {found.how} that could be layers does any work; define layers with the option layers"
        )
    size = found.sizes
    output_bytes = [size.output[a:b].tolist() for a, b in zip(working, [*working[1:], len(found.names)], strict=True)]
    output = np.array([next((value for value in reversed(values) if value), 0) for values in output_bytes], np.int64)
    stash = np.add.reduceat(size.stash, working) if len(found.events.memory.time) else output
    names = tuple(found.names[i] for i in working.tolist())
    return replace(
        found, names=names, ns=found.ns[:, working], sizes=LayerSizes(output, stash, size.parameters[working])
    )
