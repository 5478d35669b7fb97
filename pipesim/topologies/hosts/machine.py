"""One machine: its GPUs and NICs as leaves of a tree of PCIe switches and CPUs, and the NVLinks between the GPUs.

numa0 ──────────── numa1        a link between two CPUs; more than two join at a vertex `sys`
│                  │
pcie0 ─ mlx5_0     pcie1        a vertex with one child is left out, such as a switch with one GPU
│     └ gpu1 ═ nvswitch         NVLinks beside the tree: from GPU to GPU, or to a switch
gpu0 ═════════ ┘
"""

from collections import Counter, deque
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from pipesim.base.errors import InputError, shown

SYSTEM = "sys"


@dataclass(frozen=True, slots=True)
class Branch:
    """A vertex of the tree, with the bytes/s of its link to its parent; without children, a GPU or a NIC."""

    name: str
    width: float
    below: tuple["Branch", ...] = ()


@dataclass(frozen=True, slots=True)
class Wire:
    """A link inside a machine, in bytes/s; `ends` of its two ends are GPUs."""

    source: str
    target: str
    width: float
    ends: int = 0


@dataclass(frozen=True, slots=True)
class Machine:
    """GPUs, NICs with their bytes/s where known, one tree per CPU, and NVLinks as (GPU, GPU or switch, bytes/s)."""

    device: str
    gpus: tuple[str, ...]
    nics: Mapping[str, float | None]
    cpus: tuple[Branch, ...]
    between_cpus: float
    nvlinks: tuple[tuple[str, str, float], ...] = ()

    def __post_init__(self) -> None:
        switches = {b for _, b, _ in self.nvlinks}.difference(self.gpus, (cpu.name for cpu in self.cpus))
        times = Counter([*_names(self.cpus), *switches, SYSTEM])
        name, count = times.most_common(1)[0]
        if count > 1:
            raise InputError(
                f"duplicate name {shown(name)}; different names for all GPUs, NICs and switches were expected"
            )


def _names(branches: tuple[Branch, ...]) -> Iterator[str]:
    for branch in branches:
        yield branch.name
        yield from _names(branch.below)


def wires_of(machine: Machine, nics: Collection[str]) -> list[Wire]:
    """The links of a machine, with these of its NICs."""
    leaves = {*machine.gpus, *nics}
    trees = [tree for tree in (_pruned(cpu, leaves) for cpu in machine.cpus) if tree is not None]
    if len(trees) == 1:
        trees = [_unwrapped(trees[0])]
    found = [(a, b, width) for a, b, width in machine.nvlinks]
    if len(trees) == 2:
        found.append((trees[0].name, trees[1].name, machine.between_cpus))
    elif len(trees) > 2:
        found += [(tree.name, SYSTEM, machine.between_cpus) for tree in trees]
    for tree in trees:
        found += _links(tree)
    gpus = set(machine.gpus)
    return [Wire(a, b, width, (a in gpus) + (b in gpus)) for (a, b), width in _widest(found).items()]


def _widest(links: list[tuple[str, str, float]]) -> dict[tuple[str, str], float]:
    """The fastest link of each pair: a cluster has one per pair, and a GPU with NVLinks to its CPU uses those."""
    found: dict[tuple[str, str], float] = {}
    for a, b, width in links:
        pair = (b, a) if (b, a) in found else (a, b)
        found[pair] = max(width, found.get(pair, 0.0))
    return found


def _pruned(cpu: Branch, leaves: Collection[str]) -> Branch | None:
    """The tree of a CPU with only these leaves; the CPU itself is kept, for its links to other CPUs."""
    below = _kept(cpu.below, leaves)
    return replace(cpu, below=below) if below else None


def _kept(branches: tuple[Branch, ...], leaves: Collection[str]) -> tuple[Branch, ...]:
    kept = []
    for branch in branches:
        if not branch.below:
            kept += [branch] if branch.name in leaves else []
        elif below := _kept(branch.below, leaves):
            kept.append(_unwrapped(replace(branch, below=below)))
    return tuple(kept)


def _unwrapped(branch: Branch) -> Branch:
    """A vertex with one child, replaced by the child, with the lower bandwidth of the two links."""
    if len(branch.below) != 1:
        return branch
    (only,) = branch.below
    return _unwrapped(replace(only, width=min(only.width, branch.width)))


def _links(tree: Branch) -> list[tuple[str, str, float]]:
    found = []
    for branch in tree.below:
        found += [(branch.name, tree.name, branch.width), *_links(branch)]
    return found


def detour(machine: Machine, wires: list[Wire], nics: Collection[str]) -> int:
    """The number of vertices to add between each NIC and the network, so that routes inside a machine avoid it.

    Routes have the fewest hops: through a deep PCIe tree, a route from CPU to CPU over two NICs could be shorter.
    """
    near: dict[str, list[str]] = {}
    for wire in wires:
        near.setdefault(wire.source, []).append(wire.target)
        near.setdefault(wire.target, []).append(wire.source)
    hops = {gpu: _hops(near, gpu) for gpu in machine.gpus}
    out = {gpu: min((hops[gpu][nic] for nic in nics if nic in hops[gpu]), default=0) for gpu in machine.gpus}
    need = 0
    for a in machine.gpus:
        for b in machine.gpus:
            over = out[a] + out[b] + 2  # to a NIC, its link to the network, and the same back
            need = max(need, (hops[a].get(b, 0) - over) // 2 + 1)
    return need


def _hops(near: Mapping[str, list[str]], start: str) -> dict[str, int]:
    hops, queue = {start: 0}, deque([start])
    while queue:
        vertex = queue.popleft()
        for other in near.get(vertex, ()):
            if other not in hops:
                hops[other] = hops[vertex] + 1
                queue.append(other)
    return hops
