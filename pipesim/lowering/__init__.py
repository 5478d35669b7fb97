"""From a plan and a schedule to a Program, in passes: each adds one kind of task, none changes earlier ones.

    slots        one replica of one stage: (stage 0, replica 0), (stage 0, replica 1), (stage 1, replica 0), ...
    compute      one task per action of the schedule, rank after rank
    optimizer    one task per slot, after its gradients are complete
    transfers    activations and gradients at each cut, from every replica that has a part to every one that needs it
    exchanges    of gradients and parameters between replicas: one task per edge of a ring

With a fold (`folding`), only ranks and messages that represent others get tasks; `expanded` has the times of all.

A task's index settles ties: compute first, then transfers by microbatch, gradients before activations.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from pipesim.base import units
from pipesim.base.arrays import Ints, Ragged
from pipesim.base.errors import PipesimError, RefusedError
from pipesim.core import legality
from pipesim.core import plan as plans
from pipesim.core import program as programs
from pipesim.core.cluster import Device
from pipesim.core.devices import device_kind
from pipesim.core.program import Folded, Program
from pipesim.core.rates import Rates
from pipesim.core.scenario import STEADY, Speeds
from pipesim.core.sharing import SHARING_RULES
from pipesim.core.teams import label
from pipesim.core.timeline import Timeline
from pipesim.lowering.compute import add_compute, add_optimizer, add_own_needs
from pipesim.lowering.draws import DRAWS, Draw, redraw
from pipesim.lowering.folding import fold_of, folded
from pipesim.lowering.memory import state_factor, static_memory
from pipesim.lowering.reductions import add_exchanges
from pipesim.lowering.setup import DEFAULTS, Fold, Options, Setup
from pipesim.lowering.tasks import GATHERS, MESSAGES, PAUSES, RANK_TASKS, RINGS, STEPS, RingTasks, Tasks
from pipesim.lowering.transfers import add_transfers

__all__ = [
    "DEFAULTS", "DRAWS", "Draw", "Ends", "Fold", "Options", "Setup", "expanded", "fold_of", "lower", "lower_folded",
    "lower_with_ends", "redraw", "state_factor",
]  # fmt: skip


class Ends(NamedTuple):
    """Between which GPUs, by their index in the cluster, the messages of a program are, and which are collectives."""

    source: Ints  # per task; -1 for what is no message
    target: Ints
    rings: tuple[RingTasks, ...]
    norm: int | None  # the task with which all GPUs sum the norm of the gradients


def lower(setup: Setup) -> Program:
    """All tasks of one iteration with their seconds, bytes, dependencies and memory.

    >>> program = ps.lower(ps.make_setup("bert-large", 'flat(2, bandwidth="1GB/s")', microbatches=2))
    >>> len(program), program.label(0)
    (12, '0F0 on gpu0')
    """
    return _assemble(_tasks(setup), setup)


def lower_with_ends(setup: Setup) -> tuple[Program, Ends]:
    """The same, and between which GPUs its messages are."""
    tasks = _tasks(setup)
    return _assemble(tasks, setup), _ends(tasks)


def lower_folded(setup: Setup, fold: Fold) -> Program:
    """The tasks of ranks and streams that represent others; `expanded` has the times of all."""
    _check(setup)
    few = folded(setup, fold)
    return _assemble(_passes(few), few)


def expanded(setup: Setup, fold: Fold, timeline: Timeline) -> Timeline:
    """The timeline of all tasks from that of a folded program."""
    every = replace(setup, fold=replace(fold, expanded=True))
    tasks = _passes(every)
    program = _assemble(tasks, every)
    names, known = (np.concatenate(x.classes) for x in (tasks, _passes(folded(setup, fold))))
    sizes = np.maximum(names.max(axis=0, initial=0), known.max(axis=0, initial=0)) + 1
    code, known_code = (np.ravel_multi_index(tuple(x.T), tuple(sizes.tolist())) for x in (names, known))
    order = np.argsort(known_code)
    represented_by = order[np.searchsorted(known_code, code, sorter=order)]
    rates = timeline.rates
    if rates is not None:
        copies = Ragged.of_pairs(len(known), represented_by, np.arange(len(names))).take(rates.task)
        row = copies.row_of_value()
        place = np.lexsort((copies.values, rates.time[row]))
        rates = Rates(copies.values[place], rates.time[row][place], rates.rate[row][place])
    return Timeline(program, timeline.start[represented_by], timeline.end[represented_by], timeline.engine, rates)


def _tasks(setup: Setup) -> Tasks:
    """The tasks of all passes."""
    _check(setup)
    return _passes(setup)


def _check(setup: Setup) -> None:
    plans.check_fits(setup.plan, setup.costs.model, setup.cluster)
    legality.check(setup.schedule, setup.plan)
    setup.scenario.check_devices(setup.cluster)


def _passes(setup: Setup) -> Tasks:
    tasks = Tasks()
    add_compute(tasks, setup)
    add_own_needs(tasks, setup)
    add_optimizer(tasks, setup)
    add_transfers(tasks, setup)
    add_exchanges(tasks, setup)
    return tasks


def _ends(tasks: Tasks) -> Ends:
    source, target = np.full((2, tasks.count), -1, np.int64)
    for index, *both in tasks.ends:
        source[index], target[index] = both
    return Ends(source, target, tuple(tasks.rings), tasks.norm)


def _assemble(tasks: Tasks, setup: Setup) -> Program:
    """The columns of all passes, one after the other, with what lanes and media they run on."""
    needs = _needs(tasks)
    columns: dict[str, Any] = tasks.finished()
    compute = np.flatnonzero(columns["lane"] >= 0)
    on_channels = not setup.sharing_rule.has_links
    media = tuple(name for name, _ in tasks.channels) if on_channels else setup.cluster.media
    per_second = np.array(setup.cluster.media_peak, np.float64)
    capacity = np.array([rate for _, rate in tasks.channels]) if on_channels else per_second / units.NS_PER_S
    devices = [setup.cluster.device(name) for name in setup.plan.devices]
    model = setup.costs.model
    program = Program(
        sharing=setup.options.sharing,
        transfers=setup.options.transfers,
        devices=tuple(label(setup.plan.team(device)) for device in setup.plan.devices),
        media=media,
        capacity=capacity,
        **columns,
        order=Ragged.of_pairs(len(devices), columns["lane"][compute], compute),
        needs=needs,
        route=_routes(len(compute), tasks.routes),
        static_memory=static_memory(setup),
        memory=np.array([device.memory for device in devices], np.int64),
        microbatches=setup.plan.microbatches,
        samples=setup.plan.microbatches * model.microbatch_size,
        flops=_flops(setup),
        peak_flops=_peak_flops(setup),
        lane_speeds=_changing(dict(enumerate(map(setup.scenario.of_team, map(setup.plan.team, setup.plan.devices))))),
        media_speeds=_media_speeds(setup),
        buckets=programs.buckets_of(setup.cluster, setup.sharing_rule),
        folded=_folded_of(tasks, setup.fold),
    )
    programs.check(program)
    return program


def _folded_of(tasks: Tasks, fold: Fold | None) -> Folded | None:
    if fold is None or fold.expanded:
        return None
    sort, first, *_ = np.concatenate(tasks.classes).T
    of_rank = np.bincount(fold.ranks, minlength=len(fold.ranks))
    of_stream = np.bincount(fold.streams, minlength=1)
    rank = np.select(
        [sort == RANK_TASKS, sort == STEPS], [first, fold.rank_of_slot[np.where(sort == STEPS, first, 0)]], 0
    )
    stream = np.where(np.isin(sort, (MESSAGES, GATHERS, RINGS)), first, 0)
    copies = np.select([sort <= STEPS, sort == PAUSES], [of_rank[rank], np.int64(1)], of_stream[stream])
    return Folded(copies, np.concatenate([np.zeros(0, np.int64), *tasks.alike]), fold.ranks, fold.media)


def _flops(setup: Setup) -> float | None:
    """FLOPs of an iteration on all devices, forward and backward."""
    found, whole = 0.0, setup.costs.model.flops_of(0, len(setup.costs.model))
    if not setup.has_teams:
        return None if whole is None else whole * setup.plan.microbatches
    for n, stage in enumerate(setup.plan.stages):
        flops = setup.costs_at(n).model.flops_of(stage.start, stage.stop)
        if flops is None:
            return None
        found += setup.plan.widths(n).gpus * flops
    return found * setup.plan.microbatches


def _peak_flops(setup: Setup) -> float | None:
    """FLOP/s of all GPUs of the plan in the precision of the model; None if that of any is unknown."""
    devices = [setup.cluster.device(name) for name in setup.plan.gpus]
    sorts = {(device.kind, device.flops): device for device in devices}  # of equal ones, one is looked up
    peak = {sort: _peak_of(device, setup.costs.model.precision) for sort, device in sorts.items()}
    known = [found for device in devices if (found := peak[device.kind, device.flops])]
    return float(sum(known)) if len(known) == len(devices) else None


def _peak_of(device: Device, precision: str) -> float | None:
    """The peak of the data sheet in a precision; what the cluster states, where that differs from the sheet's fp16."""
    try:
        sheet = device_kind(device.kind).peak
    except PipesimError:
        return device.flops
    return device.flops if device.flops != sheet.get("fp16") else sheet.get(precision, device.flops)


def _needs(tasks: Tasks) -> Ragged:
    """Task -> what it waits for, each once, in order; what has been added is given up."""
    count, parts = tasks.count, tasks.needs[::-1]
    tasks.needs = []
    code, at = np.empty(sum(len(waiting) for waiting, _ in parts), np.int64), 0
    while parts:
        waiting, awaited = parts.pop()
        part = code[at : at + len(waiting)]
        np.multiply(waiting, count, out=part)
        part += awaited
        at += len(waiting)
    code.sort()  # np.unique uses a hash table, and takes a hundred times longer
    new = np.empty(len(code), np.bool_)
    new[:1] = True
    np.not_equal(code[1:], code[:-1], out=new[1:])
    if not new.all():
        code = code[new]
    row = code // count
    code -= row * count
    return Ragged.of_lengths(np.bincount(row, minlength=count), code)


def _routes(without: int, routes: list[Ragged]) -> Ragged:
    """No media for the first tasks, which compute; then block after block."""
    lengths = np.concatenate([np.zeros(without, np.int64), *(block.lengths for block in routes)])
    return Ragged.of_lengths(lengths, np.concatenate([np.zeros(0, np.int64), *(block.values for block in routes)]))


def _changing(speeds: dict[int, Speeds]) -> dict[int, Speeds]:
    return {index: speed for index, speed in speeds.items() if speed is not STEADY}


def _media_speeds(setup: Setup) -> dict[int, Speeds]:
    if setup.scenario.degraded and not setup.sharing_rule.has_links:
        others = ", ".join(rule.name for rule in SHARING_RULES.values() if rule.has_links)
        raise RefusedError(f"sharing {setup.options.sharing!r} has no links to degrade; use one of {others}")
    if not setup.scenario.degraded:
        return {}
    position = {name: i for i, name in enumerate(setup.cluster.media)}
    return {position[name]: speeds for name, speeds in setup.scenario.of_media(setup.cluster).items()}
