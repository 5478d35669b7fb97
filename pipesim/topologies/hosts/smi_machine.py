"""From the matrix of `nvidia-smi topo -m` to a machine.

A class is the lowest common vertex of two devices: PIX one PCIe switch, PXB a PCIe switch above others, PHB a CPU's
host bridge, NODE a NUMA node with several host bridges, SYS the system. So devices of one class or nearer form groups,
and the groups a tree. NVLinks hide the class of two GPUs; it follows from NICs that are near to both, or from a common
NUMA affinity.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, count

from pipesim.base.errors import FormatError
from pipesim.topologies.hosts.interconnects import OTHER, LinkRates
from pipesim.topologies.hosts.machine import Branch, Machine
from pipesim.topologies.hosts.matrix import CLASSES, Matrix, MatrixCell

# The name of a group of each class.
_GROUPS = ("pcie", "bridge", "host", "numa")
_HOST, _NODE = 2, 3
NVSWITCH = "nvswitch"
# Kinds by the number of NVLinks of a GPU: to a switch, and from GPU to GPU; of two memories the smaller. DGX-2, the
# machine with V100 at a switch, has V100 of 32 GB.
_AT_SWITCH = {6: "v100-32gb", 12: "a100-40gb", 18: "h100-80gb"}
_DIRECT = {6: "v100-16gb", 12: "a100-40gb", 18: "h100-80gb"}


def guessed_kind(matrix: Matrix) -> str | None:
    """The kind of GPU with as many NVLinks as these: V100 for 6, A100 for 12, H100 for 18; None if unknown."""
    total, widest = _totals(matrix)
    return _AT_SWITCH.get(widest) if total > OTHER.nvlinks else _DIRECT.get(total)


def _totals(matrix: Matrix) -> tuple[int, int]:
    """The most NVLinks that any GPU has to all others, and to another."""
    total, widest = [0] * len(matrix.gpus), 0
    for (i, j), cell in matrix.cells.items():
        if cell.nvlinks:
            total[i] += cell.nvlinks
            total[j] += cell.nvlinks
            widest = max(widest, cell.nvlinks)
    return max(total), widest


def machine_of(matrix: Matrix, device: str, rates: LinkRates) -> Machine:
    """GPUs, NICs, PCIe tree and NVLinks. A machine without NICs in the text has one, `nic0`, at its first CPU."""
    forest = _Forest((*matrix.gpus, *matrix.nics), _labels(matrix), rates, [count() for _ in _GROUPS])
    cpus = [_cpu(forest, part) for part in _parts(range(len(forest.names)), forest.labels[_NODE])]
    nics: dict[str, float | None] = dict.fromkeys(matrix.nics)
    if not nics:
        nics["nic0"] = None
        cpus[0] = replace(cpus[0], below=(*cpus[0].below, Branch("nic0", rates.pcie)))
    return Machine(device, matrix.gpus, nics, tuple(cpus), rates.between_cpus, _nvlinks(matrix, device, rates))


# --- the tree --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Forest:
    """The input of a tree: names of devices, for each class their groups, rates, and numbers for new vertices."""

    names: tuple[str, ...]
    labels: list[list[int]]
    rates: LinkRates
    numbers: list[Iterator[int]]


def _cpu(forest: _Forest, members: Sequence[int]) -> Branch:
    """A NUMA node. Its host bridges have the bandwidth of all below them, unless the user limits them."""
    limit = forest.rates.between_bridges or float("inf")
    below = (_branch(forest, _HOST, part) for part in _parts(members, forest.labels[_HOST]))
    limited = tuple(replace(branch, width=min(branch.width, limit)) for branch in below)
    return Branch(f"{_GROUPS[_NODE]}{next(forest.numbers[_NODE])}", forest.rates.between_cpus, limited)


def _branch(forest: _Forest, level: int, members: Sequence[int]) -> Branch:
    """A group of a class; a group of one device is the device itself."""
    if len(members) == 1:
        return Branch(forest.names[members[0]], forest.rates.pcie)
    groups = _parts(members, forest.labels[level - 1]) if level else [[i] for i in members]
    if len(groups) == 1:
        return _branch(forest, level - 1, members)
    below = tuple(_branch(forest, level - 1, group) for group in groups)
    width = sum(branch.width for branch in below) if level == _HOST else forest.rates.pcie
    return Branch(f"{_GROUPS[level]}{next(forest.numbers[level])}", width, below)


def _labels(matrix: Matrix) -> list[list[int]]:
    """For each class but the last, the group of each device."""
    labels = list(range(len(matrix.gpus) + len(matrix.nics)))
    found = []
    for level in range(_NODE + 1):
        _join(labels, (pair for pair, cell in matrix.cells.items() if cell.distance == level))
        for (i, j), cell in matrix.cells.items():
            if cell.distance is not None and cell.distance > level and labels[i] == labels[j]:
                raise _contradiction(matrix, (i, j), cell, level)
        if level == _NODE:
            _join_by_affinity(matrix, labels)
        found.append(list(labels))
    return found


def _join(labels: list[int], pairs: Iterable[tuple[int, int]]) -> None:
    """Merge the groups of each pair."""
    for i, j in pairs:
        old, new = labels[j], labels[i]
        if old != new:
            labels[:] = [new if label == old else label for label in labels]


def _join_by_affinity(matrix: Matrix, labels: list[int]) -> None:
    """GPUs joined by NVLink with the same affinity are in one NUMA node, unless their groups are SYS apart."""
    far = [pair for pair, cell in matrix.cells.items() if cell.distance == _NODE + 1]
    for i, j in combinations(range(len(matrix.gpus)), 2):
        same = matrix.affinity[i] and matrix.affinity[i] == matrix.affinity[j]
        groups = {labels[i], labels[j]}
        if same and matrix.cells[i, j].nvlinks and not any({labels[a], labels[b]} == groups for a, b in far):
            _join(labels, [(i, j)])


def _contradiction(matrix: Matrix, pair: tuple[int, int], cell: MatrixCell, level: int) -> FormatError:
    one, other = ([*matrix.gpus, *matrix.nics][i] for i in pair)
    return FormatError(
        f"{cell.place}: {cell.text} found for {one} and {other}; {CLASSES[level]} or nearer was expected, since both "
        f"are that near to another device"
    )


def _parts(members: Iterable[int], labels: Sequence[int]) -> list[list[int]]:
    """The members by group, in order of first appearance."""
    groups: dict[int, list[int]] = {}
    for i in members:
        groups.setdefault(labels[i], []).append(i)
    return list(groups.values())


# --- NVLinks ---------------------------------------------------------------------------------------------------------


def _nvlinks(matrix: Matrix, device: str, rates: LinkRates) -> tuple[tuple[str, str, float], ...]:
    """Links between GPUs; through a switch if a GPU shows more NVLinks than it has."""
    joined = {pair: cell for pair, cell in matrix.cells.items() if cell.nvlinks}
    for cell in joined.values():
        if cell.nvlinks > rates.nvlinks:
            raise FormatError(
                f"{cell.place}: {cell.text} found; a GPU of kind {device} has {rates.nvlinks or 'no'} NVLinks; name "
                "another kind"
            )
    if not joined:
        return ()
    if _totals(matrix)[0] > rates.nvlinks:
        return _switched(matrix, rates)
    return tuple((matrix.gpus[i], matrix.gpus[j], cell.nvlinks * rates.nvlink) for (i, j), cell in joined.items())


def _switched(matrix: Matrix, rates: LinkRates) -> tuple[tuple[str, str, float], ...]:
    """GPUs that are joined by NVLinks are at one switch, each with the most links that it shows to another."""
    labels = list(range(len(matrix.gpus)))
    _join(labels, (pair for pair, cell in matrix.cells.items() if cell.nvlinks))
    found: list[tuple[str, str, float]] = []
    groups = [group for group in _parts(range(len(matrix.gpus)), labels) if len(group) > 1]
    for number, group in enumerate(groups):
        for pair in combinations(group, 2):
            cell = matrix.cells[pair]
            if not cell.nvlinks:
                one, other = (matrix.gpus[i] for i in pair)
                raise FormatError(
                    f"{cell.place}: {cell.text} found for {one} and {other}; NV# was expected, since both are at an "
                    "NVSwitch (they have more NVLinks to others than a GPU has)"
                )
        name = NVSWITCH if len(groups) == 1 else f"{NVSWITCH}{number}"
        most = {i: max(matrix.cells[min(i, j), max(i, j)].nvlinks for j in group if j != i) for i in group}
        found += [(matrix.gpus[i], name, most[i] * rates.nvlink) for i in group]
    return tuple(found)
