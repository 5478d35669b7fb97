"""What is lowered: a plan and a schedule with the costs, the cluster, the options and the scenario of one iteration."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple, TypeVar

import numpy as np

from pipesim.base.arrays import Bools, Floats, Ints, Ragged
from pipesim.base.checks import check_at_least, check_not_negative, check_one_of
from pipesim.base.errors import InputError
from pipesim.core.cluster import Cluster
from pipesim.core.costs import Costs
from pipesim.core.model import Layer
from pipesim.core.plan import Plan
from pipesim.core.program import BACKWARD, FORWARD, INPUT, TRANSFERS, WEIGHT, Transfers
from pipesim.core.scenario import CALM, Scenario
from pipesim.core.schedule import Schedule
from pipesim.core.sharing import SHARING_RULES, SHARINGS, Sharing, SharingRule
from pipesim.core.teams import Team

Recompute = Literal["none", "full", "selective"]
RECOMPUTES: tuple[Recompute, ...] = ("none", "full", "selective")
Sharding = Literal["none", "zero1", "zero2", "zero3"]
SHARDINGS: tuple[Sharding, ...] = ("none", "zero1", "zero2", "zero3")
Granularity = Literal["layer", "block"]
GRANULARITIES: tuple[Granularity, ...] = ("block", "layer")
Rings = Literal["one", "all"]
RINGS: tuple[Rings, ...] = ("one", "all")
Value = TypeVar("Value")
Groups = tuple[tuple[str, ...], ...]
"""GPUs that exchange with each other, of each of several groups."""


@dataclass(frozen=True, slots=True)
class Options:
    """How transfers behave, and what there is beside forwards and backwards."""

    sharing: Sharing = "fair"
    transfers: Transfers = "eager"
    optimizer_s_per_byte: float = 0.0
    optimizer_state: float | None = None
    """Bytes of optimizer state per byte of parameters; None: Adam in the trace's precision."""
    recompute: Recompute = "none"
    """Which layers keep only their input, and do their forward once more before their backward.

    `selective`: only the core of attention, as in Megatron-LM, where layers state it; else the layers that free more
    bytes per second of recomputation than the model as a whole.
    """
    granularity: Granularity = "block"
    """What is done again as one, and keeps one input: a layer, or a block of layers (block3.attention, block3.mlp)."""
    recompute_blocks: int | tuple[int, ...] | None = None
    """With `full`, only the first so many blocks of each stage, or of each by its number; None: all of them."""
    pair_overlap: float = 0.0
    """A forward and a backward done as one take the longer and the part of the shorter that does not hide in it: this
    is the part that does. 0: what a device computes for one it does not compute for the other."""
    pair_factor: float | None = None
    """In place of that, what such a pair takes as a factor on the sum of the two."""
    whole_first_stage: bool = False
    """Whether the first stage does nothing where a schedule has the gradient of its input, which is not needed, and its
    whole backward where it has the gradient of its weights, as PyTorch's pipelines do."""
    scatter_sends: bool = False
    """Whether each GPU of a team sends its part of a tensor; otherwise each sends all of it to its counterpart."""
    message_time: float = 0.0
    """Seconds of each message between stages beside those of its links: what software does at both ends."""
    sharding: Sharding = "none"
    """What the replicas of a stage divide among them: nothing; the optimizer's state and step (zero1, Megatron-LM's
    distributed optimizer); gradients too (zero2); parameters too (zero3, FSDP)."""
    sharding_size: int | None = None
    """Over how many replicas that is divided; None: all. Groups of so many keep the same (HSDP)."""
    gradient_bytes: float | None = None
    """Bytes of a gradient per byte of its parameter; None: the same."""
    step_bytes: float = 0.0
    """Bytes of what the optimizer's step makes and frees, per byte of the parameters that a GPU steps on: a copy of
    the gradients in fp32, where they are kept in 16 bits."""
    gradient_overlap: bool = False
    """Whether gradients are reduced in buckets while the last backwards run, and parameters gathered in buckets while
    the first forwards do."""
    rings: Rings = "one"
    """Over how many rings the replicas of a stage reduce: one, or one for each of them in a node, each over a NIC."""
    tied_all_reduce: bool = False
    """Whether a tied embedding's gradient is summed between the stages that use it, which both hold it."""
    gradient_norm: bool = False
    """Whether all devices exchange the norm of the gradients before any optimizer step."""
    workspace: float = 0.0
    """Bytes on each GPU that kernels of the framework hold or make, beside what layers keep."""
    reserve: float = 0.0
    """Bytes on each GPU that the framework holds beside tensors."""

    def __post_init__(self) -> None:
        _check_share("pair_overlap", self.pair_overlap)
        for name, allowed in (
            ("sharing", SHARINGS),
            ("transfers", TRANSFERS),
            ("recompute", RECOMPUTES),
            ("sharding", SHARDINGS),
            ("rings", RINGS),
            ("granularity", GRANULARITIES),
        ):
            check_one_of(name, getattr(self, name), allowed)
        for name in (
            "optimizer_s_per_byte", "optimizer_state", "pair_factor", "gradient_bytes", "step_bytes",
            "workspace", "reserve",
        ):  # fmt: skip
            value = getattr(self, name)
            if value is not None:
                check_not_negative(name, value)
        if self.sharding_size is not None:
            check_at_least("sharding_size", self.sharding_size)

    def pair_ns(self, first: Floats, second: Floats) -> Ints:
        """Nanoseconds of two actions that are one."""
        together = first + second
        if self.pair_factor is not None:
            return np.rint(together * self.pair_factor).astype(np.int64)
        return np.rint(together - self.pair_overlap * np.minimum(first, second)).astype(np.int64)


def _check_share(name: str, value: float) -> None:
    if not 0 <= value <= 1:
        raise InputError(f"{name} {value} found; 0 to 1 was expected")


DEFAULTS = Options()


class StreamCodes(NamedTuple):
    """Streams by a code of their ends; the codes rise, and the first of these streams has the number `first`."""

    codes: Ints
    first: int

    def find(self, codes: Ints) -> Ints:
        """The streams of these codes."""
        found: Ints = np.searchsorted(self.codes, codes) + self.first
        return found


@dataclass(frozen=True, eq=False)
class Fold:
    """Which rank, stream and medium represents each, and how many streams that are alike cross a medium.

    A stream is all messages from one GPU to another with the same part in what is done; `lowering.folding` finds them.
    """

    ranks: Ints  # rank -> the rank that represents it
    slots: Ints
    rank_of_slot: Ints
    streams: Ints
    media: Ints
    route: Ragged  # stream -> the media that represent those of its route, each once
    alike: Ragged  # stream -> beside each of these, how many streams of its class cross it
    pairs: StreamCodes  # streams of messages between stages
    gathers: StreamCodes
    rings: dict[Groups, int]  # the first stream of each collective's edges
    expanded: bool = False  # whether all tasks are made, and this only names those that are alike

    def keeps(self, streams: Ints) -> Bools:
        """Which of these streams have tasks."""
        found: Bools = (self.streams[streams] == streams) | self.expanded
        return found

    def has_rank(self, rank: Ints) -> Bools:
        """Which of these ranks have tasks."""
        found: Bools = (self.ranks[rank] == rank) | self.expanded
        return found


@dataclass(frozen=True)
class Setup:
    """A plan and a schedule for it, with the costs and the cluster they were made for; and its slots, by index.

    A slot is one replica of one stage: (stage 0, replica 0), (stage 0, replica 1), (stage 1, replica 0), ...
    """

    plan: Plan
    schedule: Schedule
    costs: Costs
    cluster: Cluster
    options: Options = DEFAULTS
    scenario: Scenario = CALM
    notes: tuple[str, ...] = ()
    """What was changed or assumed beside what the costs say, in sentences: shown beside the result."""
    fold: Fold | None = None
    """If given, only ranks and streams that represent others get tasks."""

    @property
    def sharing_rule(self) -> SharingRule:
        """How transfers share links."""
        return SHARING_RULES[self.options.sharing]

    @cached_property
    def rank(self) -> dict[str, int]:
        """The rank of each device."""
        return {device: rank for rank, device in enumerate(self.plan.devices)}

    @cached_property
    def rank_of_gpu(self) -> dict[str, int]:
        """The rank of each GPU."""
        return {name: rank for rank, device in enumerate(self.plan.devices) for name in self.plan.team(device)}

    @cached_property
    def first_slot(self) -> list[int]:
        """The slot of each stage's replica 0."""
        return [0, *np.cumsum(self.plan.replication).tolist()]

    @cached_property
    def slot_of(self) -> Ints:
        """(stage, rank) -> slot, -1 where the rank does not hold the stage."""
        table = np.full((len(self.plan.stages), len(self.plan.devices)), -1, np.int64)
        for n, stage in enumerate(self.plan.stages):
            for replica, device in enumerate(stage.devices):
                table[n, self.rank[device]] = self.first_slot[n] + replica
        return table

    @cached_property
    def slot_of_action(self) -> Ints:
        """The slot of each action."""
        found: Ints = self.slot_of[self.schedule.stage, self.schedule.rank]
        return found

    @cached_property
    def slots(self) -> list[tuple[int, int]]:
        """(stage, rank) of each slot."""
        return [(n, self.rank[device]) for n, stage in enumerate(self.plan.stages) for device in stage.devices]

    @cached_property
    def cell_start(self) -> Ints:
        """Action -> the first action of its cell: itself, unless it is the second of a pair."""
        at = np.arange(len(self.schedule.kind))
        at[np.flatnonzero(self.schedule.paired) + 1] -= 1
        return at

    @cached_property
    def cell_end(self) -> Ints:
        """Action -> the last action of its cell."""
        return np.arange(len(self.schedule.kind)) + self.schedule.paired

    def action_at(self, side: int | Ints, slot: Ints, microbatch: Ints) -> Ints:
        """The forward (0) or backward (1) of a microbatch on a slot that it passes through."""
        at = slot if self.fold is None or self.fold.expanded else self.fold.slots[slot]
        place = self._first_place[at] + microbatch // self._step[slot]
        return self._actions[side, place]  # type: ignore[no-any-return]  # an array of int

    @cached_property
    def _step(self) -> Ints:
        """Of how many microbatches a slot takes one."""
        whole = self.plan.replicas == "whole"
        return np.array([len(self.plan.stages[n].devices) if whole else 1 for n, _ in self.slots], np.int64)

    @cached_property
    def _first_place(self) -> Ints:
        """Where the microbatches of each slot begin in `_actions`."""
        return np.concatenate([[0], np.cumsum(-(-self.plan.microbatches // self._step))]).astype(np.int64)

    @cached_property
    def _actions(self) -> Ints:
        """[forward or backward, place] -> action."""
        schedule = self.schedule
        table = np.full((2, int(self._first_place[-1])), -1, np.int64)
        slot = self.slot_of_action
        backward = (schedule.kind == BACKWARD) | (schedule.kind == INPUT)
        for side, chosen in enumerate((schedule.kind == FORWARD, backward)):
            rows = np.flatnonzero(chosen)
            place = self._first_place[slot[rows]] + schedule.microbatch[rows] // self._step[slot[rows]]
            table[side, place] = rows
        return table

    @cached_property
    def last_backward(self) -> Ints:
        """[slot]: the action that completes its gradients; -1 where no microbatch passes."""
        schedule, last = self.schedule, np.full(len(self.slots), -1, np.int64)
        rows = np.flatnonzero((schedule.kind == BACKWARD) | (schedule.kind == WEIGHT))
        np.maximum.at(last, self.slot_of_action[rows], rows)
        return last

    @cached_property
    def most_messages(self) -> int:
        """No tensor is more messages, and no team has more edges in a gather."""
        return max(len(self.plan.team(device)) for device in self.plan.devices) ** 2

    def stream_codes(self, source: Ints, target: Ints, part: Ints) -> Ints:
        """Codes of messages between slots: by the ranks of both, and which of the messages of a tensor they are."""
        rank = self.rank_of_slot
        return (rank[source] * len(self.plan.devices) + rank[target]) * self.most_messages + part

    def represented(self, rank: Ints) -> Ints:
        """The ranks that represent these, where only those have tasks; otherwise these."""
        return rank if self.fold is None or self.fold.expanded else self.fold.ranks[rank]

    @cached_property
    def rank_of_slot(self) -> Ints:
        """The rank of each slot."""
        return np.array([rank for _, rank in self.slots], np.int64)

    @cached_property
    def stage_of_slot(self) -> Ints:
        """The stage of each slot."""
        return np.array([stage for stage, _ in self.slots], np.int64)

    def ordinal(self, slot: Ints, microbatch: Ints) -> Ints:
        """Which of the microbatches of its slot each is: the first, the second, ..."""
        found: Ints = microbatch // self._step[slot]
        return found

    def costs_at(self, stage: int) -> Costs:
        """The costs at the widths of a stage's teams; experts are divided as the costs have it."""
        return self._costs_at[stage]

    @cached_property
    def _costs_at(self) -> list[Costs]:
        return [self.costs.at(each) for each in self.plan.widths_of_stages(self.costs.widths.expert)]

    @cached_property
    def gpus_of_ranks(self) -> tuple[Ints, Ints]:
        """The GPUs of all ranks, one after the other, by their place in the cluster; and where each rank's begin."""
        teams = [self.plan.team(device) for device in self.plan.devices]
        gpus = np.array([self.cluster.index[name] for team in teams for name in team], np.int64)
        return gpus, np.concatenate([[0], np.cumsum([len(team) for team in teams])]).astype(np.int64)

    def members(self, rank: int) -> Team:
        """The GPUs of a rank."""
        return self.plan.team(self.plan.devices[rank])

    @property
    def has_teams(self) -> bool:
        """Whether any rank is several GPUs."""
        return bool(self.plan.teams)

    def by_slot(self, of: Callable[[int, str], Value]) -> list[Value]:
        """For each slot what depends on its stage and its kind of device only."""
        keys = [(stage, self.kind(rank)) for stage, rank in self.slots]
        known = {key: of(*key) for key in dict.fromkeys(keys)}
        return [known[key] for key in keys]

    def kind(self, rank: int) -> str:
        """The device kind of a rank."""
        return self.cluster.device(self.plan.devices[rank]).kind

    def parameter_bytes(self, stage: int) -> float:
        """Bytes of a stage's parameters, on each GPU of a replica, with its own copy of a tied embedding."""
        part = self.plan.stages[stage]
        own = self.costs_at(stage).model.parameters_of(part.start, part.stop)
        return own + (self._tied.parameter_bytes if self._has_copy(stage) and self._tied else 0)

    def frozen_bytes(self, stage: int) -> float:
        """The part of them that is not trained."""
        part, model = self.plan.stages[stage], self.costs_at(stage).model
        if not model.is_partly_frozen:
            return 0.0
        own = sum(layer.frozen_bytes for layer in model.layers[part.start : part.stop])
        return own + (self._tied.frozen_bytes if self._has_copy(stage) and self._tied else 0)

    @property
    def tied_bytes(self) -> float:
        """Bytes of a tied embedding whose gradients the first and the last stage sum; 0 where there is none."""
        copied = self._tied and self._has_copy(len(self.plan.stages) - 1)
        return float(self._tied.parameter_bytes - self._tied.frozen_bytes) if self._tied and copied else 0.0

    @cached_property
    def _tied(self) -> Layer | None:
        """The embedding whose matrix the head uses, too."""
        layers = self.costs_at(0).model.layers
        if not any(layer.kind == "tied_head" for layer in layers):
            return None
        return next((layer for layer in layers if layer.kind == "embedding"), None)

    def _has_copy(self, stage: int) -> bool:
        """Whether a stage holds its own copy of a tied embedding: the last, on other devices than the first."""
        stages = self.plan.stages
        apart = set(stages[0].devices) != set(stages[-1].devices)
        return self.options.tied_all_reduce and stage == len(stages) - 1 and apart
