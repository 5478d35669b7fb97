"""A program without causes of its time: waiting, sharing, uneven work; simulated, it shows what each of them costs.

optimizer         the steps of optimizers take no time
replicas          all replicas take the time of one: the mean of the steps with each of them in place of all
slow_devices      devices have their own speed throughout
forward, ...      stragglers: each operation of a stage takes its mean over microbatches and replicas
contention        transfers have links for themselves, at full bandwidth
posting           a transfer waits for its tensor only, and holds no device
parameters        gathers of parameters take no time; what waits for them still waits for their beginning
gradients         the same of sums of gradients
p2p               the same of activations and gradients between stages
fill_and_drain    forwards and backwards do not wait for other stages
imbalance         all stages have the same work
"""

import hashlib
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from pipesim.base.arrays import Bools, Ints, Ragged
from pipesim.core.program import (
    ACTIVATION,
    ALL_GATHER,
    ALL_REDUCE,
    BACKWARD,
    COLLECTIVES,
    FORWARD,
    GRADIENT,
    INPUT,
    KINDS,
    OPTIMIZER,
    WEIGHT,
    Program,
)
from pipesim.core.recorded_run import COLLECTIVE, RECEIVES, SENDS
from pipesim.core.scenario import Speeds
from pipesim.lowering.recorded_steps import RecordedStep

Makespan = Callable[[Program], int]

STRAGGLERS = {KINDS[kind]: kind for kind in (FORWARD, BACKWARD, INPUT, WEIGHT)}
_SORTS = {"parameters": (ALL_GATHER,), "gradients": (ALL_REDUCE,), "p2p": (ACTIVATION, GRADIENT)}
CAUSES = (
    "optimizer", "replicas", "slow_devices", *STRAGGLERS, "contention", "posting", *_SORTS, "fill_and_drain",
    "imbalance",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Straggler:
    """A stage, or a replica of all stages, and how long the step is if it takes the mean times of its operations."""

    what: str
    number: int
    without_ns: int


class Removal:
    """Removes causes from a program."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.actions: Ints = np.flatnonzero(program.is_compute & (program.kind <= WEIGHT) & (program.microbatch >= 0))

    @cached_property
    def causes(self) -> tuple[str, ...]:
        """The causes that this program has, in the order of their removal."""
        program = self.program
        transfers = bool((~program.is_compute & (program.size > 0)).any())
        present = {
            "optimizer": bool(program.duration[program.kind == OPTIMIZER].any()),
            "replicas": len(self._replicas) > 1,
            "slow_devices": bool(program.lane_speeds),
            "contention": bool(program.media_speeds) or (transfers and program.sharing != "none"),
            "posting": self._waits_for_posts,
            "fill_and_drain": bool(self._pipelined.any()),
            "imbalance": len(program.devices) > 1,
        }
        present |= {name: bool((self._evened != program.duration)[program.kind == kind].any())
                    for name, kind in STRAGGLERS.items()}  # fmt: skip
        present |= {name: bool(np.isin(program.kind, kinds).any()) for name, kinds in _SORTS.items()}
        return tuple(cause for cause in CAUSES if present[cause])

    def time(self, causes: Collection[str], makespan: Makespan) -> int:
        """The step without these causes, rounded down where it is a mean over replicas."""
        found = [(makespan(program), weight) for program, weight in self.without(causes)]
        return sum(ns * weight for ns, weight in found) // sum(weight for _, weight in found)

    def without(self, causes: Collection[str]) -> Iterator[tuple[Program, int]]:
        """The program without these causes; with `replicas` among them one for each, and how many are alike."""
        sets = self._replicas.values() if "replicas" in causes else [(self.program.duration, self._speeds, 1)]
        evened = np.isin(self.program.kind, [STRAGGLERS[name] for name in STRAGGLERS if name in causes])
        base = self._without_network_causes(causes)
        for duration, speeds, weight in sets:
            changed = np.where(evened, self._evened, duration)
            if "optimizer" in causes:
                changed[self.program.kind == OPTIMIZER] = 0
            if "imbalance" in causes:
                changed = self._balanced(changed)
            zeroed = [kind for name, kinds in _SORTS.items() if name in causes for kind in kinds]
            changed[np.isin(self.program.kind, zeroed)] = 0
            lane_speeds = {} if "slow_devices" in causes else speeds
            yield replace(base, duration=changed, lane_speeds=lane_speeds), weight

    def _without_network_causes(self, causes: Collection[str]) -> Program:
        """What does not depend on the time of computation: sharing, dependencies, sizes."""
        program = self.program
        if "posting" in causes:
            program = replace(program, needs=self._eager_needs(), transfers="eager")
        if "fill_and_drain" in causes:
            waiting, awaited = program.needs.row_of_value(), program.needs.values
            kept = ~self._pipelined_pairs(waiting, awaited)
            program = replace(program, needs=Ragged.of_pairs(len(program), waiting[kept], awaited[kept]))
        if "contention" in causes:
            program = replace(program, sharing="none", media_speeds={})
        for name, kinds in _SORTS.items():
            if name in causes:
                program = _without_bytes(program, np.isin(program.kind, kinds))
        return program

    # --- stragglers ---------------------------------------------------------------------------------------------------

    @cached_property
    def _lanes(self) -> dict[int, Ints]:
        """The lanes of each stage: its replicas."""
        stage, lane = self.program.stage[self.actions], self.program.lane[self.actions]
        return {n: np.unique(lane[stage == n]) for n in np.unique(stage).tolist()}

    @cached_property
    def _in_order(self) -> Ints:
        """The actions in the order of their lanes."""
        order = self.program.order.values
        return order[np.isin(order, self.actions)]

    @cached_property
    def _first_backwards(self) -> Bools:
        """The first whole backward of each stage on each lane, which may have a time of its own."""
        rows = self._in_order[self.program.kind[self._in_order] == BACKWARD]
        code = self.program.stage[rows] * len(self.program.devices) + self.program.lane[rows]
        found = np.zeros(len(self.program), bool)
        found[rows[np.unique(code, return_index=True)[1]]] = True
        return found

    @cached_property
    def _evened(self) -> Ints:
        """Durations with each action at the mean of its stage and kind."""
        program, rows = self.program, self.actions
        code = (program.stage[rows] * len(KINDS) + program.kind[rows]) * 2 + self._first_backwards[rows]
        _, group = np.unique(code, return_inverse=True)
        total = np.bincount(group, program.duration[rows])
        found = program.duration.copy()
        found[rows] = np.rint(total / np.maximum(np.bincount(group), 1)).astype(np.int64)[group]
        return found

    @property
    def _speeds(self) -> dict[int, Speeds]:
        return self.program.lane_speeds

    @cached_property
    def _rows(self) -> dict[tuple[int, int], list[Ints]]:
        """For each stage and kind the actions of each of its lanes, in their order."""
        program, rows = self.program, self._in_order
        order = np.lexsort((np.arange(len(rows)), program.lane[rows], program.kind[rows], program.stage[rows]))
        rows = rows[order]
        keys = np.stack([program.stage[rows], program.kind[rows], program.lane[rows]])
        starts = np.flatnonzero((np.diff(keys, axis=1) != 0).any(axis=0)) + 1
        found: dict[tuple[int, int], list[Ints]] = {}
        for part in np.split(rows, starts) if len(rows) else ():
            found.setdefault((int(program.stage[part[0]]), int(program.kind[part[0]])), []).append(part)
        return found

    @cached_property
    def _replicas(self) -> dict[bytes, tuple[Ints, dict[int, Speeds], int]]:
        """Durations and speeds of lanes with each replica in place of all, and how many replicas are alike."""
        found: dict[bytes, tuple[Ints, dict[int, Speeds], int]] = {}
        for number in range(1 if self._are_alike else max(map(len, self._lanes.values()), default=1)):
            duration, speeds = self._all_as(number)
            key = hashlib.blake2b(duration.tobytes() + repr(sorted(speeds.items())).encode()).digest()
            found[key] = (duration, speeds, found[key][2] + 1 if key in found else 1)
        return found

    @property
    def _are_alike(self) -> bool:
        """Whether all replicas of each stage have the same durations, and no lane has a speed of its own."""
        duration = self.program.duration
        return not self._speeds and all(
            np.array_equal(duration[lanes[0]], duration[rows]) for lanes in self._rows.values() for rows in lanes[1:]
        )

    def _all_as(self, number: int) -> tuple[Ints, dict[int, Speeds]]:
        """Durations and speeds of lanes if all replicas were as this one; of stages that have fewer, as one of them."""
        program, duration, speeds = self.program, self.program.duration.copy(), dict(self._speeds)
        if self._are_alike or all(len(lanes) == 1 for lanes in self._lanes.values()):
            return duration, speeds
        for lanes in self._rows.values():
            taken = program.duration[lanes[number % len(lanes)]]
            for rows in lanes:
                duration[rows] = taken[np.minimum(np.arange(len(rows)), len(taken) - 1)]
        for of_stage in self._lanes.values():
            chosen = int(of_stage[number % len(of_stage)])
            for other in of_stage.tolist():
                speeds.pop(other, None)
                if chosen in self._speeds:
                    speeds[other] = self._speeds[chosen]
        return duration, speeds

    def stragglers(self, makespan: Makespan) -> tuple[Straggler, ...]:
        """Each stage and each replica with its operations at their mean; those that help most first."""
        if not {"slow_devices", *STRAGGLERS} & set(self.causes):
            return ()
        program, found = self.program, []
        most = max(map(len, self._lanes.values()), default=0)
        by_replica = [{int(lanes[n]) for lanes in self._lanes.values() if n < len(lanes)} for n in range(most)]
        stage_rows = [("stage", n, (program.stage == n) & (program.lane >= 0)) for n in self._lanes]
        rank_rows = [("replica", n, np.isin(program.lane, list(lanes))) for n, lanes in enumerate(by_replica)]
        for what, number, rows in stage_rows + (rank_rows if most > 1 else []):
            kept = set(program.lane[~rows & program.is_compute].tolist())
            speeds = {lane: speed for lane, speed in program.lane_speeds.items() if lane in kept}
            duration = np.where(rows & (program.kind <= WEIGHT), self._evened, program.duration)
            found.append(Straggler(what, number, makespan(replace(program, duration=duration, lane_speeds=speeds))))
        return tuple(sorted(found, key=lambda one: one.without_ns))

    # --- stages -------------------------------------------------------------------------------------------------------

    def _balanced(self, duration: Ints) -> Ints:
        """Durations with lanes of all stages doing the same work: those that hold the same stages share a factor."""
        program, rows = self.program, np.flatnonzero(self.program.is_compute & (self.program.kind <= WEIGHT))
        busy = np.bincount(program.lane[rows], duration[rows], minlength=len(program.devices))
        held = [tuple(np.unique(program.stage[lane]).tolist()) for lane in program.order]
        _, group = np.unique([repr(stages) for stages in held], return_inverse=True)
        mean = (np.bincount(group, busy) / np.bincount(group))[group]
        factor = np.divide(busy.mean(), mean, out=np.ones(len(busy)), where=mean > 0)
        found = duration.copy()
        found[rows] = np.rint(duration[rows] * factor[program.lane[rows]]).astype(np.int64)
        return found

    def _pipelined_pairs(self, waiting: Ints, awaited: Ints) -> Bools:
        """Which dependencies let a forward or backward wait for anything but an exchange between replicas."""
        kind = self.program.kind
        acts: Bools = self.program.is_compute[waiting] & (kind[waiting] != OPTIMIZER)
        others: Bools = ~np.isin(kind[awaited], COLLECTIVES)
        return acts & others

    @cached_property
    def _pipelined(self) -> Bools:
        return self._pipelined_pairs(self.program.needs.row_of_value(), self.program.needs.values)

    # --- messages -----------------------------------------------------------------------------------------------------

    @cached_property
    def _messages(self) -> Bools:
        """Transfers from a stage to another; a gather inside a team, of what it received, is none."""
        program = self.program
        between: Bools = program.source != program.target
        return between & np.isin(program.kind, [ACTIVATION, GRADIENT])

    @property
    def _waits_for_posts(self) -> bool:
        """Whether messages, or devices, wait for anything but what messages carry."""
        return self.program.transfers != "eager" and bool(self._messages.any())

    def _eager_needs(self) -> Ragged:
        """Dependencies where each message waits for the action that makes it, and the one that uses it for the message.

        A message whose actions are not found by their stage and microbatch keeps the dependencies that it has.
        """
        program = self.program
        messages = np.flatnonzero(self._messages)
        forwards = program.kind[messages] == ACTIVATION
        made = self._matching(messages, program.stage[messages], program.source[messages])
        used = self._matching(messages, program.stage[messages] + np.where(forwards, 1, -1), program.target[messages])
        known = np.zeros(len(program), bool)
        known[messages] = np.isin(messages, made[0]) & np.isin(messages, used[0])
        waiting, awaited = program.needs.row_of_value(), program.needs.values
        others = program.is_compute | self._messages
        posted = (known[waiting] & others[awaited]) | (known[awaited] & others[waiting])
        new = np.concatenate([np.stack(made)[:, known[made[0]]], np.stack(used)[::-1][:, known[used[0]]]], axis=1)
        return Ragged.of_pairs(
            len(program), np.concatenate([waiting[~posted], new[0]]), np.concatenate([awaited[~posted], new[1]])
        )

    def _matching(self, messages: Ints, stage: Ints, lane: Ints) -> tuple[Ints, Ints]:
        """Pairs of a message and an action of its direction and microbatch, at these stages and on these lanes.

        Without links a message is that of all replicas, on whatever lane they are.
        """
        program, actions = self.program, self.actions
        if not program.sharing_rule.has_links:
            lane = np.zeros_like(lane)

        def codes(stages: Ints, rows: Ints, forwards: Bools, lanes: Ints) -> Ints:
            mixed = (stages + 1) * (int(program.microbatch.max()) + 2) + program.microbatch[rows] + 1
            return (mixed * 2 + forwards) * len(program.devices) + lanes

        actions = actions[program.kind[actions] != WEIGHT]
        lanes = program.lane[actions] if program.sharing_rule.has_links else np.zeros_like(actions)
        there = codes(program.stage[actions], actions, program.kind[actions] == FORWARD, lanes)
        order = np.argsort(there, kind="stable")
        wanted = codes(stage, messages, program.kind[messages] == ACTIVATION, lane)
        first, last = (np.searchsorted(there[order], wanted, side=side) for side in ("left", "right"))
        count = last - first
        places = np.repeat(first - np.cumsum(count) + count, count) + np.arange(int(count.sum()))
        return np.repeat(messages, count), actions[order[places]]


class RecordedRemoval(Removal):
    """Removes causes from a recorded step without launch gaps.

    There, a rank waits for all that it posted together before it goes on; without posting, computations wait for what
    they receive only, sends for the computation whose output they send, and receives are posted from the beginning.
    """

    def __init__(self, step: RecordedStep) -> None:
        super().__init__(step.without_gaps())
        self.step = step
        run = step.run
        self._sent: Ints = np.flatnonzero(np.isin(run.kind, SENDS))
        self._received: Ints = np.flatnonzero(np.isin(run.kind, RECEIVES))

    @cached_property
    def _made_and_read(self) -> tuple[tuple[Ints, Ints], tuple[Ints, Ints]]:
        """Each send with the computation before it, and each receive with the one after it."""
        stage, rank = self.program.stage, self.step.run.rank
        sent, received = (self._matching(rows, stage[rows], rank[rows]) for rows in (self._sent, self._received))
        return sent, received

    @property
    def _waits_for_posts(self) -> bool:
        """Only if the computations of all messages are known."""
        (sent, _), (received, _) = self._made_and_read
        return bool(len(sent)) and len(sent) == len(self._sent) and len(received) == len(self._received)

    def _eager_needs(self) -> Ragged:
        program, post, count = self.program, self.step.post, len(self.step.run)
        waiting, awaited = program.needs.row_of_value(), program.needs.values
        batches = np.zeros(len(program), bool)  # what waits for operations and is none: all that was posted together
        batches[waiting[awaited < count]] = True
        batches[:count] = False
        freed = np.zeros(len(program), bool)
        freed[self.actions] = True
        freed[post[self._sent]] = freed[post[self._received]] = True
        kept = ~(freed[waiting] & batches[awaited])
        (sent, made), (received, read) = self._made_and_read
        begun, gathered = self._before_the_first()
        return Ragged.of_pairs(
            len(program),
            np.concatenate([waiting[kept], post[sent], read, begun]),
            np.concatenate([awaited[kept], made, received, gathered]),
        )

    def _before_the_first(self) -> tuple[Ints, Ints]:
        """The first computation of each rank, with the collectives that ended on it before."""
        run = self.step.run
        first = self.actions[np.unique(run.rank[self.actions], return_index=True)[1]]  # in order of rank and start
        of_rank = np.full(len(run.ranks), -1, np.int64)
        of_rank[run.rank[first]] = first
        rows = np.flatnonzero(run.kind == COLLECTIVE)
        begun = of_rank[run.rank[rows]]
        before = (begun >= 0) & (run.end[rows] <= run.start[np.maximum(begun, 0)])
        return begun[before], rows[before]


def _without_bytes(program: Program, chosen: Bools) -> Program:
    """These transfers with nothing to carry, on no link; durations are set by the caller."""
    routes = Ragged.of_lengths(
        np.where(chosen, 0, program.route.lengths), program.route.values[~chosen[program.route.row_of_value()]]
    )
    return replace(
        program,
        delay=np.where(chosen, 0, program.delay),
        size=np.where(chosen, 0.0, program.size),
        limit=np.where(chosen, np.inf, program.limit),
        route=routes,
    )
