"""Programs as Chakra's execution traces, which network simulators run: for each GPU a file `name.N.et`.

N is the GPU's number in the cluster.

    task                                nodes
    computation                         COMP_NODE on every GPU of the team
    activation, gradient                COMM_SEND_NODE on the sender, COMM_RECV_NODE on the receiver, of one tag
    all edges of a ring                 COMM_COLL_NODE on each of its GPUs, in their process group
    the norm of the gradients           COMM_COLL_NODE on all GPUs: an all-reduce of 4 bytes
    a pause, until a bucket is full     COMP_NODE of the host on each GPU that it concerns

A node waits (`data_deps`, which all readers know) for the nodes on its GPU of what its task waits for; computation also
for what precedes it on its lane. Times of computation are in whole microseconds, as the format has them; attributes
named `pipesim_...` have what is lost, so that `pipesim run` gives the same timeline.
"""

import json
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import ceil
from pathlib import Path

import numpy as np

from pipesim.base import files
from pipesim.base.arrays import Bools, Ints, Ragged
from pipesim.base.errors import InputError, RefusedError
from pipesim.core.program import BACKWARD, FORWARD, INPUT, OPTIMIZER, WEIGHT
from pipesim.core.timeline import Timeline
from pipesim.importers.chakra import wire
from pipesim.importers.chakra.node_messages import (
    BYTES,
    COLLECTIVE,
    COLLECTIVES,
    COMPUTE,
    KIND,
    MICROBATCH,
    NS,
    RANKS,
    RECEIVE,
    SEND,
    STAGE,
    TASK,
)  # fmt: skip
from pipesim.importers.chakra.wire import bytes_field, encoded, number_field
from pipesim.lowering import Ends, Setup, lower_with_ends

SUFFIX = ".et"

_VERSION = "0.0.4"
_NAMES = {FORWARD: "FWD", BACKWARD: "BWD", INPUT: "BWD_IG", WEIGHT: "BWD_WG", OPTIMIZER: "optimizer"}
_NORM_BYTES = 4
_US = 1000  # ns
# Fields of an attribute's value: those that ASTRA-sim's readers of all versions expect.
_DOUBLE, _INT32, _INT64, _BOOL, _TEXT = 3, 7, 9, 27, 29


FORMAT = "chakra"


def is_chosen(path: Path | str, format: str | None) -> bool:  # noqa: A002 - as `timeline_files.export`
    """Whether a file is to be written in this format; refuses names that it cannot have."""
    if format != FORMAT and (format or Path(path).suffix != SUFFIX):
        return False
    _checked(Path(path))
    return True


def _checked(path: Path) -> Path:
    if path.suffix != SUFFIX or not path.stem:
        raise InputError(f"{path}: a file name with the suffix {SUFFIX} was expected, such as run{SUFFIX}")
    return path


def export_execution_traces(setup: Setup, timeline: Timeline, path: Path | str) -> list[Path]:
    """Write a file for each GPU of the cluster, `run.0.et`, `run.1.et`, ... for the path `run.et`; returns their paths.

    `run.groups.json` has the ranks of each process group, as ASTRA-sim reads them (`--comm-group-configuration`).

    >>> result = ps.simulate("bert-large", 'flat(2, bandwidth="1GB/s")', microbatches=4)
    >>> [path.name for path in ps.export_execution_traces(result.setup, result.timeline, "run.et")]
    ['run.0.et', 'run.1.et']
    """
    path = _checked(Path(path))
    program, ends = lower_with_ends(setup)
    if not setup.sharing_rule.has_links:
        raise RefusedError(
            f"sharing {setup.options.sharing!r} has a channel between stages, which no execution trace has"
        )
    if program.lane_speeds or program.media_speeds:
        raise RefusedError(
            "execution traces have no speeds that change with time; leave out the scenario and background"
        )
    if len(program) != len(timeline.program):
        raise InputError(
            f"{len(timeline.program)} tasks found; the timeline of this setup, {len(program)}, was expected"
        )
    paths = [path.with_suffix(f".{number}{SUFFIX}") for number in range(len(setup.cluster.devices))]
    _check_others(path, len(paths))
    nodes = _Nodes(setup, timeline, ends)
    for number, file in enumerate(paths):
        messages = [bytes_field(1, _VERSION.encode()), *nodes.of_gpu(number)]
        files.write_bytes(file, b"".join(encoded(len(message)) + message for message in messages))
    if nodes.groups:
        listed = {name: list(ranks) for ranks, name in nodes.groups.items()}
        files.write_text(path.with_suffix(".groups.json"), json.dumps(listed) + "\n")
    return paths


def _check_others(path: Path, count: int) -> None:
    """Refuse to write beside files of more ranks, which would be read with these."""
    named = re.compile(re.escape(path.stem) + r"\.([0-9]{1,6})\.et")
    found = [(int(match[1]), other) for other in path.parent.glob("*.et") if (match := named.fullmatch(other.name))]
    number, other = max(found, default=(-1, path))
    if number >= count:
        raise InputError(f"{other}: is of another run, of more ranks than {count}; remove it or choose another name")


@dataclass(frozen=True)
class _Nodes:
    """The nodes of all GPUs in columns, by GPU and then by task. The id of a node is that of its task, and 1."""

    setup: Setup
    timeline: Timeline
    ends: Ends

    @cached_property
    def gpus_of_lane(self) -> list[list[int]]:
        """The GPUs of each lane."""
        plan, place = self.setup.plan, self.setup.cluster.index
        return [[place[name] for name in plan.team(device)] for device in plan.devices]

    @cached_property
    def unit(self) -> Ints:
        """Task -> the task whose nodes are its nodes: for the edges of a ring, the first of them."""
        unit = np.arange(len(self.timeline.program))
        for rings in self.ends.rings:
            edges = np.repeat(rings.first, rings.length)
            unit[_edges(rings.first, rings.length)] = edges
        return unit

    @cached_property
    def is_pause(self) -> Bools:
        """Which tasks hold no lane and move nothing."""
        return ~self.timeline.program.is_compute & (self.ends.source < 0)

    @cached_property
    def places(self) -> tuple[Ints, Ints]:
        """(gpu, task) of every node, sorted; of the edges of a ring, the first has nodes on all its GPUs."""
        program = self.timeline.program
        lanes = [np.array(gpus, np.int64) for gpus in self.gpus_of_lane]
        gpu, task = [], []
        for lane, members in enumerate(lanes):
            mine = program.order[lane]
            gpu.append(np.tile(members, len(mine)))
            task.append(np.repeat(mine, len(members)))
        moving = np.flatnonzero(self.ends.source >= 0)
        gpu.append(self.ends.source[moving])
        task.append(self.unit[moving])
        single = moving[~np.isin(self.unit[moving], np.concatenate([NONE, *(r.first for r in self.ends.rings)]))]
        gpu.append(self.ends.target[single])
        task.append(single)
        return self._with_pauses(np.concatenate(gpu), np.concatenate(task))

    def _with_pauses(self, gpu: Ints, task: Ints) -> tuple[Ints, Ints]:
        """Also nodes of pauses, on every GPU that has a node of what a pause waits for."""
        program, count = self.timeline.program, len(self.timeline.program)
        codes = [gpu * count + task]
        of_task = Ragged.of_pairs(count, task, gpu)
        for pause in np.flatnonzero(self.is_pause).tolist():
            concerned = np.unique(of_task.take(self.unit[program.needs[pause]]).values)
            codes.append(concerned * count + pause)
        code = np.unique(np.concatenate(codes))
        return code // count, code % count

    @cached_property
    def needs(self) -> Ragged:
        """Node -> tasks whose nodes on the same GPU it waits for."""
        program, count = self.timeline.program, len(self.timeline.program)
        gpu, task = self.places
        waits = program.needs.take(task)
        node, need = waits.row_of_value(), self.unit[waits.values]
        lanes = np.repeat(np.arange(len(program.order)), program.order.lengths)
        follows = np.flatnonzero(lanes[1:] == lanes[:-1])
        before = np.full(count, -1, np.int64)
        before[program.order.values[follows + 1]] = program.order.values[follows]
        after = np.flatnonzero(before[task] >= 0)
        node, need = np.concatenate([node, after]), np.concatenate([need, before[task[after]]])
        codes = gpu * count + task
        wanted = gpu[node] * count + need
        at = np.minimum(np.searchsorted(codes, wanted), len(codes) - 1)
        pairs = np.unique(node[codes[at] == wanted] * count + need[codes[at] == wanted])
        return Ragged.of_pairs(len(gpu), pairs // count, pairs % count)

    @cached_property
    def groups(self) -> dict[tuple[int, ...], str]:
        """The number of each process group, by its GPUs in the order of the ring; 0 is all GPUs of a cluster."""
        found: dict[tuple[int, ...], str] = {}
        for ring, _, _ in self.rings.values():
            found.setdefault(ring, str(len(found) + 1))
        return found

    @cached_property
    def rings(self) -> dict[int, tuple[tuple[int, ...], str, float]]:
        """First task -> the GPUs of its ring in order, what the collective is, and the bytes of a message."""
        found: dict[int, tuple[tuple[int, ...], str, float]] = {}
        for sort, firsts, lengths, parts in self.ends.rings:
            for first, length, part in zip(firsts.tolist(), lengths.tolist(), parts.tolist(), strict=True):
                found[first] = tuple(self.ends.source[first : first + length].tolist()), sort, part
        if self.ends.norm is not None:
            gpu, task = self.places
            gpus = tuple(gpu[task == self.ends.norm].tolist())
            found[self.ends.norm] = gpus, "all_reduce", _NORM_BYTES / len(gpus)
        return found

    def of_gpu(self, number: int) -> Iterator[bytes]:
        """The nodes of a GPU."""
        gpu, task = self.places
        start, stop = np.searchsorted(gpu, [number, number + 1])
        for row in range(int(start), int(stop)):
            yield self._node(number, int(task[row]), self.needs[row])

    def _node(self, gpu: int, task: int, needs: Ints) -> bytes:
        program, started = self.timeline.program, int(self.timeline.start[task])
        kind, micros = int(program.kind[task]), 0
        stage, microbatch = int(program.stage[task]), int(program.microbatch[task])
        attributes = _attribute(TASK, task) + _attribute(KIND, kind) + _attribute(STAGE, stage)
        if microbatch >= 0:
            attributes += _attribute(MICROBATCH, microbatch)
        if task in self.rings:
            name, type_, more = self._collective(task)
        elif program.lane[task] >= 0 or self.is_pause[task]:
            is_host = bool(self.is_pause[task])
            name = "pause" if is_host else f"stage{stage}_{_NAMES[kind]}"
            type_, duration = COMPUTE, int(program.duration[task])
            micros = max(round(duration / _US), min(duration, 1))
            more = _attribute("is_cpu_op", is_host) + _attribute(NS, duration)
        else:
            name, type_, more = self._message(gpu, task)
        deps = b"".join(encoded(need + 1) for need in needs.tolist())
        return b"".join(
            [
                number_field(1, task + 1),
                bytes_field(2, name.encode()),
                number_field(3, type_),
                bytes_field(5, deps) if deps else b"",
                number_field(6, started // _US),
                number_field(7, micros),
                more,
                attributes,
            ]
        )

    def _message(self, gpu: int, task: int) -> tuple[str, int, bytes]:
        program, source, target = self.timeline.program, int(self.ends.source[task]), int(self.ends.target[task])
        size, label = float(program.size[task]), f"{program.stage[task]}{'<>'[program.kind[task] % 2]}"
        more = _size(size, size) + _attribute("is_cpu_op", value=False)
        for name, value in (("comm_src", source), ("comm_dst", target), ("comm_tag", task)):
            more += _attribute(name, value, _INT32)
        return (f"send {label}", SEND, more) if gpu == source else (f"receive {label}", RECEIVE, more)

    def _collective(self, task: int) -> tuple[str, int, bytes]:
        ring, sort, part = self.rings[task]
        more = _attribute("comm_type", COLLECTIVES.index(sort)) + _attribute("pg_name", self.groups[ring])
        more += _attribute(RANKS, ",".join(map(str, ring))) + _attribute("is_cpu_op", value=False)
        more += _size(part if sort == "all_gather" else part * len(ring), part)
        if task == self.ends.norm:
            more += _attribute(NS, int(self.timeline.program.duration[task]))
        return sort, COLLECTIVE, more


NONE = np.zeros(0, np.int64)


def _edges(first: Ints, length: Ints) -> Ints:
    """All tasks of rings, one after the other."""
    begin = np.repeat(first - np.cumsum(length) + length, length)
    edges: Ints = begin + np.arange(int(length.sum()))
    return edges


def _size(whole: float, exact: float) -> bytes:
    """Bytes as readers know them, whole and at least 1, and exactly where that is another number."""
    rounded = max(1, ceil(whole))
    return _attribute("comm_size", rounded) + (b"" if rounded == exact else _attribute(BYTES, exact))


def _attribute(name: str, value: str | float, field: int = _INT64) -> bytes:
    """An attribute of a node: its name, and a value in the field of its type."""
    if isinstance(value, bool):
        held = number_field(_BOOL, int(value))
    elif isinstance(value, str):
        held = bytes_field(_TEXT, value.encode())
    elif isinstance(value, int):
        held = number_field(field, value)
    else:
        held = encoded(_DOUBLE << 3 | wire.FIXED64) + struct.pack("<d", value)
    return bytes_field(10, bytes_field(1, name.encode()) + held)
