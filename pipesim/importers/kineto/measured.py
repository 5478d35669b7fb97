"""From the events of one file to what its layers take: nanoseconds of every sample and phase, bytes, and what is left.

seconds     [phase, layer, sample], phases forward, backward and recompute: the union of the work, not its sum
share       the work of layers among all work of the iterations that is neither communication nor the optimizer's
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipesim.errors import InputError, PipesimError
from pipesim.importers.kineto.events import OP, Events
from pipesim.importers.kineto.layers import AUTO, ITERATION, WAYS, Calls, backward_nodes, calls, iterations
from pipesim.importers.kineto.marks import covered, covered_by_label, inside
from pipesim.importers.kineto.numbering import Numbered, numbered
from pipesim.importers.kineto.sizes import Sizes, sizes
from pipesim.importers.kineto.work import OPTIMIZER, PHASES, Work, all_work, labels, weights

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Choice:
    """What a user says of how to find layers."""

    layers: str = AUTO
    depth: int | None = None
    iteration: str = ITERATION
    microbatches: int | None = None

    def __post_init__(self) -> None:
        if self.depth is not None and self.depth < 0:
            raise InputError(f"depth = {self.depth} found; 0 or more was expected")


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """What the layers of one file take."""

    events: Events
    names: tuple[str, ...]
    ns: Ints  # [phase, layer, sample]
    sizes: Sizes
    how: str
    samples: int
    microbatches: int
    left_out: int  # iterations that call other layers than most do
    all_ns: int  # work of layers and of nobody
    layers_ns: int
    optimizer_ns: int
    on_gpu: bool

    @property
    def share(self) -> float:
        """The part of the work that belongs to layers."""
        return self.layers_ns / self.all_ns if self.all_ns else 0.0


def measured(events: Events, choice: Choice) -> Measured:
    """Find the layers and their work, the way that was chosen or the first way that finds at least two."""
    if choice.layers != AUTO:
        return _measured(events, choice, choice.layers)
    refusals: list[PipesimError] = []
    for how in WAYS[1:]:
        try:
            found = _measured(events, choice, how)
        except PipesimError as error:
            refusals.append(error)
            continue
        if len(found.names) > 1 or how == WAYS[-1]:
            return found
    raise refusals[0]


def _measured(events: Events, choice: Choice, how: str) -> Measured:
    nodes = backward_nodes(events)
    steps = iterations(events, choice.iteration)
    found = calls(events, how, choice.depth, weights(events), nodes)
    again, unused = _recomputed(events, found, nodes)
    number = numbered(found.chosen(~unused), again[~unused], steps, choice.microbatches)
    owner = labels(events, number, nodes, steps[0])
    work = _inside(all_work(events, owner), (steps[0][number.iterations], steps[1][number.iterations]))
    label = owner.at(work.thread, work.caused)
    ns = _ns(work, label, number)
    result = Measured(
        events=events,
        names=number.names,
        ns=ns,
        sizes=sizes(events, number, owner, on_gpu=work.on_gpu),
        how=how,
        samples=number.samples,
        microbatches=number.microbatches,
        left_out=number.left_out,
        all_ns=covered(work.start[label != OPTIMIZER], work.end[label != OPTIMIZER]),
        layers_ns=covered(work.start[label >= 0], work.end[label >= 0]),
        optimizer_ns=covered(work.start[label == OPTIMIZER], work.end[label == OPTIMIZER]),
        on_gpu=work.on_gpu,
    )
    return result if how not in WAYS else _without_idle(result)


def _recomputed(events: Events, found: Calls, nodes: Ints) -> tuple[Mask, Mask]:
    """Of the calls inside of a node of autograd: which run a forward again, and which are only part of a backward.

    A forward that runs again has operators that make nodes, whose numbers come up later.
    """
    thread, around = events.thread[found.row], (events.thread[nodes], events.start[nodes], events.end[nodes])
    in_node = inside(thread, found.start, around) >= 0
    made = events.sequence[nodes]
    rows = np.flatnonzero((events.category == OP) & (events.sequence >= 0) & np.isin(events.sequence, made))
    rows = np.setdiff1d(rows, nodes)
    call = inside(events.thread[rows], events.start[rows], (thread, found.start, found.end))
    makes = np.isin(np.arange(len(thread)), call)
    return in_node & makes, in_node & ~makes


def _inside(work: Work, steps: tuple[Ints, Ints]) -> Work:
    """What was caused in one of these iterations."""
    number = np.searchsorted(steps[0], work.caused, side="right") - 1
    return work.chosen((number >= 0) & (work.caused < steps[1][np.maximum(number, 0)]))


def _ns(work: Work, label: Ints, number: Numbered) -> Ints:
    """[phase, layer, sample] -> nanoseconds during which at least one piece of its work ran, on whatever stream."""
    layers = len(number.names)
    mine = label >= 0
    call, phase = np.divmod(label[mine], PHASES)
    cell = (phase * layers + number.layer[call]) * number.samples + number.sample[call]
    total = covered_by_label(cell, work.start[mine], work.end[mine], PHASES * layers * number.samples)
    return total.reshape(PHASES, layers, number.samples)


def _without_idle(found: Measured) -> Measured:
    """Leave out what never works: views, bookkeeping, ranges around something else."""
    working = np.flatnonzero(found.ns.any(axis=(0, 2)))
    if not len(working):
        raise InputError(
            f"{found.events.path}: none of the {found.how} that look like layers does any work; see the option layers"
        )
    size = found.sizes
    handed = [size.output[a:b].tolist() for a, b in zip(working, [*working[1:], len(found.names)], strict=True)]
    output = np.array([next((value for value in reversed(values) if value), 0) for values in handed], np.int64)
    stash = np.add.reduceat(size.stash, working) if len(found.events.memory.time) else output
    return Measured(
        found.events,
        tuple(found.names[i] for i in working.tolist()),
        found.ns[:, working],
        Sizes(output, stash, size.parameters[working]),
        found.how,
        found.samples,
        found.microbatches,
        found.left_out,
        found.all_ns,
        found.layers_ns,
        found.optimizer_ns,
        found.on_gpu,
    )
