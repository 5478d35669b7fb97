"""The graph of all ranks: nodes with their dependencies, sends with receives, collectives with members.

    rank 0    0 compute ── 1 compute ── 2 send ┄┄┄┐          a unit: a node, or a send with its
    rank 1                          3 receive ┄┄┄┄┴ 4 ...    receive, or all members of a collective

Nodes are numbered over all ranks, rank after rank, in the order of their files. Sends and receives between the same two
ranks with the same tag are matched in the order of the files; so are collectives of one type in one group.
"""

import heapq
import itertools
import json
import re
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pipesim.base import serialisation
from pipesim.base.arrays import Ints, Ragged
from pipesim.base.errors import FormatError, InputError, shown, within
from pipesim.importers.chakra import node_messages
from pipesim.importers.chakra.node_messages import COLLECTIVE, COLLECTIVES, METADATA, RANKS, RECEIVE, SEND, Node

Groups = dict[str, tuple[int, ...]]

_RANK = re.compile(r"\.([0-9]{1,6})\.et$")


@dataclass(frozen=True, slots=True)
class Collective:
    """A collective: its type, its bytes (as each rank states them), the nodes in order of rank."""

    type_: str
    size: int
    members: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Graph:
    """All nodes, for each its rank and the nodes that it waits for, and the communication between ranks."""

    ranks: tuple[int, ...]
    nodes: tuple[Node, ...]
    rank: tuple[int, ...]
    needs: Ragged
    send_of: Mapping[int, int]  # receive -> its send
    collectives: tuple[Collective, ...]

    def place(self, node: int) -> str:
        """The rank, id and name of a node, for error messages."""
        name = f" ({shown(self.nodes[node].name)})" if self.nodes[node].name else ""
        return f"rank {self.rank[node]}: node {self.nodes[node].id}{name}"

    def ends(self, send: int) -> tuple[int, int]:
        """The ranks that a send leads from and to."""
        return self.rank[send], self.nodes[send].number("comm_dst")


def load(paths: Sequence[Path], groups: str | None = None) -> Graph:
    """The graph in the files of all ranks; `groups` names a JSON file with the ranks of process groups."""
    files = sorted((_rank_of(path, order), order, path) for order, path in enumerate(paths))
    ranks = tuple(rank for rank, _, _ in files)
    for (one, _, first), (other, _, second) in itertools.pairwise(files):
        if one == other:
            raise InputError(f"{second}: is of rank {one}, as is {first}; one file per rank was expected")
    known = _read_groups(groups) if groups else {}
    nodes: list[Node] = []
    rank_of: list[int] = []
    counts: list[int] = []
    needs = array("q")
    for rank, _, path in files:
        offset, waiting = len(nodes), list[tuple[int, ...]]()
        for node, ids in node_messages.read(path):
            nodes.append(node)
            waiting.append(ids)
            rank_of.append(rank)
            with within(str(path)):
                known |= _groups_in(node)
        with within(str(path)):
            needs.extend(_needs(nodes, offset, waiting))
        counts += map(len, waiting)
    with within(named(paths)):
        return Graph(
            ranks,
            tuple(nodes),
            tuple(rank_of),
            Ragged.of_lengths(np.array(counts, np.int64), np.frombuffer(needs, np.int64)),
            _matched(nodes, rank_of, set(ranks)),
            tuple(_collectives(nodes, rank_of, ranks, known)),
        )


def named(paths: Sequence[Path]) -> str:
    """The files of all ranks, for error messages."""
    return str(paths[0]) if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more"


def _rank_of(path: Path, order: int) -> int:
    """The number in `name.3.et`, else the file's place among all."""
    named = _RANK.search(path.name)
    return int(named[1]) if named else order


def _needs(nodes: Sequence[Node], offset: int, waiting: Sequence[tuple[int, ...]]) -> Iterator[int]:
    """The dependencies of the nodes of a rank, node after node, as numbers over all ranks."""
    index = {nodes[number].id: number for number in range(offset, len(nodes))}
    for number, ids in enumerate(waiting, offset):
        for need in ids:
            if need not in index:
                raise FormatError(
                    f"node {nodes[number].id}: data_deps, ctrl_deps: unknown node {need}, in no message of the file"
                )
            yield index[need]


# --- process groups --------------------------------------------------------------------------------------------------


def _read_groups(name: str) -> Groups:
    """A JSON object of names and lists of ranks."""
    data = serialisation.read_data(Path(name))
    with within(name):
        return {key: _ranks_in(key, value) for key, value in data.items()}


def _ranks_in(name: str, value: Any) -> tuple[int, ...]:  # noqa: ANN401 - what a file holds is anything
    if not isinstance(value, list) or not all(type(rank) is int and 0 <= rank < 10**6 for rank in value):
        raise FormatError(f"group {shown(name)}: {shown(value)} found; a list of ranks was expected")
    if len(set(value)) != len(value):
        raise FormatError(f"group {shown(name)}: {shown(value)} found; each rank once was expected")
    return tuple(value)


def _is_rank(word: str) -> bool:
    return word.isascii() and word.isdecimal() and len(word) < 7


def _groups_in(node: Node) -> Groups:
    """The group of a collective that states its ranks; those that a metadata node lists, JSON in a list in a text."""
    if node.type == COLLECTIVE and RANKS in node.attributes:
        name, listed = str(node.attributes.get("pg_name", ""))[:60], str(node.attributes[RANKS])
        words = listed.split(",")
        with within(f"node {node.id}: {RANKS}"):
            return {name: _ranks_in(name, [int(word) for word in words] if all(map(_is_rank, words)) else listed)}
    start, stop = node.values.find("[{"), node.values.rfind("}]")
    if node.type != METADATA or start < 0 or stop < start:
        return {}
    try:
        listed = json.loads(node.values[start : stop + 2])
    except (ValueError, RecursionError):
        return {}
    with within(f"node {node.id}: inputs"):
        return {
            str(item["pg_name"])[:60]: _ranks_in(str(item["pg_name"])[:60], item["ranks"])
            for item in listed
            if isinstance(item, dict) and "pg_name" in item and item.get("ranks")
        }


# --- matching --------------------------------------------------------------------------------------------------------


def _matched(nodes: Sequence[Node], rank_of: Sequence[int], ranks: set[int]) -> dict[int, int]:
    """For each receive its send."""
    waiting: dict[tuple[int, int, int], list[int]] = {}
    receives: dict[tuple[int, int, int], list[int]] = {}
    for number, node in enumerate(nodes):
        if node.type not in {SEND, RECEIVE}:
            continue
        mine, other = ("comm_src", "comm_dst") if node.type == SEND else ("comm_dst", "comm_src")
        with within(f"rank {rank_of[number]}: node {node.id}"):
            if other not in node.attributes:
                raise FormatError(f"{other}: missing; the rank at the other end was expected")
            ends = {mine: node.number(mine, rank_of[number]), other: node.number(other)}
            if ends[mine] != rank_of[number]:
                raise FormatError(f"{mine}: {ends[mine]} found; {rank_of[number]}, its own rank, was expected")
            if ends[other] not in ranks:
                raise InputError(f"{other}: rank {ends[other]} has no file; the files of all ranks were expected")
        key = (ends["comm_src"], ends["comm_dst"], node.number("comm_tag"))
        (waiting if node.type == SEND else receives).setdefault(key, []).append(number)
    for key in sorted({*waiting, *receives}):
        sent, received = len(waiting.get(key, ())), len(receives.get(key, ()))
        if sent != received:
            raise FormatError(
                f"from rank {key[0]} to rank {key[1]}, tag {key[2]}: {sent} sends and {received} receives found; equal "
                "numbers were expected"
            )
    return {receive: send for key, sends in waiting.items() for send, receive in zip(sends, receives[key], strict=True)}


def _collectives(
    nodes: Sequence[Node], rank_of: Sequence[int], ranks: tuple[int, ...], known: Groups
) -> list[Collective]:
    """The n-th collective of a type and a group on one rank is the n-th of that type and group on all."""
    found: dict[tuple[str, str], dict[int, list[int]]] = {}
    for number, node in enumerate(nodes):
        if node.type != COLLECTIVE:
            continue
        with within(f"rank {rank_of[number]}: node {node.id}"):
            key = (_group_of(node, known), _type_of(node))
        found.setdefault(key, {}).setdefault(rank_of[number], []).append(number)
    made = []
    for (group, type_), by_rank in found.items():
        expected = known[group] if group else ranks
        with within(f"{type_} in group {group or 'of all ranks'}"):
            rows = _rows(by_rank, expected)
        made += [
            Collective(type_, max(nodes[member].number("comm_size") for member in members), members) for members in rows
        ]
    return made


def _rows(by_rank: Mapping[int, list[int]], expected: tuple[int, ...]) -> list[tuple[int, ...]]:
    """The members of each collective, in order."""
    strange = next((rank for rank in by_rank if rank not in expected), None)
    if strange is not None:
        raise FormatError(f"rank {strange} takes part; the group has {shown(list(expected))}")
    counts = {rank: len(by_rank.get(rank, ())) for rank in expected}
    if len(set(counts.values())) > 1:
        least, most = min(counts, key=lambda r: (counts[r], r)), max(counts, key=lambda r: (counts[r], -r))
        raise FormatError(
            f"{counts[least]} on rank {least} and {counts[most]} on rank {most} found; equal numbers on all "
            f"{len(expected)} ranks of the group were expected (is the file of a rank missing?)"
        )
    return list(zip(*(by_rank[rank] for rank in expected), strict=True))


def _group_of(node: Node, known: Groups) -> str:
    """The name of the group; "" for all ranks."""
    name = node.attributes.get("pg_name", "")
    if not isinstance(name, str):
        name = ""
    if name in known:
        return name
    if name in {"", "0", "default_pg"}:
        dimensions = node.attributes.get("involved_dim", ())
        if isinstance(dimensions, tuple) and not all(dimensions):
            raise InputError(
                f"involved_dim: {list(dimensions)} found: it names dimensions of a network that the trace does not "
                "describe; give the ranks of process groups with groups=..."
            )
        return ""
    raise InputError(
        f"pg_name: the ranks of group {shown(name)} are not in the files; give them with groups=..., a JSON file such "
        f'as {{"{name[:20]}": [0, 1]}}'
    )


def _type_of(node: Node) -> str:
    number = node.number("comm_type", -1)
    if not 0 <= number < len(COLLECTIVES):
        raise FormatError(f"comm_type: {number} found; 0 to {len(COLLECTIVES) - 1} was expected")
    return COLLECTIVES[number]


# --- units -----------------------------------------------------------------------------------------------------------


def in_order(graph: Graph, units: Sequence[Sequence[int]]) -> list[int]:
    """The units in topological order: the smallest rank first, then as recorded, then by id."""
    unit_of = np.zeros(len(graph.nodes), np.int64)
    for number, unit in enumerate(units):
        unit_of[list(unit)] = number
    code = np.unique(unit_of[graph.needs.row_of_value()] * len(units) + unit_of[graph.needs.values])
    waits = Ragged.of_pairs(len(units), code // len(units), code % len(units))
    readers, missing = waits.inverse(len(units)), array("q", waits.lengths.tobytes())
    place = _places(graph)
    key = array("q", (min(int(place[node]) for node in unit) for unit in units))
    unit_at = np.empty(len(graph.nodes), np.int64)
    unit_at[key] = np.arange(len(units))
    ready = [key[number] for number, count in enumerate(missing) if not count]
    heapq.heapify(ready)
    order: list[int] = []
    while ready:
        number = int(unit_at[heapq.heappop(ready)])
        order.append(number)
        for reader in readers[number].tolist():
            missing[reader] -= 1
            if not missing[reader]:
                heapq.heappush(ready, key[reader])
    if len(order) < len(units):
        raise _cycle(graph, units, waits, {number for number, count in enumerate(missing) if count})
    return order


def _places(graph: Graph) -> Ints:
    """For each node its position among all, by rank, then by its recorded start, then by its id."""
    starts = np.array([node.start_us for node in graph.nodes], np.int64)
    ids = np.array([node.id for node in graph.nodes], np.uint64)
    place = np.empty(len(graph.nodes), np.int64)
    place[np.lexsort((ids, starts, np.array(graph.rank, np.int64)))] = np.arange(len(graph.nodes))
    return place


def _cycle(graph: Graph, units: Sequence[Sequence[int]], waits: Ragged, left: set[int]) -> FormatError:
    """Walk back from a unit that was never reached, through others like it, until one repeats."""
    unit, seen = min(left), dict[int, None]()
    while unit not in seen:
        seen[unit] = None
        unit = min(other for other in waits[unit].tolist() if other in left)
    walked = list(seen)
    cycle = [graph.place(units[number][0]) for number in reversed(walked[walked.index(unit) :])]
    if len(cycle) > 4:
        cycle[2:-1] = ["..."]
    return FormatError(f"nodes wait for each other in a cycle: {' -> '.join([*cycle, cycle[0]])}")
