"""From the graph of all ranks to a program: the recorded run, on a cluster.

    node                  tasks                                                       it has ended when
    computes              one on the lane of its rank (hosts have a lane apart)       that has ended
    send, receive         one transfer between the two ranks                          the transfer has ended
    collective            as many transfers as its algorithm has edges                all of them have ended
    anything with a time  a delay that holds no lane                                  that has ended
    else                  none                                                        all that it waits for has ended

Where many tasks wait for many, a task without duration joins them. Of the ready nodes of a lane, the one that was
recorded first runs first; of equals the one with the smallest id.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from pipesim.base import units
from pipesim.base.arrays import Ragged
from pipesim.base.checks import check_whole
from pipesim.base.errors import InputError, RefusedError, within
from pipesim.core import program as programs
from pipesim.core.cluster import Cluster
from pipesim.core.program import ACTIVATION, ALL_REDUCE, BACKWARD, FORWARD, INPUT, WEIGHT, Program, Transfers
from pipesim.core.sharing import Sharing, sharing_rule
from pipesim.importers.chakra.collectives import edges
from pipesim.importers.chakra.graph import Collective, Graph, in_order, load, named
from pipesim.importers.chakra.lane_order import lane_order
from pipesim.importers.chakra.node_messages import COLLECTIVE, COMPUTE, RECEIVE, SEND
from pipesim.importers.chakra.node_times import durations
from pipesim.importers.chakra.phases import NAMES, Phase, layer_phases
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
    if transfers == "blocking":
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
    key: tuple[int, int]  # recorded start and id of its node: decides between ready tasks


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

    def build(self, *, rendezvous: bool) -> None:
        """Add the tasks of all units in topological order."""
        graph = self.graph
        collective_of = {c.members[0]: c for c in graph.collectives if c.members}
        receive_of = {send: receive for receive, send in graph.send_of.items()}
        waiting = np.bincount(graph.needs.values, minlength=len(graph.nodes))
        for rank in graph.ranks:
            self.lanes[rank, False] = len(self.lanes)
        units_ = list(_units(graph, receive_of))
        for number in in_order(graph, units_):
            first = units_[number][0]
            kind = graph.nodes[first].type
            if kind == COLLECTIVE:
                self._add_collective(collective_of[first])
            elif kind == SEND:
                self._add_transfer(first, receive_of[first], rendezvous=rendezvous)
            else:
                self._add_node(first)
            for node in units_[number]:
                self.ends[node] = self._joined(self.ends[node], int(waiting[node]), node)

    # --- nodes -------------------------------------------------------------------------------------------------------

    def _add_node(self, node: int) -> None:
        rank, needs = self.graph.rank[node], self._before([node])
        duration = self.seconds.get(node, self.graph.nodes[node].duration_us * 1e-6)
        if not duration:
            self.ends[node] = needs
            return
        ns = int(units.to_ns(np.array([duration]))[0])
        lane, kind = -1, ACTIVATION
        if node in self.seconds:
            host = bool(self.graph.nodes[node].number("is_cpu_op"))
            lane, kind = self.lanes.setdefault((rank, host), len(self.lanes)), _KINDS[self.phases[node]]
        delay = 0 if lane >= 0 else ns
        message = Alone(ns, delay, 0.0, np.inf, ())
        self.ends[node] = (self._add(node, kind, (rank, rank), message, needs, lane=lane),)

    def _add_transfer(self, send: int, receive: int, *, rendezvous: bool) -> None:
        source, target = self.graph.ends(send)
        with within(self.graph.place(send)):
            message = self._alone(source, target, self.graph.nodes[send].number("comm_size"), 1)
        needs = self._before([send, receive] if rendezvous else [send])
        task = self._add(send, ACTIVATION, (source, target), message, needs)
        self.ends[send] = (task,)
        self.ends[receive] = tuple(dict.fromkeys((task, *self._before([receive]))))

    def _add_collective(self, collective: Collective) -> None:
        """A collective: all ranks join, then its transfers run, then it has ended for all."""
        graph, first = self.graph, collective.members[0]
        ranks = [graph.rank[node] for node in collective.members]
        plan = list(edges(collective.type_, len(ranks), collective.size))
        needs = self._joined(self._before(collective.members), len(plan), first)
        tasks: tuple[int, ...] = needs
        if plan:
            with within(graph.place(first)):
                tasks = tuple(
                    self._add(
                        first, ALL_REDUCE, (ranks[a], ranks[b]), self._alone(ranks[a], ranks[b], size, times), needs
                    )
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
        return (self._add(node, ACTIVATION, (rank, rank), _NO_TRANSFER, tasks),)

    def _add(
        self, node: int, kind: int, ends: tuple[int, int], message: Alone, needs: tuple[int, ...], *, lane: int = -1
    ) -> int:
        recorded = self.graph.nodes[node]
        self.tasks.append(_Task(kind, *ends, lane, message, needs, (recorded.start_us, recorded.id)))
        return len(self.tasks) - 1

    def _alone(self, source: int, target: int, size: float, times: int) -> Alone:
        if source == target:
            return _NO_TRANSFER
        names = [self.cluster.devices[rank].name for rank in (source, target)]
        return alone(self.cluster, names[0], names[1], size, times)

    def _lane(self, rank: int, host: bool) -> tuple[str, int]:  # noqa: FBT001 - the key of a lane
        """The name of a lane, and its bytes of memory."""
        device = self.cluster.devices[rank]
        return (f"{device.name}.host", 0) if host else (device.name, device.memory)

    # --- columns -----------------------------------------------------------------------------------------------------

    def program(self, sharing: Sharing, transfers: Transfers, samples: int) -> Program:
        """The program of all tasks; the source of a transfer is the lane of its sender."""
        order = lane_order(
            [task.lane for task in self.tasks],
            [task.alone.duration for task in self.tasks],
            [task.key for task in self.tasks],
            [task.needs for task in self.tasks],
            len(self.lanes),
        )
        names, memory = zip(*(self._lane(*lane) for lane in self.lanes), strict=True)
        tasks, none = self.tasks, np.zeros(len(self.tasks), np.int64)
        program = Program(
            sharing=sharing,
            transfers=transfers,
            devices=names,
            media=self.cluster.media,
            capacity=np.array(self.cluster.media_bandwidth, np.float64) / units.NS_PER_S,
            kind=_whole(task.kind for task in tasks),
            stage=_whole(task.rank for task in tasks),
            microbatch=_occurrences(tasks),
            lane=_whole(task.lane for task in tasks),
            source=_whole(task.lane if task.lane >= 0 else self.lanes[task.rank, False] for task in tasks),
            target=_whole(task.lane if task.lane >= 0 else self.lanes[task.target, False] for task in tasks),
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
            microbatches=1,
            samples=samples,
            flops=None,
            peak_flops=None,
        )
        programs.check(program)
        return program


def _units(graph: Graph, receive_of: dict[int, int]) -> Iterator[tuple[int, ...]]:
    """Nodes that are one unit: collectives; sends with their receives; each other node."""
    yield from (collective.members for collective in graph.collectives if collective.members)
    for number, node in enumerate(graph.nodes):
        if node.type == SEND:
            yield (number, receive_of[number])
        elif node.type not in {RECEIVE, COLLECTIVE}:
            yield (number,)


def _whole(values: Any) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":  # noqa: ANN401 - an iterator of whole numbers
    return np.fromiter(values, np.int64)


def _occurrences(tasks: Sequence[_Task]) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    """For each task on a lane how many of its kind are before it there, in place of microbatches; else -1."""
    seen: dict[tuple[int, int], int] = {}
    found = np.full(len(tasks), -1, np.int64)
    for number, task in enumerate(tasks):
        if task.lane >= 0:
            key = (task.lane, task.kind)
            found[number] = seen.get(key, 0)
            seen[key] = int(found[number]) + 1
    return found
