"""How far a measured iteration may be from a simulated one: an interval from measured runs of the same kind.

kind        how times were found (recorded, computed with constants of the device, at a stated speed), the device, the
            framework, teams or single GPUs, and the number of GPUs
interval    simulated seconds x the middle 90 % of measured / simulated of the rows of the narrowest class of SHARED of
            which there are 20 rows; widened by half where they need not be of the device, or are all of one source

Coverage of rows whose whole source is left out is what a user may expect, whose runs are of no source here.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from pipesim.core.cluster import Cluster
from pipesim.core.costs import Costs
from pipesim.studies.measured_runs import ShippedRun, shipped

LEAST = 20  # rows of a class
MIDDLE = 0.9  # of the rows are in the interval
WIDER = 1.5  # factor on the logarithms where rows need not be of the device, or are of one source
LIKE = 4  # so many times more or fewer GPUs are the same kind
# What rows of a class have in common with a simulation, from the narrowest class on.
SHARED: tuple[tuple[str, ...], ...] = (
    ("basis", "device", "framework", "teams", "gpus"),
    ("basis", "device", "framework", "teams"),
    ("basis", "device", "framework"),
    ("basis", "device"),
    ("basis",),
    (),
)
_TIERS = frozenset("cde")  # of which measured iterations are of runs that were not simulated with their own durations


@dataclass(frozen=True, slots=True)
class RunKind:
    """What of a run its accuracy may depend on."""

    basis: str
    device: str
    framework: str
    teams: bool
    gpus: int

    @classmethod
    def of(cls, run: ShippedRun) -> "RunKind":
        """The kind of a measured run."""
        return cls(run.basis, chip(run.device), family(run.framework), run.tensor > 1, run.gpus)

    def shares(self, other: "RunKind", names: Iterable[str]) -> bool:
        """Whether another run is of the same kind, as far as these fields matter."""
        return all(
            self.gpus <= LIKE * other.gpus and other.gpus <= LIKE * self.gpus
            if name == "gpus"
            else getattr(self, name) == getattr(other, name)
            for name in names
        )


@dataclass(frozen=True, slots=True)
class MeasuredInterval:
    """Between which factors of simulated seconds measured ones of a kind are, and of how many rows that is known."""

    low: float
    high: float
    rows: int
    sources: int
    shared: tuple[str, ...]
    """The fields of the kind that all of these rows have."""
    kind: RunKind

    @property
    def is_widened(self) -> bool:
        """Whether the rows need not be of this device, or are all of one source."""
        return "device" not in self.shared or self.sources == 1

    def as_data(self, seconds: float | None = None) -> dict[str, Any]:
        """Plain numbers: factors, and for a simulated time its seconds."""
        found: dict[str, Any] = {"low": self.low, "high": self.high}
        if seconds is not None:
            found |= {"low_s": self.low * seconds, "high_s": self.high * seconds}
        kind = {name: getattr(self.kind, name) for name in SHARED[0]}
        counts = {"rows": self.rows, "sources": self.sources}
        return found | counts | {"shared": list(self.shared), "widened": self.is_widened, "kind": kind}


def interval(costs: Costs, cluster: Cluster, framework: str | None, gpus: int) -> MeasuredInterval:
    """The interval of a simulation with these costs on so many GPUs of a cluster."""
    devices = {chip(device.kind) for device in cluster.devices}
    device = devices.pop() if len(devices) == 1 else "several kinds"
    return _of_shipped(RunKind(costs.basis, device, family(framework or ""), costs.widths.gpus > 1, gpus))


@lru_cache(maxsize=256)  # of a sweep: few kinds, many points
def _of_shipped(kind: RunKind) -> MeasuredInterval:
    return interval_of(kind, shipped())


def interval_of(kind: RunKind, runs: Sequence[ShippedRun]) -> MeasuredInterval:
    """The interval of a kind by these measured runs."""
    scored = [(RunKind.of(run), run) for run in runs if run.tier in _TIERS]
    for shared in SHARED:
        rows = [run for other, run in scored if kind.shares(other, shared)]
        if len(rows) >= LEAST or not shared:
            return _by(rows, shared, kind)
    raise AssertionError("the last class has all rows")


def _by(rows: Sequence[ShippedRun], shared: tuple[str, ...], kind: RunKind) -> MeasuredInterval:
    """The middle of measured / simulated, which always has the simulated time in it."""
    logarithms = np.log([run.measured_s / run.simulated_s for run in rows])
    ends = np.quantile(logarithms, [(1 - MIDDLE) / 2, (1 + MIDDLE) / 2])
    sources = len({run.source for run in rows})
    low, high = np.exp(ends * (WIDER if "device" not in shared or sources == 1 else 1))
    return MeasuredInterval(min(float(low), 1.0), max(float(high), 1.0), len(rows), sources, shared, kind)


def chip(device: str) -> str:
    """The kind of device, whatever its memory and socket: a100 of a100-80gb."""
    return device.partition("-")[0]


def family(framework: str) -> str:
    """The framework, whatever its version: megatron of megatron-v2."""
    return framework.partition("-")[0]


@dataclass(frozen=True, slots=True)
class Coverage:
    """Of rows of a source, how many are in the intervals by all other sources, and how wide these are."""

    source: str
    rows: int
    inside: int
    median_width: float
    """The median of high / low - 1."""


def coverage(runs: Sequence[ShippedRun]) -> list[Coverage]:
    """How many rows of each source are in intervals that know nothing of the source."""
    scored, found = [run for run in runs if run.tier in _TIERS], []
    for source in dict.fromkeys(run.source for run in scored):
        others = [run for run in scored if run.source != source]
        own = [run for run in scored if run.source == source]
        by_kind = {kind: interval_of(kind, others) for kind in {RunKind.of(run) for run in own}}
        pairs = [(run.measured_s / run.simulated_s, by_kind[RunKind.of(run)]) for run in own]
        inside = sum(one.low <= ratio <= one.high for ratio, one in pairs)
        found.append(Coverage(source, len(own), inside, float(np.median([one.high / one.low - 1 for _, one in pairs]))))
    return found
