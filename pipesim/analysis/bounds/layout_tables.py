"""What bounds over layouts read: least seconds of each unit, and the most that rings between replicas can carry.

A unit is what plans do not cut: a block, or a layer (`granularity`). Everything is at its best, whichever devices of
the cluster a plan uses: docs/certificate.md, section 15.
"""

import functools
from collections import Counter
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from pipesim.analysis.bounds.layer_sums import kinds_of
from pipesim.base.arrays import Floats, Ints
from pipesim.core.cluster import Cluster
from pipesim.core.costs import Costs
from pipesim.core.granularity import blocks_of
from pipesim.core.model import Model
from pipesim.core.sharing import sharing_rule
from pipesim.core.teams import teams_of
from pipesim.lowering import Options
from pipesim.lowering.memory import state_factor
from pipesim.lowering.recompute import Recomputation
from pipesim.lowering.reductions import BUCKET, VALUE
from pipesim.lowering.setup import SHARDINGS
from pipesim.lowering.transfers import messages_between


class UnitSeconds(NamedTuple):
    """Least seconds of one microbatch's share in each unit, recomputation included."""

    forward: Floats
    back: Floats  # from a gradient of the output to one of the input: a whole backward, or its first half
    work: Floats  # forward and backward, the latter whole or in two halves, on one device
    by_kind: Floats  # [kind, unit]: the same on each kind


@dataclass(frozen=True, eq=False)
class LayoutTables:
    """Of one model at one width on one cluster, with the options of its iteration."""

    costs: Costs
    options: Options
    bounds: Ints  # the first layer of each unit, and the number of layers
    kinds: tuple[str, ...]
    teams: Floats  # of each kind, that there is room for
    devices: int
    widest: float  # bytes/s between any two devices, at most
    crossing: float  # between devices of different nodes
    leaving: float  # out of one device, over all its links
    delay: float  # of any message between devices
    together: int  # how many GPUs of a group of replicas a node has, at most
    memory: float  # of the device that has most; infinite where it is not known
    all_memory: float  # of all devices together

    @property
    def model(self) -> Model:
        """Layers, with sizes at this width."""
        return self.costs.model

    @property
    def units(self) -> int:
        """How many parts a plan can have."""
        return len(self.bounds) - 1

    def per_unit(self, layers: Floats) -> Floats:
        """Sums over the layers of each unit."""
        found: Floats = np.add.reduceat(layers, self.bounds[:-1])
        return found

    @functools.cached_property
    def _recomputed(self) -> dict[str, tuple[Floats, Floats]]:
        """By kind, which layers are done again, and of which attention's core is: whatever kind rank 0 has."""
        masks = [self._recomputation(kind) for kind in self.kinds]
        whole = np.all([mask.whole for mask in masks], axis=0)
        if self.options.recompute_blocks is not None:  # so many of each stage: how many in all, the cuts decide
            whole = np.zeros_like(whole)
        return {
            kind: (whole.astype(float), mask.core.astype(float)) for kind, mask in zip(self.kinds, masks, strict=True)
        }

    def _recomputation(self, kind: str) -> Recomputation:
        options = replace(self.options, recompute_blocks=None)
        return Recomputation(options, self.costs, kind, 0, len(self.model))

    @functools.lru_cache(maxsize=8)  # noqa: B019 - few tables, and as long as they live
    def seconds(self, share: float, *, splits: bool) -> UnitSeconds:
        """Of a share of a microbatch, where backwards may be split or not (B37)."""
        rows = []
        for kind in self.kinds:
            whole, core = self._recomputed[kind]
            at = functools.partial(self.costs.seconds, kind=kind, share=share)
            again = at("recompute") * whole + at("core") * core
            ahead, back = at("forward"), np.minimum(at("backward"), at("backward_first"))
            work = back
            if splits:
                halves = at("backward_input"), at("backward_weight")
                back, work = np.minimum(back, halves[0]), np.minimum(back, halves[0] + halves[1])
            rows.append([self.per_unit(part) for part in (ahead, back + again, ahead + work + again)])
        ahead, back, work = (np.array(column) for column in zip(*rows, strict=True))
        return UnitSeconds(ahead.min(axis=0), back.min(axis=0), work.min(axis=0), work)

    @functools.cached_property
    def trained(self) -> Floats:
        """Bytes of trained parameters of each unit, on one GPU."""
        return self.per_unit(self.model.trained_bytes)

    def shards(self, copies: int) -> int:
        """Over how many GPUs state and step are divided."""
        if self.options.sharding == "none":
            return 1
        return min(self.options.sharding_size or copies, copies)

    def step(self, data: int) -> Floats:
        """Seconds of the optimizer's step on each unit (B40)."""
        return self.trained * self.options.optimizer_s_per_byte / self.shards(data * self.costs.widths.context)

    def reduction(self, data: int) -> Floats:
        """Seconds from a stage's last backward to its summed gradients, at least: of each unit alone (B41)."""
        options, copies = self.options, data * self.costs.widths.context
        factor = 1.0 if options.gradient_bytes is None else options.gradient_bytes
        size, shard = self.trained * factor, self.shards(copies)
        each_time = options.sharding in {"zero2", "zero3"} and shard > 1
        if options.gradient_overlap and not each_time:
            last = BUCKET * VALUE.get(self.model.precision, 2.0)
            size = np.zeros_like(size) if self.model.is_partly_frozen else np.minimum(size, last * factor)
        if shard == 1:
            return size * self._per_byte(copies, 2)
        return size * self._per_byte(shard, 1) + size / shard * self._per_byte(copies // shard, 2)

    def gather(self, data: int) -> Floats:
        """Seconds in which each unit's parameters are gathered after the step (B41)."""
        shard = self.shards(data * self.costs.widths.context)
        if self.options.gradient_overlap or self.options.sharding not in {"zero1", "zero2"} or shard == 1:
            return np.zeros(self.units)
        return self.trained * self._per_byte(shard, 1)

    def _per_byte(self, copies: int, rounds: int) -> float:
        """Seconds of a ring for each byte of a GPU."""
        if copies < 2:
            return 0.0
        rings = max(1, min(self.together, copies // 2)) if self.options.rings == "all" else 1
        rate = max(self.crossing * rings, self.widest if copies <= self.together else 0.0)
        return rounds * (copies - 1) / copies / rate if rate > 0 else 0.0

    def sent(self, data: int) -> float:
        """Seconds in which the links of a GPU carry all that it sends in exchanges of all units (B45)."""
        if not sharing_rule(self.options.sharing).contended or self.leaving <= 0:
            return 0.0
        if not sharing_rule(self.options.sharing).has_links:
            return 0.0
        copies = data * self.costs.widths.context
        factor = 1.0 if self.options.gradient_bytes is None else self.options.gradient_bytes
        shard = self.shards(copies)
        rounds = 2 * (copies - 1) / copies if shard == 1 else (shard - 1) / shard
        return float(self.trained.sum()) * factor * rounds / self.leaving

    def message(self, parts: int) -> float:
        """Seconds of the quickest message between stages, of a tensor in so many parts between replicas (B38)."""
        if not sharing_rule(self.options.sharing).has_links or self.units < 2 or self.widest <= 0:
            return 0.0
        widths = self.costs.widths
        scattered = self.options.scatter_sends or self.model.sequence_parallel
        least = min(one.part for one in messages_between(widths, widths, scattered=scattered))
        cut = float(self.model.cut_bytes[self.bounds[1:-1] - 1].min())
        return self.delay + cut * least / parts / self.widest

    @property
    def least_part(self) -> float:
        """The part of their time that a forward and a backward done as one take at least (R5)."""
        factor = self.options.pair_factor
        return 1 - self.options.pair_overlap / 2 if factor is None else min(1.0, factor)

    @functools.cached_property
    def stash(self) -> Floats:
        """Bytes of one microbatch that each unit keeps until its backward has ended, at least."""
        kept = np.min([self._recomputation(kind).layer_bytes for kind in self.kinds], axis=0)
        return np.maximum(0.0, self.per_unit(kept) - _WHOLE_BYTES)

    @functools.cached_property
    def stash_without(self) -> Floats:
        """The same of units that are not done again, where cuts and stages decide which are."""
        return np.maximum(0.0, self.per_unit(self.model.stash_bytes) - _WHOLE_BYTES)

    @functools.cached_property
    def again(self) -> Floats:
        """Least seconds in which each unit's forward is done again."""
        rows = [self.per_unit(self.costs.seconds("recompute", kind=kind, share=1.0)) for kind in self.kinds]
        found: Floats = np.min(rows, axis=0)
        return found

    def room(self, pipeline: int, data: int) -> float:
        """Bytes that the GPUs of one replica of each lane have for activations, together (B46)."""
        if not self.model.has_bytes or self.memory == np.inf:
            return np.inf
        each = self.memory + 1 - self.options.reserve - self.options.workspace
        return float(pipeline * each - self._static(data))

    @functools.cached_property
    def room_of_all(self) -> float:
        """Bytes that one GPU of every team has for activations, all together, whatever the replicas (B46)."""
        if not self.model.has_bytes or self.memory == np.inf:
            return np.inf
        each = self.units + 1 - self.options.reserve - self.options.workspace
        return float((self.all_memory + self.devices * each) / self.costs.widths.gpus - self._static(1))

    def _static(self, data: int) -> float:
        """Bytes of parameters, gradients and state of the whole model, on a GPU of one replica of each stage."""
        options, parts = self.options, self.shards(data * self.costs.widths.context)
        level = SHARDINGS.index(options.sharding)
        gradients = 1.0 if options.gradient_bytes is None else options.gradient_bytes
        state = state_factor(self.model.precision, options.optimizer_state) - 2
        own, summed = (1.0 / parts if level >= 3 else 1.0), (gradients / parts if level >= 2 else gradients)
        return float(self.model.parameter_bytes.sum() * own + self.model.trained_bytes.sum() * (summed + state / parts))


_WHOLE_BYTES = 0.5  # what a stage keeps is rounded to whole bytes


def rates_of_kinds(by_kind: Floats) -> Floats:
    """Weights of devices by kind: all alike, and by how fast each kind is in the mean."""
    alike = np.ones(len(by_kind))
    if len(by_kind) == 1:
        return alike[None]
    speeds = 1 / np.maximum(by_kind.sum(axis=1), 1e-30)
    return np.stack([alike, speeds / speeds.max()])


class Same:
    """A value that is equal only to itself: a cluster of thousands of links takes longer to compare than to bound."""

    __slots__ = ("value",)

    def __init__(self, value: Cluster) -> None:
        self.value = value

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self.value is other.value


@functools.lru_cache(maxsize=64)
def layout_tables(costs: Costs, cluster: Same, options: Options, *, aligned: bool = True) -> LayoutTables:
    """The tables of these costs on a cluster. `aligned`: teams are neighbours inside of a node, where they fit."""
    network, gpus = cluster_limits(cluster), costs.widths.gpus
    blocks = blocks_of(costs) if options.granularity == "block" and aligned else None
    kinds = tuple(kinds_of(cluster.value))
    room = Counter(device.kind for device in cluster.value.devices)
    if gpus > 1 and aligned:
        room = Counter(cluster.value.device(team[0]).kind for team in _teams(cluster, gpus))
    elif gpus > 1:
        room = Counter({kind: count // gpus for kind, count in room.items()})
    most = network.most_in_node
    return LayoutTables(
        costs,
        options,
        np.arange(len(costs.model) + 1) if blocks is None else blocks.bounds,
        kinds,
        np.array([room[kind] for kind in kinds], np.float64),
        len(cluster.value.devices),
        network.widest,
        network.crossing,
        network.leaving,
        network.delay,
        min(most, max(1, most // gpus) * costs.widths.context) if aligned else most,
        network.memory,
        float(sum(device.memory for device in cluster.value.devices)),
    )


@functools.lru_cache(maxsize=64)
def _teams(cluster: Same, gpus: int) -> tuple[tuple[str, ...], ...]:
    return teams_of(cluster.value, gpus)


class ClusterLimits(NamedTuple):
    """What no message and no device of a cluster exceeds."""

    widest: float
    crossing: float
    leaving: float
    delay: float
    most_in_node: int
    memory: float


@functools.lru_cache(maxsize=16)
def cluster_limits(cluster: Same) -> ClusterLimits:
    """Links are added from the widest on: two devices are joined at the bandwidth of the widest way between them."""
    devices, links = cluster.value.devices, cluster.value.links
    node = {device.name: device.node for device in devices}
    parent = {name: name for link in links for name in (link.source, link.target)} | {name: name for name in node}
    joined = {name: {node[name]} if name in node else set() for name in parent}  # nodes, of which two are enough
    count = {name: int(name in node) for name in parent}

    def root(name: str) -> str:
        while parent[name] != name:
            parent[name] = parent[parent[name]]
            name = parent[name]
        return name

    widest = crossing = 0.0
    for link in sorted(links, key=lambda link: -link.fastest):
        one, other = root(link.source), root(link.target)
        if one == other:
            continue
        parent[one] = other
        count[other] += count[one]
        joined[other] = set(sorted(joined[one] | joined[other])[:2])
        widest = max(widest, link.fastest) if count[other] > 1 else widest
        crossing = max(crossing, link.fastest) if len(joined[other]) > 1 else crossing
    leaving = dict.fromkeys(node, 0.0)
    for link in links:
        for end in (link.source, link.target):
            if end in leaving:
                leaving[end] += link.fastest
    direct = any(link.source in node and link.target in node for link in links)
    delay = min((link.delay for link in links), default=0.0) * (1 if direct else 2)
    memory = max(device.memory for device in devices) if all(device.memory for device in devices) else np.inf
    in_node = max(Counter(node.values()).values())
    return ClusterLimits(widest, crossing, max(leaving.values()), delay, in_node, float(memory))
