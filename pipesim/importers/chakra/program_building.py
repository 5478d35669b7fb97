"""From the graph of all ranks to a program: the recorded run, on a cluster.

    node                  tasks                                                       it has ended when
    computes              one on the lane of its rank (hosts have a lane apart)       that has ended
    send, receive         one transfer between the two ranks                          the transfer has ended
    collective            as many transfers as its algorithm has edges                all of them have ended
    anything with a time  a delay that holds no lane                                  that has ended
    else                  none                                                        all that it waits for has ended

In files that pipesim wrote (`display.execution_traces`), nodes of several ranks that compute as one task are one, every
task takes its nanoseconds and has its number, and a send waits for what its receive waits for.

Where many tasks wait for many, a task without duration joins them. Of the ready nodes of a lane, the one that was
recorded first runs first; of equals the one with the smallest id.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from pipesim.base import units
from pipesim.base.arrays import Ragged
from pipesim.base.checks import check_whole
from pipesim.base.errors import FormatError, InputError, RefusedError, shown, within
from pipesim.core import program as programs
from pipesim.core.cluster import Cluster
from pipesim.core.program import (
    ACTIVATION,
    ALL_REDUCE,
    BACKWARD,
    FORWARD,
    INPUT,
    OPTIMIZER,
    WEIGHT,
    Program,
    Transfers,
)  # fmt: skip
from pipesim.core.sharing import Sharing, sharing_rule
from pipesim.core.teams import label
from pipesim.importers.chakra.collectives import edges
from pipesim.importers.chakra.graph import Collective, Graph, in_order, load, named
from pipesim.importers.chakra.node_messages import (
    BYTES,
    COLLECTIVE,
    COMPUTE,
    KIND,
    MICROBATCH,
    NS,
    RECEIVE,
    SEND,
    STAGE,
    TASK,
    Node,
)  # fmt: skip
from pipesim.importers.chakra.node_times import durations
from pipesim.importers.chakra.phases import NAMES, Phase, layer_phases
from pipesim.lowering.lane_order import lane_order
from pipesim.lowering.messages import Alone, alone

_KINDS: dict[Phase, int] = {"forward": FORWARD, "backward": BACKWARD, "input": INPUT, "weight": WEIGHT}
# So many tasks are joined even for a single reader, or long chains of nodes without duration would accumulate them.
_MOST_UNJOINED = 32
_NO_TRANSFER = Alone(0, 0, 0.0, np.inf, ())


def chakra_program(
    path: Path | Sequence[Path],
    cluster: Cluster,
    *,
    sharing: Sharing = "fair",
    transfers: Transfers = "eager",
    samples: int = 0,
    names: str = NAMES,
    device: str | None = None,
    precision: str = "fp16",
    groups: str | None = None,
) -> Program:
    """The program of the files of all ranks: rank n runs on device n of the cluster.

    Transfers take the time of the cluster's links, not the recorded one. An `eager` send starts when its dependencies
    have ended; a `rendezvous` waits for those of its receive, too. All-reduces, all-gathers, reduce-scatters,
    broadcasts and reduces use a ring; others go directly from each rank to each; all start when every rank has reached
    them. The other options are as in `chakra`; `samples` is the number of samples of the whole run.
    """
    _check_options(sharing, transfers, samples)
    paths = [path] if isinstance(path, Path) else list(path)
    graph = load(paths, groups)
    with within(named(paths)):
        if graph.ranks[-1] >= len(cluster.devices):
            raise InputError(
                f"rank {graph.ranks[-1]} has no device: {cluster.name!r} has {len(cluster.devices)}; one for each rank "
                "was expected"
            )
        computing = [n for n, node in enumerate(graph.nodes) if node.type == COMPUTE]
        seconds = durations(graph, computing, device, precision)
        phases = {number: work.phase for number, work in layer_phases(graph, computing, names).items()}
        builder = _Builder(graph, cluster, seconds, phases)
        builder.build(rendezvous=transfers == "rendezvous")
        if not builder.tasks:
            alone_ = len(graph.ranks) == 1 and bool(graph.collectives)
            raise InputError(
                "no node takes time or moves bytes; there is nothing to simulate"
                + (" (a collective moves nothing for one rank alone: give the files of all ranks)" if alone_ else "")
            )
        return builder.program(sharing, transfers, samples)


def _check_options(sharing: Sharing, transfers: Transfers, samples: int) -> None:
    if transfers not in {"eager", "rendezvous"}:
        raise RefusedError(
            "an execution trace states the dependencies of sends itself; use eager or rendezvous transfers"
        )
    if not sharing_rule(sharing).has_links:
        raise RefusedError(f"sharing {sharing!r} has a channel between stages, which an execution trace does not have")
    check_whole("samples", samples, 0)


@dataclass(slots=True)
class _Task:
    """One task under construction."""

    kind: int
    rank: int  # its own, or the sender of a transfer
    target: int  # the receiver of a transfer
    lane: int
    alone: Alone
    needs: tuple[int, ...]
    node: Node | None  # what it was read from; none where it only joins others

    @property
    def key(self) -> tuple[int, int]:
        """Decides between ready tasks: the recorded start and the id of the node."""
        return (0, 0) if self.node is None else (self.node.start_us, self.node.id)

    def recorded(self, name: str, default: int) -> int:
        """What pipesim recorded of the task, if it wrote the node."""
        return default if self.node is None else self.node.number(name, default)


@dataclass(slots=True)
class _Builder:
    """Tasks, and for each node the tasks whose ends are its end."""

    graph: Graph
    cluster: Cluster
    seconds: dict[int, float]
    phases: dict[int, Phase]
    tasks: list[_Task] = field(default_factory=list)
    ends: dict[int, tuple[int, ...]] = field(default_factory=dict)  # node -> tasks that must have ended
    lanes: dict[tuple[int, bool], int] = field(default_factory=dict)  # (rank, whether the host's) -> lane
    teams: dict[int, tuple[int, ...]] = field(default_factory=dict)  # rank -> the ranks that compute as one with it

    def build(self, *, rendezvous: bool) -> None:
        """Add the tasks of all units in topological order."""
        graph = self.graph
        collective_of = {c.members[0]: c for c in graph.collectives if c.members}
        receive_of = {send: receive for receive, send in graph.send_of.items()}
        waiting = np.bincount(graph.needs.values, minlength=len(graph.nodes))
        units_ = list(_units(graph, receive_of))
        self.teams = _teams(graph, units_)
        for rank in graph.ranks:
            self.lanes.setdefault((self.teams.get(rank, (rank,))[0], False), len(self.lanes))
        for number in in_order(graph, units_):
            first = units_[number][0]
            kind = graph.nodes[first].type
            if kind == COLLECTIVE:
                self._add_collective(collective_of[first])
            elif kind == SEND:
                self._add_transfer(first, receive_of[first], rendezvous=rendezvous)
            else:
                self._add_node(units_[number])
            for node in units_[number]:
                self.ends[node] = self._joined(self.ends[node], int(waiting[node]), node)

    # --- nodes -------------------------------------------------------------------------------------------------------

    def _add_node(self, nodes: Sequence[int]) -> None:
        """A node, or those of several ranks that are one task."""
        node, needs = nodes[0], self._before(nodes)
        recorded, rank = self.graph.nodes[node], self.graph.rank[node]
        ns = recorded.number(NS, -1)
        if ns < 0:
            duration = self.seconds.get(node, recorded.duration_us * 1e-6)
            if not duration:
                self.ends[node] = needs
                return
            ns = int(units.to_ns(np.array([duration]))[0])
        lane, kind = -1, ACTIVATION
        if recorded.number(KIND) > OPTIMIZER:
            kind = ALL_REDUCE
        elif node in self.seconds:
            host = bool(recorded.number("is_cpu_op"))
            leader = self.teams.get(rank, (rank,))[0]
            lane = self.lanes.setdefault((leader, host), len(self.lanes))
            kind = recorded.number(KIND, _KINDS[self.phases[node]] if node in self.phases else FORWARD)
        delay = 0 if lane >= 0 else ns
        task = self._add(node, kind, (rank, rank), Alone(ns, delay, 0.0, np.inf, ()), needs, lane=lane)
        self.ends.update(dict.fromkeys(nodes, (task,)))

    def _add_transfer(self, send: int, receive: int, *, rendezvous: bool) -> None:
        source, target = self.graph.ends(send)
        with within(self.graph.place(send)):
            message = self._alone(source, target, self.graph.nodes[send].size, 1)
        states_all = self.graph.nodes[send].task >= 0
        needs = self._before([send, receive] if rendezvous or states_all else [send])
        task = self._add(send, _moving(self.graph.nodes[send], ACTIVATION), (source, target), message, needs)
        self.ends[send] = (task,)
        self.ends[receive] = tuple(dict.fromkeys((task, *self._before([receive]))))

    def _add_collective(self, collective: Collective) -> None:
        """A collective: all ranks join, then its transfers run, then it has ended for all."""
        graph, first = self.graph, collective.members[0]
        ranks = [graph.rank[node] for node in collective.members]
        recorded = graph.nodes[first]
        plan, kind = list(edges(collective.type_, len(ranks), collective.size)), _moving(recorded, ALL_REDUCE)
        if BYTES in recorded.attributes:
            plan = [edge._replace(size=recorded.size) for edge in plan]
        needs = self._joined(self._before(collective.members), len(plan), first)
        if NS in recorded.attributes:
            ns = recorded.number(NS)
            pause = self._add(first, kind, (ranks[0], ranks[0]), Alone(ns, ns, 0.0, np.inf, ()), needs)
            self.ends.update(dict.fromkeys(collective.members, (pause,)))
            return
        tasks: tuple[int, ...] = needs
        if plan:
            with within(graph.place(first)):
                tasks = tuple(
                    self._add(first, kind, (ranks[a], ranks[b]), self._alone(ranks[a], ranks[b], size, times), needs)
                    for a, b, size, times in plan
                )
        ends = self._joined(tasks, len(ranks), first)
        self.ends.update(dict.fromkeys(collective.members, ends))

    # --- tasks -------------------------------------------------------------------------------------------------------

    def _before(self, nodes: Sequence[int]) -> tuple[int, ...]:
        """The tasks that must have ended before these nodes."""
        return tuple(
            dict.fromkeys(task for node in nodes for n in self.graph.needs[node].tolist() for task in self.ends[n])
        )

    def _joined(self, tasks: tuple[int, ...], readers: int, node: int) -> tuple[int, ...]:
        """The same tasks, joined by a task without duration if that saves dependencies."""
        if len(tasks) <= _MOST_UNJOINED and len(tasks) * readers <= len(tasks) + readers:
            return tasks
        rank = self.graph.rank[node]
        return (self._add(None, ACTIVATION, (rank, rank), _NO_TRANSFER, tasks),)

    def _add(
        self,
        node: int | None,
        kind: int,
        ends: tuple[int, int],
        message: Alone,
        needs: tuple[int, ...],
        *,
        lane: int = -1,
    ) -> int:
        recorded = None if node is None else self.graph.nodes[node]
        self.tasks.append(_Task(kind, *ends, lane, message, needs, recorded))
        return len(self.tasks) - 1

    def _alone(self, source: int, target: int, size: float, times: int) -> Alone:
        if source == target:
            return _NO_TRANSFER
        names = [self.cluster.devices[rank].name for rank in (source, target)]
        return alone(self.cluster, names[0], names[1], size, times)

    def _lane(self, rank: int, host: bool) -> tuple[str, int]:  # noqa: FBT001 - the key of a lane
        """The name of a lane, and its bytes of memory."""
        device = self.cluster.devices[rank]
        name = label([self.cluster.devices[member].name for member in self.teams.get(rank, (rank,))])
        return (f"{name}.host", 0) if host else (name, device.memory)

    def _in_recorded_order(self) -> list[_Task]:
        """The tasks; those with a number in the order of their numbers, before the others."""
        places = [(task.recorded(TASK, 2**62), place) for place, task in enumerate(self.tasks)]
        if all(number == 2**62 for number, _ in places):
            return self.tasks
        order = [place for _, place in sorted(places)]
        new = {old: place for place, old in enumerate(order)}
        return [replace(self.tasks[old], needs=tuple(new[need] for need in self.tasks[old].needs)) for old in order]

    def _lane_of(self, rank: int) -> int:
        return self.lanes[self.teams.get(rank, (rank,))[0], False]

    # --- columns -----------------------------------------------------------------------------------------------------

    def program(self, sharing: Sharing, transfers: Transfers, samples: int) -> Program:
        """The program of all tasks; the source of a transfer is the lane of its sender."""
        tasks = self._in_recorded_order()
        order = lane_order(
            [task.lane for task in tasks],
            [task.alone.duration for task in tasks],
            [task.key for task in tasks],
            [task.needs for task in tasks],
            len(self.lanes),
        )
        names, memory = zip(*(self._lane(*lane) for lane in self.lanes), strict=True)
        none = np.zeros(len(tasks), np.int64)
        microbatch = _occurrences(tasks)
        program = Program(
            sharing=sharing,
            transfers=transfers,
            devices=names,
            media=self.cluster.media,
            capacity=np.array(self.cluster.media_peak, np.float64) / units.NS_PER_S,
            kind=_whole(task.kind for task in tasks),
            stage=_whole(task.recorded(STAGE, task.rank) for task in tasks),
            microbatch=microbatch,
            lane=_whole(task.lane for task in tasks),
            source=_whole(task.lane if task.lane >= 0 else self._lane_of(task.rank) for task in tasks),
            target=_whole(task.lane if task.lane >= 0 else self._lane_of(task.target) for task in tasks),
            duration=_whole(task.alone.duration for task in tasks),
            delay=_whole(task.alone.delay for task in tasks),
            size=np.array([task.alone.size for task in tasks], np.float64),
            limit=np.array([task.alone.limit for task in tasks], np.float64),
            order=Ragged.of(order),
            needs=Ragged.of([sorted(task.needs) for task in tasks]),
            route=Ragged.of([task.alone.media for task in tasks]),
            memory_start=none,
            memory_end=none,
            static_memory=np.zeros(len(names), np.int64),
            memory=np.array(memory, np.int64),
            microbatches=1 + max((task.recorded(MICROBATCH, 0) for task in tasks), default=0),
            samples=samples,
            buckets=programs.buckets_of(self.cluster, sharing_rule(sharing)),
            flops=None,
            peak_flops=None,
        )
        programs.check(program)
        return program


def _units(graph: Graph, receive_of: dict[int, int]) -> Iterator[tuple[int, ...]]:
    """Nodes that are one unit: collectives; sends with their receives; each other node."""
    yield from (collective.members for collective in graph.collectives if collective.members)
    shared: dict[int, list[int]] = {}
    for number, node in enumerate(graph.nodes):
        if node.type == SEND:
            yield (number, receive_of[number])
        elif node.type == COMPUTE and node.task >= 0:
            shared.setdefault(node.task, []).append(number)
        elif node.type not in {RECEIVE, COLLECTIVE}:
            yield (number,)
    yield from map(tuple, shared.values())


def _teams(graph: Graph, units_: Sequence[Sequence[int]]) -> dict[int, tuple[int, ...]]:
    """For each rank that computes as one with others, all of these."""
    found: dict[int, tuple[int, ...]] = {}
    for unit in units_:
        node = graph.nodes[unit[0]]
        if len(unit) > 1 and node.type == COMPUTE and node.number(KIND) <= OPTIMIZER:
            ranks = tuple(graph.rank[member] for member in unit)
            for rank in ranks:
                if found.setdefault(rank, ranks) != ranks:
                    raise FormatError(
                        f"{graph.place(unit[0])}: {TASK} {node.task} is computed by ranks {shown(list(ranks))}; "
                        f"{shown(list(found[rank]))} were expected, as before"
                    )
    return found


def _moving(node: Node, default: int) -> int:
    """What a message or a collective is for."""
    kind = node.number(KIND, default)
    return kind if kind > OPTIMIZER else default


def _whole(values: Any) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":  # noqa: ANN401 - an iterator of whole numbers
    return np.fromiter(values, np.int64)


def _occurrences(tasks: Sequence[_Task]) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    """The recorded microbatches; else for each task on a lane how many of its kind are before it there, or -1."""
    seen: dict[tuple[int, int], int] = {}
    found = np.full(len(tasks), -1, np.int64)
    for number, task in enumerate(tasks):
        if task.node is not None and task.node.task >= 0:
            found[number] = task.recorded(MICROBATCH, -1)
        elif task.lane >= 0:
            key = (task.lane, task.kind)
            found[number] = seen.get(key, 0)
            seen[key] = int(found[number]) + 1
    return found
