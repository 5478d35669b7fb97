"""Plans that fit in memory, in place of those that do not: other options of the planner, other cuts, fewer replicas.

    capacities ──> cuts ──> order ──> bytes that are short ──> capacities     until nothing is short

What a stage holds is linear in its layers: bytes of parameters, gradients and optimizer state, and activations of as
many microbatches as the schedule of the plan before kept at its peak. Among cuts with which all stages fit, those are
taken whose slowest stage is fastest. Where no plan with as many replicas in every stage fits, a few are tried with more
in one stage, and with devices in the order of their memory; of those that fit, the one whose slowest stage is fastest
is taken. A device with several stages gives each the part of its memory that it has in the
plan before. Whatever is returned has been ordered, and fits exactly.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, islice, product

import numpy as np

from pipesim.base.arrays import Floats, Ints
from pipesim.base.errors import PipesimError
from pipesim.core import legality
from pipesim.core.members import Refit
from pipesim.core.plan import Plan, Stage
from pipesim.lowering import Setup
from pipesim.lowering.memory import byte_factors, excess, held_at_peak, most_kept
from pipesim.lowering.recompute import recomputation_of

_ROUNDS = 6  # of cuts, until capacities are right for the order that they lead to
_UNEVEN = 32  # plans with stages of different numbers of replicas, or with devices in another order
_HALVINGS = 60  # of the interval that has the seconds of the slowest stage

Ordered = Callable[[Plan], Setup]


def fits(setup: Setup) -> bool:
    """Whether every device whose memory is known holds what it must."""
    return int(excess(setup).max(initial=0)) <= 0


def fitted(
    setup: Setup, ordered: Ordered, refits: Sequence[Refit], others: Callable[[], Iterable[Plan]], bounds: Ints
) -> Setup:
    """A setup that fits: the one given, or the first found with another plan; the one given if none is.

    `others` are the planner's with other options, the best first. Cuts are at `bounds` only.
    """
    legality.check(setup.schedule, setup.plan)  # a schedule of a file may be of another plan
    if fits(setup):
        return setup
    for found in _candidates(setup, ordered, refits, others, bounds):
        if found is not None and fits(found):
            return replace(found, notes=(*found.notes, _changed(setup.plan, found.plan)))
    return setup


def _candidates(
    setup: Setup, ordered: Ordered, refits: Sequence[Refit], others: Callable[[], Iterable[Plan]], bounds: Ints
) -> Iterator[Setup | None]:
    if "option" in refits:
        yield from (_made(ordered, plan) for plan in others())
    if "cuts" in refits:
        yield _recut(setup, ordered, bounds)
    if "replicas" in refits:
        for plan in _fewer_replicas(setup.plan, bounds):
            made = _made(ordered, plan)
            yield made
            yield None if made is None else _recut(made, ordered, bounds)
        yield _fastest_uneven(setup, ordered, bounds)


def _made(ordered: Ordered, plan: Plan) -> Setup | None:
    """A plan with its order; None where there is none."""
    try:
        return ordered(plan)
    except PipesimError:
        return None


def _changed(before: Plan, after: Plan) -> str:
    """What differs, as a note on a result."""
    if before.replication != after.replication or before.devices != after.devices:
        shape = f"{len(after.stages)} stages with replicas {_listed(after.replication)}"
        if after.devices != tuple(name for name in before.devices if name in after.devices):
            shape += ", devices in the order of their memory,"
        return f"the plan of {before.planner} does not fit in memory; {shape} are used in its place, which fit"
    moved = f"its cuts {_listed(before.cuts)} were moved to {_listed(after.cuts)}, which fit"
    return f"the plan of {before.planner} does not fit in memory; {moved}"


def _listed(numbers: Sequence[int], most: int = 16) -> str:
    return ", ".join(map(str, numbers[:most])) + (", ..." if len(numbers) > most else "")


# --- cuts ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Bounded:
    """For each stage, seconds and bytes of the units before each bound, and the bytes that it may have."""

    seconds: list[Floats]
    held: list[Floats]
    capacity: list[float]

    def within(self, slowest: float) -> list[int] | None:
        """Cuts with which no stage takes longer: each stage takes as many units as it can, and leaves one for each
        stage after it. None if there are none.
        """
        units, cuts = len(self.seconds[0]) - 1, [0]
        for n, (seconds, held, capacity) in enumerate(zip(self.seconds, self.held, self.capacity, strict=True)):
            first = cuts[-1]
            end = min(
                int(np.searchsorted(seconds, seconds[first] + slowest, "right")) - 1,
                int(np.searchsorted(held, held[first] + capacity, "right")) - 1,
                units - (len(self.seconds) - 1 - n),
            )
            if end <= first:
                return None
            cuts.append(end)
        return cuts if cuts[-1] == units else None

    def best(self) -> list[int] | None:
        """Cuts with the fastest slowest stage; None if no cuts are within the capacities."""
        high = max(float(seconds[-1]) for seconds in self.seconds) * 2
        found, low = self.within(high), 0.0
        for _ in range(_HALVINGS if found else 0):
            middle = (low + high) / 2
            cuts = self.within(middle)
            low, high, found = (middle, high, found) if cuts is None else (low, middle, cuts)
        return found


def _recut(setup: Setup, ordered: Ordered, bounds: Ints) -> Setup | None:
    """The same devices with other cuts, that fit; None if none were found."""
    plan = setup.plan
    if len(plan.stages) == 1 or len(bounds) <= len(plan.stages):
        return None
    less: Floats = np.zeros(len(plan.devices))
    for _ in range(_ROUNDS):
        cuts = _ends(setup, bounds, less).best()
        if cuts is None:
            return None
        made = _made(ordered, _with_cuts(setup.plan, bounds[cuts].tolist()))
        if made is None or len(made.plan.stages) != len(plan.stages):
            return None
        short = excess(made)
        if short.max(initial=0) <= 0:
            return made
        less = less + np.maximum(short, 0)
        setup = made
    return None


def _with_cuts(plan: Plan, bounds: Sequence[int]) -> Plan:
    stages = tuple(replace(one, start=bounds[n], stop=bounds[n + 1]) for n, one in enumerate(plan.stages))
    return replace(plan, stages=stages, objective_s=None)


def _ends(setup: Setup, bounds: Ints, less: Floats) -> _Bounded:
    """What cuts of the stages of a plan are chosen by; `less` are bytes of each rank that cannot be used."""
    plan = setup.plan
    held = [_static(setup, n) + kept for n, kept in enumerate(_kept(setup))]
    now = [float(column[stage.start : stage.stop].sum()) for column, stage in zip(held, plan.stages, strict=True)]
    capacity = [np.inf] * len(plan.stages)
    for rank, (device, stages) in enumerate(zip(plan.devices, plan.chunks, strict=True)):
        memory = setup.cluster.device(device).memory
        if memory:
            free = memory - setup.options.reserve - setup.options.workspace - _restored(setup, stages) - less[rank]
            whole = sum(now[n] for n in stages)
            for n in stages:
                capacity[n] = min(capacity[n], float(free * (now[n] / whole if whole else 1 / len(stages))))
    seconds, bytes_ = ([_ends_of(column, bounds) for column in every] for every in (_seconds(setup), held))
    return _Bounded(seconds, bytes_, capacity)


def _ends_of(column: Floats, bounds: Ints) -> Floats:
    ends: Floats = np.concatenate([[0.0], np.cumsum(column)])[bounds]
    return ends


def _seconds(setup: Setup) -> list[Floats]:
    """For each stage, the seconds of a microbatch in every layer, if it were in this stage."""
    found = []
    for n, stage in enumerate(setup.plan.stages):
        kinds = dict.fromkeys(setup.cluster.device(name).kind for name in stage.devices)
        how, share = setup.costs_at(n), setup.plan.share(n)
        found.append(np.max([how.forward(kind, share) + how.backward(kind, share) for kind in kinds], axis=0))
    return found


def _static(setup: Setup, stage: int) -> Floats:
    """Bytes that every layer would hold all the time in this stage."""
    model, (held, trained) = setup.costs_at(stage).model, byte_factors(setup, stage)
    return model.parameter_bytes * held - (model.parameter_bytes - model.trained_bytes) * trained


def _kept(setup: Setup) -> list[Floats]:
    """For each stage, the bytes of activations in every layer at the peak of its devices.

    They are those of as many microbatches as are held then, in a proportion that makes the sum what it is now: split
    backwards let go of a part before they count as done.
    """
    plan, microbatches = setup.plan, held_at_peak(setup)
    kept = [recomputation_of(setup, n).layer_bytes * plan.share(n) * count for n, count in enumerate(microbatches)]
    peaks = most_kept(setup)
    parts = [1.0] * len(kept)
    for stages, peak in zip(plan.chunks, peaks.tolist(), strict=True):
        now = sum(float(kept[n][plan.stages[n].start : plan.stages[n].stop].sum()) for n in stages)
        for n in stages if now else ():
            parts[n] = max(0.0, peak - _restored(setup, stages)) / now
    return [column * part for column, part in zip(kept, parts, strict=True)]


def _restored(setup: Setup, stages: Sequence[int]) -> int:
    """The most bytes that recomputation brings back in one of these stages."""
    return max(recomputation_of(setup, n).kept(setup.plan.share(n)).restored for n in stages)


# --- replicas --------------------------------------------------------------------------------------------------------


def _fewer_replicas(plan: Plan, bounds: Ints) -> Iterator[Plan]:
    """Plans of the same devices in their order, as many in each stage and fewer than in the largest of the plan.

    Units are divided evenly; what they hold decides the cuts afterwards.
    """
    devices, units = plan.devices, len(bounds) - 1
    for size in range(max(plan.replication) - 1, 0, -1):
        count = min(len(devices) // size, units)
        if len(devices) % size or count < 2:
            continue
        at = [bounds[n * units // count] for n in range(count + 1)]
        stages = tuple(Stage(int(at[n]), int(at[n + 1]), devices[n * size : (n + 1) * size]) for n in range(count))
        used = {name for stage in stages for name in stage.devices}
        teams = tuple(team for team in plan.teams if team[0] in used)
        yield replace(plan, stages=stages, teams=teams, objective_s=None)


def _fastest_uneven(setup: Setup, ordered: Ordered, bounds: Ints) -> Setup | None:
    """Of the uneven plans that fit, as they are or with other cuts, the one whose slowest stage is fastest."""
    fitting = []
    for plan in islice(_uneven(setup, bounds), _UNEVEN):
        made = _made(ordered, plan)
        if made is not None and not fits(made):
            made = _recut(made, ordered, bounds)
        if made is not None and fits(made):
            fitting.append(made)
    return min(fitting, key=_pace, default=None)


def _pace(setup: Setup) -> float:
    """Seconds of a microbatch on the slowest stage, shared by its replicas."""
    plan = setup.plan
    sums = (float(each[one.start : one.stop].sum()) for each, one in zip(_seconds(setup), plan.stages, strict=True))
    shared = plan.replication if plan.replicas == "whole" else [1] * len(plan.stages)
    return max(seconds / replicas for seconds, replicas in zip(sums, shared, strict=True))


def _uneven(setup: Setup, bounds: Ints) -> Iterator[Plan]:
    """Plans of all devices with as many replicas in every stage as possible, and with all that are left in one stage.

    Devices in their order, by falling and by rising memory; plans that `_fewer_replicas` has are left out.
    """
    plan, units = setup.plan, len(bounds) - 1
    memory = {name: setup.cluster.device(name).memory for name in plan.devices}
    falling = sorted(plan.devices, key=lambda name: -memory[name])
    orders = dict.fromkeys((plan.devices, tuple(falling), tuple(reversed(falling))))
    if len(set(memory.values())) == 1:
        orders = {plan.devices: None}
    for order, count in product(orders, range(2, min(len(plan.devices), units) + 1)):
        each, rest = divmod(len(order), count)
        spread = tuple(each + (n < rest) for n in range(count))
        heavy = (tuple(len(order) - count + 1 if n == at else 1 for n in range(count)) for at in range(count))
        for sizes in dict.fromkeys((spread, *heavy)):
            if len(set(sizes)) > 1 or order != plan.devices:
                yield _with_replicas(plan, order, sizes, bounds)


def _with_replicas(plan: Plan, order: Sequence[str], sizes: Sequence[int], bounds: Ints) -> Plan:
    """Stages of so many devices each, in this order; units are divided evenly."""
    count, units = len(sizes), len(bounds) - 1
    ends, at = [0, *accumulate(sizes)], [int(bounds[n * units // count]) for n in range(count + 1)]
    stages = tuple(Stage(at[n], at[n + 1], tuple(order[ends[n] : ends[n + 1]])) for n in range(count))
    return replace(plan, stages=stages, objective_s=None)
