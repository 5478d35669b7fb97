"""The layouts that are searched: every combination of the sizes and choices that a simulation leaves open.

tensor x pipeline x data GPUs, at most those of the cluster; chunks on each device; samples of a microbatch;
recomputation; sharding; schedule; where the layers are cut; the order of kinds of device

Recomputation by stage is of as many blocks of each stage as its memory needs.

A field that the user gives has one value. A framework has the schedules and shardings that its code has.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import groupby, permutations
from typing import Any, NamedTuple

from pipesim.studies.simulation import ANY, RECOMPUTES, Simulation

BY_STAGE = "stages"  # recomputation of so many blocks of each stage
EVEN, BALANCED = "even", "balanced"
LOOPED, WAVES, SPLITTING = ("interleaved",), ("zb_v",), ("zb_h1", "zb_v")
MOST_CHUNKS = 10
MOST_SAMPLES = 16  # in a microbatch

# Schedules and shardings that frameworks have; "" is a simulation that names none.
SCHEDULES: dict[str, tuple[str, ...]] = {
    "": ("one_f_one_b", "interleaved", "zb_h1", "zb_v"),
    "megatron": ("one_f_one_b", "interleaved"),
    "megatron-v2": ("one_f_one_b", "interleaved"),
    "deepspeed": ("one_f_one_b",),
    "torch": ("one_f_one_b", "gpipe", "interleaved", "zb_v"),
}
SHARDINGS: dict[str, tuple[str, ...]] = {
    "": ("none", "zero1", "zero2", "zero3"),
    "megatron": ("none", "zero1"),
    "megatron-v2": ("none", "zero1"),
    "deepspeed": ("none", "zero1", "zero2", "zero3"),
    "torch": ("none", "zero2", "zero3"),
}
SAME_IN_STAGES = ("megatron", "megatron-v2")  # that recompute the same number of blocks in every stage
_WHOLE_STAGES = ("deepspeed",)  # that recompute all blocks or none
_WITHOUT_PIPELINE = {"deepspeed": ("zero2", "zero3")}  # shardings that a framework refuses beside pipelines


@dataclass(frozen=True, slots=True, order=True)
class LayoutChoice:
    """One layout, in fields of a simulation; `cuts` are even or balanced."""

    tensor: int
    pipeline: int
    data: int
    interleave: int
    microbatch_size: int
    recompute: str
    sharding: str
    scheduler: str
    cuts: str = EVEN
    sequence_parallel: bool = False
    kinds: str = ""  # of device, the first ones first; as the cluster numbers them if there are none
    planner: str = ""  # that decides stages and replicas, in place of pipeline and data, which are 0
    widths: str = ""  # tensor widths of the ranks, as 8;8;4, where they differ (`tensor` is the first), or ANY

    @property
    def gpus(self) -> int:
        """The GPUs that it uses."""
        return sum(self.tensors) * self.data

    @property
    def tensors(self) -> tuple[int, ...]:
        """The tensor width of each rank."""
        stated = self.widths not in {"", ANY}
        return tuple(map(int, self.widths.split(";"))) if stated else (self.tensor,) * self.pipeline

    @property
    def stages(self) -> int:
        """Stages of the plan before a schedule cuts it again."""
        return self.pipeline * self.interleave

    def microbatches(self, global_batch: int) -> int:
        """The microbatches of one pipeline."""
        return global_batch // (self.microbatch_size * max(self.data, 1))


# The names by which `within` and --within speak of candidates.
NAMES = tuple(field.name for field in fields(LayoutChoice))


class Room(NamedTuple):
    """What the sizes of layouts depend on."""

    teams: Mapping[int, Mapping[str, tuple[int, int]]]  # tensor width -> order of kinds -> teams: more than, at most
    blocks: int  # what is divided over stages
    sizes: Sequence[int]  # samples of a microbatch that there are times for; none: any
    global_batch: int
    computed: bool  # whether the model is computed, so that sequence parallelism can be chosen
    in_blocks: bool = False  # whether blocks can be recomputed one by one


def orders_of(kinds: Sequence[str]) -> dict[str, tuple[int, int]]:
    """For the kinds of all teams in the order of the cluster, orders of kinds, and how many teams they use: more than
    the first number, or the last kind is idle, and at most the second.

    >>> from pipesim.studies.tuning.space import orders_of
    >>> orders_of(["a100", "v100", "v100"])
    {'': (1, 3), 'a100': (0, 1), 'v100,a100': (2, 3), 'v100': (0, 2)}
    """
    count = Counter(kinds)
    if len(count) == 1 or len(count) > _MOST_KINDS:
        return {"": (0, len(kinds))}
    found: dict[str, tuple[int, int]] = {}
    stated = [one for one, _ in groupby(kinds)]
    if len(stated) > len(count):
        found[""] = (0, len(kinds))
    for order in permutations(count):
        for n in range(len(order), 0, -1):
            used, idle = (sum(count[kind] for kind in order[:most]) for most in (n, n - 1))
            found["" if list(order) == stated[:n] and n == len(order) else ",".join(order[:n])] = (idle, used)
    return found


_MOST_KINDS = 3


@dataclass(frozen=True, slots=True)
class Space:
    """The values that each choice may have."""

    recompute: tuple[str, ...]
    sharding: tuple[str, ...]
    schedulers: tuple[str, ...]
    cuts: tuple[str, ...]
    fixed: Mapping[str, Any]
    apart: tuple[str, ...]  # shardings that pipelines are refused with
    fewer: bool  # whether layouts that leave more devices idle than they need to are searched

    @classmethod
    def of(cls, simulation: Simulation, given: frozenset[str], *, fewer: bool) -> "Space":
        """The space of a simulation of which these fields are given."""
        framework = simulation.framework or ""
        fixed = {name: getattr(simulation, name) for name in NAMES if name in given}

        def values(name: str, every: Sequence[str]) -> tuple[str, ...]:
            return (fixed[name],) if name in fixed else tuple(every)

        return cls(
            values("recompute", (*RECOMPUTES, *(() if framework in _WHOLE_STAGES else (BY_STAGE,)))),
            values("sharding", SHARDINGS[framework]),
            values("scheduler", SCHEDULES[framework]),
            (EVEN,) if "planner" in given else (EVEN, BALANCED),
            fixed,
            _WITHOUT_PIPELINE.get(framework, ()),
            fewer,
        )

    def candidates(self, room: Room) -> Iterator[LayoutChoice]:
        """All layouts, neighbours with the same widths and microbatches beside each other."""
        for tensor, orders in room.teams.items():
            for divided in self._sequence_parallel(tensor, computed=room.computed):
                for samples in self._samples(room):
                    for kinds, (idle, teams) in orders.items():
                        for pipeline in self._pipelines(teams, room.blocks):
                            for data in self._data(teams // pipeline, room.global_batch // samples):
                                one = LayoutChoice(tensor, pipeline, data, 1, samples, "", "", "", EVEN, divided, kinds)
                                if pipeline * data > idle:
                                    yield from self._choices(one, room)

    def _sequence_parallel(self, tensor: int, *, computed: bool) -> tuple[bool, ...]:
        if not computed or tensor == 1:
            return (False,)
        stated = self.fixed.get("sequence_parallel")
        return (True, False) if stated is None else (bool(stated),)

    def _samples(self, room: Room) -> list[int]:
        known = room.sizes or [n for n in range(1, MOST_SAMPLES + 1) if n & (n - 1) == 0]
        chosen = [self.fixed["microbatch_size"]] if self.fixed.get("microbatch_size") else known
        return [n for n in chosen if room.global_batch % n == 0]

    def _pipelines(self, teams: int, blocks: int) -> list[int]:
        """Lengths that divide the teams, or the blocks."""
        if self.fixed.get("pipeline"):
            return [self.fixed["pipeline"]] if self.fixed["pipeline"] <= teams else []
        most = min(teams, blocks)
        return [n for n in range(1, most + 1) if teams % n == 0 or blocks % n == 0]

    def _data(self, most: int, microbatches: int) -> list[int]:
        """The most pipelines side by side among which the microbatches can be divided; or every such number."""
        if self.fixed.get("data"):
            return [n for n in (self.fixed["data"],) if n <= most and microbatches % n == 0]
        found = [n for n in range(most, 0, -1) if microbatches % n == 0]
        return found if self.fewer else found[:1]

    def _choices(self, shape: LayoutChoice, room: Room) -> Iterator[LayoutChoice]:
        for scheduler in self.schedulers:
            for chunks in self._chunks(scheduler, shape.pipeline, room.blocks):
                cut = replace(shape, scheduler=scheduler, interleave=chunks)
                for cuts in self.cuts if shape.pipeline > 1 and scheduler not in WAVES else (EVEN,):
                    for recompute in self._recompute(scheduler, room):
                        for sharding in self._shardings(shape):
                            yield replace(cut, cuts=cuts, recompute=recompute, sharding=sharding)

    def _recompute(self, scheduler: str, room: Room) -> tuple[str, ...]:
        """By stage where there are blocks, and the schedule leaves the stages as they are."""
        if room.in_blocks and scheduler not in WAVES:
            return self.recompute
        return tuple(one for one in self.recompute if one != BY_STAGE)

    def _chunks(self, scheduler: str, pipeline: int, blocks: int) -> list[int]:
        """Chunks on each device: one, or where the schedule interleaves, numbers that blocks can be divided into."""
        name = scheduler.partition("(")[0]
        stated = self.fixed.get("interleave")
        if name not in LOOPED:
            short = pipeline == 1 and name != self.schedulers[0]  # one device has one order, but for names
            return [] if short or (stated or 1) > 1 or (name in WAVES and 2 * pipeline > blocks) else [1]
        if pipeline == 1:
            return []
        if stated:
            return [stated] if stated > 1 and stated * pipeline <= blocks else []
        most = min(MOST_CHUNKS, blocks // pipeline)
        return [n for n in range(2, most + 1) if blocks % (n * pipeline) == 0 or (blocks + 2) % (n * pipeline) == 0]

    def _shardings(self, shape: LayoutChoice) -> tuple[str, ...]:
        """One replica has nothing to divide."""
        if shape.data == 1 and "none" in self.sharding:
            return ("none",)
        return tuple(one for one in self.sharding if shape.pipeline == 1 or one not in self.apart)
