"""The least time per microbatch among plans that fit the memory of the devices: after Piper, for layers in a chain."""

from typing import NamedTuple

import numpy as np

from pipesim.base.arrays import Floats, Ints
from pipesim.base.errors import DoesNotFitError, InputError
from pipesim.base.kernels import borrowing, suited
from pipesim.core import plan as plans
from pipesim.core.cluster import Cluster
from pipesim.core.costs import Costs
from pipesim.core.limits import PER_PAIR
from pipesim.core.members import PlannerInfo, ProblemSize
from pipesim.core.model import Model
from pipesim.core.plan import Plan, Stage
from pipesim.lowering import state_factor
from pipesim.planners.groups import by_node, cut_bytes, kinds_of, layer_seconds, prefix, ring, worst_bandwidths

SMALL = 1_000_000  # devices^3 x layers^2: up to here all calls take a tenth of a second as plain Python


def table_bytes(size: ProblemSize) -> float:
    """Bytes of the bandwidths between devices, of the seconds, and of the table of the search."""
    L, V = size.layers, size.devices
    return PER_PAIR * V**2 + 8 * 4 * (L**2 + size.stages * V * L)


@PlannerInfo(tables=table_bytes, look=9)
def piper(
    model: Model,
    cluster: Cluster,
    costs: Costs,
    microbatches: int,
    *,
    memory_limit: bool = True,
    optimizer_state: float | None = None,
) -> Plan:
    """The least seconds per microbatch in the steady state, over all stages on devices in order that fit their memory.

    The objective is the slowest stage or transfer. A stage's seconds are forward and backward of a microbatch split
    evenly over its devices, plus its all-reduce divided by the microbatches; a transfer's are those of activations and
    gradients over the link between the last device of a stage and the first of the next, each sender with its share.
    A device holds parameters, gradients, optimizer state (`optimizer_state` bytes per byte of parameters, by default
    Adam's in the model's precision), and the stash of the microbatches in flight: under 1F1B, one for each remaining
    stage, including itself. A device of memory 0 has no limit. If nothing fits, the error names the stage and the
    missing bytes; with memory_limit=False a plan is returned anyway. Devices are taken node by node, neighbours for
    each stage; others may be idle. Ignores the fill of the pipeline, latencies, and receivers that share a link.
    Piper's splitting of layers and its recomputation are left out.
    """
    plans.check_microbatches(microbatches)
    order = [position for node in by_node(cluster) for position in node]
    memory = _Memory.of(cluster, order, model, microbatches, state_factor(model.precision, optimizer_state))
    clock = _Clock(cluster, order, costs, microbatches)
    best = _solve(clock, memory if memory_limit else memory.without_limit())
    if best is None:
        raise _nothing_fits(cluster, order, memory, clock)
    return Plan(
        model=model.name,
        layers=len(model),
        microbatches=microbatches,
        stages=tuple(Stage(a, b, _names(cluster, order, held)) for a, b, held in best.stages),
        planner="piper",
        objective_s=best.worst,
    )


def _names(cluster: Cluster, order: list[int], held: range) -> tuple[str, ...]:
    return tuple(cluster.devices[order[i]].name for i in held)


class _Memory(NamedTuple):
    """Bytes that layers need, and bytes that devices in order have."""

    static: Floats  # [l]: parameters, gradients and optimizer state of layers 0 .. l-1
    stash: Floats  # [l]: kept of one whole microbatch of layers 0 .. l-1
    capacity: Floats
    microbatches: int

    @classmethod
    def of(cls, cluster: Cluster, order: list[int], model: Model, microbatches: int, factor: float) -> "_Memory":
        known = [float(cluster.devices[i].memory) for i in order]
        capacity = np.array([size if size > 0 else np.inf for size in known])
        static = model.parameter_bytes + model.trained_bytes * (factor - 1)
        return cls(prefix(static), prefix(model.stash_bytes), capacity, microbatches)

    def without_limit(self) -> "_Memory":
        """The same without a limit on any device."""
        return self._replace(capacity=np.full_like(self.capacity, np.inf))

    def need(self, replicas: int, left: int, a: int, b: int) -> float:
        """Bytes on each replica of layers a .. b-1 when it is the first of `left` stages under 1F1B."""
        static, stash = self.static[b] - self.static[a], self.stash[b] - self.stash[a]
        return float(np.rint(static) + np.rint(stash / replicas) * min(left, self.microbatches))


class _Clock:
    """Seconds of stages and transfers, per microbatch, for devices in order."""

    def __init__(self, cluster: Cluster, order: list[int], costs: Costs, microbatches: int) -> None:
        self.cluster, self.order, self.costs = cluster, order, costs
        self.between = worst_bandwidths(cluster)[np.ix_(order, order)]
        self.sent = 2 * cut_bytes(costs)
        self.synchronised = prefix(costs.model.trained_bytes) / microbatches

    def stage(self, held: range) -> Floats:
        """[a, b]: seconds of layers a .. b-1; infinite unless a < b."""
        kinds = kinds_of(self.cluster, [self.order[i] for i in held])
        parameters = self.synchronised[None, :] - self.synchronised[:, None]
        return layer_seconds(self.costs, kinds, 1 / len(held)) + parameters * ring(self.between, held)


class _Solved(NamedTuple):
    """The worst of all stages, and each stage as (first layer, the one after the last, places in the order)."""

    worst: float
    stages: list[tuple[int, int, range]]


class StageCosts(NamedTuple):
    """What a stage on some devices costs, for `extend`."""

    seconds: Floats  # [a, b]: of layers a .. b-1
    sent: Floats  # [b]: bytes at a cut before layer b, both ways
    pace: Floats  # [j]: seconds per byte to a next stage that begins on device j
    static: Floats
    stash: Floats
    capacity: float
    microbatches: int
    lacking: bool  # minimise the bytes that are lacking, in place of seconds


class PiperTable(NamedTuple):
    """[stages left, first device, first layer]: the least bottleneck, and what the first stage does there."""

    worst: Floats
    stop: Ints  # the layer after its last
    replicas: Ints
    following: Ints  # the first device of the next stage

    @classmethod
    def empty(cls, shape: tuple[int, int, int]) -> "PiperTable":
        """No plan yet."""
        return cls(np.full(shape, np.inf), *(np.zeros(shape, np.int64) for _ in range(3)))

    def traced(self) -> _Solved | None:
        """The best number of stages and first device; None where no plan has a finite worst."""
        left, device = np.unravel_index(int(self.worst[1:, :, 0].argmin()), self.worst[1:, :, 0].shape)
        x, i, a = int(left) + 1, int(device), 0
        worst = float(self.worst[x, i, 0])
        if not np.isfinite(worst):
            return None
        stages = []
        while x > 0:
            b, r = int(self.stop[x, i, a]), int(self.replicas[x, i, a])
            stages.append((a, b, range(i, i + r)))
            x, i, a = x - 1, int(self.following[x, i, a]), b
        return _Solved(worst, stages)


def _solve(clock: _Clock, memory: _Memory, *, lacking: bool = False) -> _Solved | None:
    """The least bottleneck, from the last stage to the first, so that how many are left is known.

    worst[x, i, a] = least bottleneck of layers a .. L in x stages, the first of them on devices i, i + 1, ...
                   = min over r, b, j >= i + r of
                     max( layers a .. b on i .. i + r, transfer at b from i + r - 1 to j, worst[x - 1, j, b] )

    With `lacking`, the bytes that a stage lacks take the place of its seconds.
    """
    devices, layers = len(clock.order), len(clock.sent) - 1
    table = PiperTable.empty((min(devices, layers) + 1, devices + 1, layers + 1))
    table.worst[0, devices, layers] = 0.0  # no stage, device or layer remains
    kernel = suited(extend, large=devices**3 * layers**2 > SMALL)
    sent = np.zeros_like(clock.sent) if lacking else clock.sent
    for i in range(devices - 1, -1, -1):
        for r in range(1, devices - i + 1):
            held = range(i, i + r)
            pace = np.append(1 / (r * clock.between[held[-1]]), 0.0)  # [j]: seconds per byte to j; the end costs none
            capacity = memory.capacity[i : i + r].min()
            seconds, microbatches = clock.stage(held), memory.microbatches
            stage = StageCosts(seconds, sent, pace, memory.static, memory.stash, capacity, microbatches, lacking)
            kernel(i, r, stage, table)
    return table.traced()


def extend(i: int, r: int, stage: StageCosts, table: PiperTable) -> None:
    """Put a first stage on devices i .. i+r-1 wherever it is better than the table's, for every x and a.

    rest[b]   least over j of max( transfer at b to j, worst[x - 1, j, b] ): what follows a stage that ends before b

    With more layers a stage is slower and larger: the search ends where it is too slow or too large.
    """
    layers, devices = len(stage.sent) - 1, len(stage.pace) - 1
    worst = table.worst
    rest, next_device = np.zeros(layers + 1), np.zeros(layers + 1, np.int64)
    for x in range(1, min(len(worst) - 1, devices - i - r + 1) + 1):
        rest[:] = np.inf
        for j in range(i + r, devices + 1):
            for b in range(1, layers + 1):
                after = max(worst[x - 1, j, b], stage.sent[b] * stage.pace[j])
                if after < rest[b]:
                    rest[b], next_device[b] = after, j
        for a in range(layers):
            best = worst[x, i, a]
            for b in range(a + 1, layers + 1):
                need = bytes_needed(r, min(x, stage.microbatches), a, b, stage)
                mine = max(need - stage.capacity, 0.0) if stage.lacking else stage.seconds[a, b]
                if mine >= best or (need > stage.capacity and not stage.lacking):
                    break
                if max(mine, rest[b]) < best:
                    best = max(mine, rest[b])
                    worst[x, i, a], table.stop[x, i, a], table.replicas[x, i, a] = best, b, r
                    table.following[x, i, a] = next_device[b]


@borrowing
def bytes_needed(replicas: int, flying: int, a: int, b: int, stage: StageCosts) -> float:
    """Bytes on each replica of layers a .. b-1 with this many microbatches in flight."""
    static, stash = stage.static[b] - stage.static[a], stage.stash[b] - stage.stash[a]
    return np.rint(static) + np.rint(stash / replicas) * flying  # type: ignore[no-any-return]  # a number


def _nothing_fits(cluster: Cluster, order: list[int], memory: _Memory, clock: _Clock) -> InputError:
    """The error for the plan whose worst stage lacks the fewest bytes."""
    attempt = _solve(clock, memory, lacking=True)
    if attempt is None:
        return InputError("times of layers must be finite")
    left = range(len(attempt.stages), 0, -1)
    needs = [memory.need(len(held), x, a, b) for (a, b, held), x in zip(attempt.stages, left, strict=True)]
    lacks = [
        need - memory.capacity[held.start : held.stop].min()
        for need, (_, _, held) in zip(needs, attempt.stages, strict=True)
    ]
    n = int(np.argmax(lacks))
    a, b, held = attempt.stages[n]
    device = cluster.devices[order[min(held, key=lambda i: memory.capacity[i])]]
    flying = min(left[n], memory.microbatches)
    return DoesNotFitError(
        f"no plan fits the memory of cluster {cluster.name!r}: in the best attempt, {len(lacks)} stages, stage {n} "
        f"(layers {a} to {b - 1} on {len(held)} devices, {flying} microbatches in flight) needs {needs[n]:.0f} bytes; "
        f"{device.name!r} has {device.memory}: {lacks[n]:.0f} bytes short; use more devices, smaller microbatches, or "
        "memory_limit=False"
    )
