"""The layers of the stages of a pipelined run, with a sample for every microbatch of every iteration.

stages      each stage is one layer, as long as its actions
otherwise   layers are found inside the forwards, as in any profile; their backward is found by sequence numbers, and
            whether it is that of the input or of the weights by the action in which it runs
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipesim.base import units
from pipesim.base.arrays import Floats, Ints
from pipesim.base.errors import InputError
from pipesim.base.intervals import covered_by_label
from pipesim.base.tables import Table
from pipesim.core.schedule import BACKWARD as WHOLE_BACKWARD
from pipesim.core.schedule import FORWARD as FORWARDS
from pipesim.core.schedule import INPUT, LETTERS, WEIGHT
from pipesim.core.trace import ANY_KIND, Trace
from pipesim.importers.kineto.action_times import RankActions
from pipesim.importers.kineto.events import Events
from pipesim.importers.kineto.layer_ranges import Calls, backward_nodes, calls, kind_of
from pipesim.importers.kineto.layer_sizes import layer_sizes
from pipesim.importers.kineto.nesting import Owners, inside, owners
from pipesim.importers.kineto.numbering import NumberedCalls
from pipesim.importers.kineto.work_pieces import BACKWARD, FORWARD, PHASES, all_work, caused_work, labels

STAGES = "stages"
KINDS = len(LETTERS)


@dataclass(frozen=True, slots=True)
class TimedFor:
    """What the times of a trace hold for: so many samples in a microbatch, on this kind of device."""

    samples: int = 1
    device: str = ANY_KIND


@dataclass(frozen=True, slots=True, eq=False)
class StageLayers:
    """The layers of one stage on one rank."""

    stage: int
    names: tuple[str, ...]
    ns: Ints  # [kind, layer, sample]
    stash: Ints
    output: Ints
    parameters: Ints


def stage_layers(events: Events, actions: RankActions, how: str, depth: int | None) -> list[StageLayers]:
    """The stages of one rank. Sample = iteration * microbatches + microbatch."""
    number = _stage_calls(actions) if how == STAGES else _calls_in_forwards(events, actions, how, depth)
    nodes = backward_nodes(events)
    if how == STAGES:
        owner, ns = _owner_by_actions(events, actions, number), _ns_of_actions(actions, number)
    else:
        owner = labels(events, number, nodes, np.zeros(1, np.int64))
        ns = _ns_of_work(events, actions, number, owner)
    found = layer_sizes(events, number, owner, on_gpu=all_work(events, owner).on_gpu)
    held = np.array([int(name.partition(":")[0]) for name in number.names], np.int64)
    return [
        StageLayers(
            stage,
            tuple(name.partition(":")[2] for name, of in zip(number.names, held.tolist(), strict=True) if of == stage),
            ns[:, held == stage],
            found.stash[held == stage],
            found.output[held == stage],
            found.parameters[held == stage],
        )
        for stage in np.unique(held).tolist()
    ]


def _samples(actions: RankActions) -> tuple[Ints, int]:
    """The sample of each action, and how many there are."""
    microbatches = int(actions.microbatch.max()) + 1
    return actions.iteration * microbatches + actions.microbatch, (int(actions.iteration.max()) + 1) * microbatches


def _stage_calls(actions: RankActions) -> NumberedCalls:
    """Every forward is a call of its stage."""
    rows = np.flatnonzero(actions.kind == FORWARDS)
    held, layer = np.unique(actions.stage[rows], return_inverse=True)
    sample, samples = _samples(actions)
    found = Calls(actions.row[rows], actions.start[rows], actions.end[rows], tuple(["stage"] * len(rows)))
    names = tuple(f"{stage}:stage {stage}" for stage in held.tolist())
    return _number(found, layer, sample[rows], names, samples)


def _number(found: Calls, layer: Ints, sample: Ints, names: tuple[str, ...], samples: int) -> NumberedCalls:
    again = np.zeros(len(found.row), bool)
    return NumberedCalls(found, layer, sample, again, names, samples, 1, np.zeros(1, np.int64), 0)


def _calls_in_forwards(events: Events, actions: RankActions, how: str, depth: int | None) -> NumberedCalls:
    """The calls of layers inside the forwards; a stage calls the same ones for each microbatch."""
    found = calls(
        events, how, depth, caused_work(events), backward_nodes(events), without=_pipeline_ranges(events, actions)
    )
    forwards = np.flatnonzero(actions.kind == FORWARDS)
    rows = actions.row[forwards]
    around = inside(
        events.thread[found.row], found.start, (events.thread[rows], events.start[rows], events.end[rows])
    ).tolist()
    by_action: dict[int, list[int]] = defaultdict(list)
    for call, action in enumerate(around):
        by_action[int(forwards[action]) if action >= 0 else -1].append(call)
    by_action.pop(-1, None)
    if not by_action:
        raise InputError(f"layers = {how!r}: no layer is called inside a forward; layers='stages' takes whole stages")
    return _numbered(found, by_action, actions)


def _numbered(found: Calls, by_action: dict[int, list[int]], actions: RankActions) -> NumberedCalls:
    sequences: dict[int, Counter[tuple[str, ...]]] = defaultdict(Counter)
    for action, held in by_action.items():
        sequences[int(actions.stage[action])][tuple(found.names[call] for call in held)] += 1
    common = {stage: seen.most_common(1)[0][0] for stage, seen in sorted(sequences.items())}
    first, names = {}, list[str]()
    for stage, sequence in common.items():
        first[stage] = len(names)
        names += [f"{stage}:{name}" for name in sequence]
    sample, samples = _samples(actions)
    kept, layer, of = list[int](), list[int](), list[int]()
    for action, held in by_action.items():
        stage = int(actions.stage[action])
        if tuple(found.names[call] for call in held) == common[stage]:
            kept += held
            layer += range(first[stage], first[stage] + len(held))
            of += [int(sample[action])] * len(held)
    return _number(found.chosen(np.array(kept)), np.array(layer), np.array(of), tuple(names), samples)


def _pipeline_ranges(events: Events, actions: RankActions) -> NDArray[np.bool_]:
    """Ranges that are not layers: actions, and other ranges of torch.distributed.pipelining."""
    found = events.named("PP:")
    found[actions.row] = True
    return found


# --- nanoseconds -----------------------------------------------------------------------------------------------------


def _owner_by_actions(events: Events, actions: RankActions, number: NumberedCalls) -> Owners:
    """Work during an action, on any thread, belongs to its stage and microbatch."""
    sample, _ = _samples(actions)
    calls_of = {cell: call for call, cell in enumerate(zip(number.layer.tolist(), number.sample.tolist(), strict=True))}
    layer = np.searchsorted(np.unique(actions.stage[actions.kind == FORWARDS]), actions.stage)
    call = [calls_of.get(cell, -1) for cell in zip(layer.tolist(), sample.tolist(), strict=True)]
    phase = np.where(actions.kind == FORWARDS, FORWARD, BACKWARD)
    label = np.where(np.array(call) >= 0, np.array(call) * PHASES + phase, -1)
    steps = owners(np.zeros(len(label), np.int64), events.start[actions.row], events.end[actions.row], label).threads[0]
    return Owners(dict.fromkeys(np.unique(events.thread).tolist(), steps))


def _ns_of_actions(actions: RankActions, number: NumberedCalls) -> Ints:
    """[kind, stage, sample] -> the duration of the action."""
    sample, samples = _samples(actions)
    held = np.unique(actions.stage[actions.kind == FORWARDS])
    mine = np.isin(actions.stage, held)
    ns = np.zeros((KINDS, len(number.names), samples), np.int64)
    layer = np.searchsorted(held, actions.stage[mine])
    ns[actions.kind[mine], layer, sample[mine]] = (actions.end - actions.start)[mine]
    return ns


def _ns_of_work(events: Events, actions: RankActions, number: NumberedCalls, owner: Owners) -> Ints:
    """[kind, layer, sample] -> the union of its work; work of a backward counts for the kind of its action."""
    work = all_work(events, owner)
    label = owner.at(work.thread, work.caused)
    order = np.argsort(events.start[actions.row], kind="stable")
    at = np.searchsorted(events.start[actions.row][order], work.caused, side="right") - 1
    action = order[np.maximum(at, 0)]
    mine = (label >= 0) & (at >= 0) & (work.caused < events.end[actions.row][action])
    call, phase = np.divmod(label[mine], PHASES)
    kind = np.where(phase == FORWARD, FORWARDS, actions.kind[action[mine]])
    kind = np.where((phase != FORWARD) & (kind == FORWARDS), WHOLE_BACKWARD, kind)
    layers = len(number.names)
    cell = (kind * layers + number.layer[call]) * number.samples + number.sample[call]
    total = covered_by_label(cell, work.start[mine], work.end[mine], KINDS * layers * number.samples)
    return total.reshape(KINDS, layers, number.samples)


# --- the trace -------------------------------------------------------------------------------------------------------


def trace_of_stages(
    name: str, found: Sequence[StageLayers], cut_bytes: Floats, transfers: Table, timed_for: TimedFor
) -> tuple[Trace, tuple[int, ...]]:
    """One trace with the layers of all stages in order, and for each stage the first layer after it."""
    by_stage: dict[int, list[StageLayers]] = defaultdict(list)
    for part in found:
        by_stage[part.stage].append(part)
    last = max(by_stage, default=0)
    missing = [stage for stage in range(last + 1) if stage not in by_stage]
    if missing:
        raise InputError(
            f"stage {missing[0]} has no forward (stages 0 to {last}); the files of all ranks of one pipeline were "
            "expected"
        )
    rows, stops = list[Table](), list[int]()
    for stage, copies in sorted(by_stage.items()):
        first = stops[-1] if stops else 0
        names = copies[0].names
        if any(copy.names != names for copy in copies):
            raise InputError(f"stage {stage}: ranks that share it call different layers")
        output_bytes = float(cut_bytes[stage]) if stage < len(cut_bytes) else 0.0
        before = 0
        for copy in copies:
            rows.append(_rows(copy, first, before, output_bytes, timed_for.device))
            before += copy.ns.shape[2]
        stops.append(first + len(names))
    layers = {column: np.concatenate([table[column] for table in rows]) for column in rows[0]}
    for column in ("parameter_bytes", "stash_bytes", "output_bytes"):
        most = np.zeros(stops[-1], np.int64)
        np.maximum.at(most, layers["layer"], layers[column])
        layers[column] = most[layers["layer"]]
    source = f"kineto: a pipelined run of {len(by_stage)} stages"
    return Trace(name, source, timed_for.samples, layers, transfers), tuple(stops)


def _rows(part: StageLayers, first: int, before: int, output_bytes: float, device: str) -> Table:
    """One row for each layer and each sample that has a forward."""
    layer, sample = np.nonzero(part.ns[FORWARDS] > 0)
    if len(np.unique(layer)) < len(part.names):
        absent = part.names[int(np.setdiff1d(np.arange(len(part.names)), layer)[0])]
        raise InputError(f"stage {part.stage}: layer {absent!r} does no work in any forward")
    seconds = part.ns[:, layer, sample] / units.NS_PER_S
    split = (seconds[INPUT] > 0) | (seconds[WEIGHT] > 0)
    output = part.output.copy()
    output[-1] = 0 if np.isnan(output_bytes) else round(output_bytes)
    return {
        "layer": layer + first,
        "name": np.array(part.names, object)[layer],
        "kind": np.array([kind_of(name) for name in part.names], object)[layer],
        "device_kind": np.full(len(layer), device, object),
        "sample": sample + before,
        "forward_s": seconds[FORWARDS],
        "backward_s": np.where(split, np.nan, seconds[WHOLE_BACKWARD]),
        "backward_input_s": np.where(split, seconds[INPUT], np.nan),
        "backward_weight_s": np.where(split, seconds[WEIGHT], np.nan),
        "output_bytes": output[layer],
        "parameter_bytes": part.parameters[layer],
        "stash_bytes": part.stash[layer],
    }
