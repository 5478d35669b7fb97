"""Machines joined by their NICs into one cluster.

core         mlx5_0 ═ core ═ mlx5_0                 every NIC on one switch that never blocks
rails        mlx5_0 ═ rail0 ═ spine0 ═ rail1        the first NIC of every machine on one switch, the second on
                                                    another, and so on
leaf_spine   mlx5_0 ═ leaf0 ═ spine0 ═ leaf1        all NICs of some machines on a leaf; each leaf to each spine
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal

from pipesim.base import units
from pipesim.base.errors import InputError
from pipesim.core.cluster import Cluster, Device, Link
from pipesim.topologies import parts
from pipesim.topologies.hosts.machine import Machine, detour, wires_of

MICROSECOND = 1e-6


@dataclass(frozen=True, slots=True)
class NetworkFabric:
    """The network between NICs. `bandwidth` is that of each NIC; None: as in the descriptions of the machines.

    `uplink` is that of each link between two switches; None: enough never to block. `latency` is that of each link
    of the network, the NIC's PCIe included.
    """

    topology: Literal["core", "rails", "leaf_spine"] = "core"
    bandwidth: float | None = field(default=None, metadata={"parse": units.bandwidth})
    latency: float = field(default=1.5 * MICROSECOND, metadata={"parse": units.duration})
    uplink: float | None = field(default=None, metadata={"parse": units.bandwidth})
    spines: int = 1
    nodes_per_leaf: int | None = None

    def __post_init__(self) -> None:
        for name in ("bandwidth", "uplink"):
            value = getattr(self, name)
            if value is not None:
                parts.bandwidth(name, value)
        parts.count("spines", self.spines)
        if self.topology == "leaf_spine":
            if self.nodes_per_leaf is None:
                raise InputError("nodes_per_leaf: missing; topology 'leaf_spine' needs it")
            parts.count("nodes_per_leaf", self.nodes_per_leaf)


@dataclass(frozen=True, slots=True)
class Placed:
    """A machine in a cluster, with its NICs on the network, the memory of its GPUs and the latency of a GPU."""

    machine: Machine
    nics: tuple[str, ...]
    memory: float | str | None = None
    latency: float = MICROSECOND


def cluster_of(name: str, places: Sequence[Placed], fabric: NetworkFabric) -> Cluster:
    """The cluster of these machines, in order node0, node1, ...; a machine alone has no NICs and no network."""
    alone = len(places) == 1
    _check_size(places, fabric)
    devices: list[Device] = []
    links: list[Link] = []
    for n, place in enumerate(places):
        node, machine = f"node{n}", place.machine
        gpus = ((f"{node}.{gpu}", node) for gpu in machine.gpus)
        devices += parts.devices(gpus, machine.device, place.memory)
        nics = () if alone else place.nics
        wires = wires_of(machine, nics)
        links += [Link(f"{node}.{w.source}", f"{node}.{w.target}", w.width, w.ends * place.latency) for w in wires]
        between = detour(machine, wires, nics) if nics else 0
        for j, nic in enumerate(nics):
            links += _uplink(
                f"{node}.{nic}", between, _speed(place, nic, fabric), fabric.latency, _switch(fabric, n, j)
            )
    if not alone:
        links += _between_switches(places, fabric)
    return Cluster(name, tuple(devices), tuple(links))


def _check_size(places: Sequence[Placed], fabric: NetworkFabric) -> None:
    gpus = sum(len(place.machine.gpus) for place in places)
    nvlinks = sum(len(place.machine.nvlinks) for place in places)
    switches = len(places) * fabric.spines if fabric.topology != "core" else 0
    parts.size(f"nodes: {len(places)}", devices=gpus, links=nvlinks + switches)
    if len(places) > 1 and not all(place.nics for place in places):
        n = next(n for n, place in enumerate(places) if not place.nics)
        raise InputError(f"nics: node{n} has none on the network; at least one was expected")


def _speed(place: Placed, nic: str, fabric: NetworkFabric) -> float:
    speed = fabric.bandwidth or place.machine.nics[nic]
    if not speed:
        raise InputError(
            f"the NIC {nic!r} has no speed in its description; give the bandwidth of each, inter='100 Gb/s', or in a "
            "file of machines bandwidth = '100 Gb/s' under [fabric]"
        )
    return speed


def _switch(fabric: NetworkFabric, node: int, nic: int) -> str:
    if fabric.topology == "rails":
        return f"rail{nic}"
    return f"leaf{node // (fabric.nodes_per_leaf or 1)}" if fabric.topology == "leaf_spine" else "core"


def _uplink(nic: str, between: int, speed: float, latency: float, switch: str) -> list[Link]:
    """Links from a NIC over its detour to its switch."""
    way = [nic, *(f"{nic}.port{i}" for i in range(between)), switch]
    last = len(way) - 2
    return [Link(a, b, speed, latency if i == last else 0.0) for i, (a, b) in enumerate(pairwise(way))]


def _between_switches(places: Sequence[Placed], fabric: NetworkFabric) -> list[Link]:
    """Links from each rail or leaf to each spine; none if there is only one switch."""
    below: Counter[str] = Counter()
    for n, place in enumerate(places):
        for j, nic in enumerate(place.nics):
            below[_switch(fabric, n, j)] += _speed(place, nic, fabric)  # type: ignore[assignment]  # sums may be floats
    if len(below) == 1:
        return []
    return [
        Link(switch, f"spine{s}", fabric.uplink or total / fabric.spines, fabric.latency)
        for switch, total in below.items()
        for s in range(fabric.spines)
    ]
