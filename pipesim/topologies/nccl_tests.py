"""Machines whose links have the times that nccl-tests measured (sendrecv_perf, all_reduce_perf, ...)."""

import re
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from pipesim.base import files
from pipesim.base.checks import check_one_of
from pipesim.base.errors import FormatError, InputError, shown, within
from pipesim.core.cluster import Cluster, Device, Link
from pipesim.topologies import parts

TESTS = ("sendrecv", "all_reduce", "all_gather", "reduce_scatter")
SWITCH, CORE = "switch", "core"
_RANK = re.compile(r"#\s*Rank\s+([0-9]{1,6})\b")
_STARTS = re.compile(r"Collective test starting: (\w+)_perf")
_PREFIX = re.compile(r"^\[[0-9]+,[0-9]+\]<std(?:out|err)>:\s?")
_NUMBER = re.compile(r"[0-9]{1,15}(?:\.[0-9]{1,9})?")
_MOST_BYTES, _MOST_US = 2.0**60, 1e12

Points = tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class MeasuredLinks:
    """The times of messages on a link, as a test's ring sends them, and between how many ranks it ran."""

    points: Points  # bytes, seconds
    ranks: int

    def link(self, source: str, target: str, delay: float | None = None) -> Link:
        """A link with these times, moved to another delay if one is given."""
        (size, seconds), (largest, longest) = self.points[-2:]
        rate = (largest - size) / (longest - seconds) if longest > seconds else largest / longest
        own = Link("a", "b", rate, table=self.points).delay
        delay = own if delay is None else delay
        table = tuple((size, max(seconds - own + delay, 0.0)) for size, seconds in self.points)
        return Link(source, target, rate, delay, table=table)


def nccl_tests(
    file: str,
    nodes: int = 1,
    inter: str | None = None,
    *,
    gpus: int | None = None,
    test: str | None = None,
    device: str = parts.DEVICE,
    memory: float | str | None = None,
) -> Cluster:
    """Equal machines with a switch each; the links of their GPUs have the times in `file`.

    `inter` is what a test between machines printed, for the link of each machine to the core. `gpus` is how many a
    machine has; by default as many as ranks in `file`. `test` is sendrecv, all_reduce, all_gather or reduce_scatter; by
    default as the output states. Of a collective of n ranks and S bytes, a message is S / n, and its time that of the
    collective over its steps, 2 (n - 1) of an all-reduce and n - 1 of the others: NCCL's rings are assumed.
    """
    nodes = parts.count("nodes", nodes)
    check_one_of("test", test or TESTS[0], TESTS)
    inside = measured_links(parts.path("file", file), test)
    each = inside.ranks if gpus is None else parts.count("gpus", gpus)
    if (nodes > 1) != (inter is not None):
        raise InputError(
            f"nodes = {nodes}, inter = {shown(inter)} found; a file of times between machines goes with several"
        )
    places = [(f"node{node}.gpu{gpu}", f"node{node}") for node in range(nodes) for gpu in range(each)]
    devices = parts.devices(places, device, memory)
    between = None
    if inter is not None:
        with within("inter"):
            between = measured_links(parts.path("inter", inter), test)
    links = _links(devices, inside, between)
    return Cluster(f"nccl-tests-{nodes}x{each}", devices, links)


def _links(devices: tuple[Device, ...], inside: MeasuredLinks, between: MeasuredLinks | None) -> tuple[Link, ...]:
    """Each device to the switch of its node, with half of the delay; each switch to the core with the rest."""
    half = inside.link("a", "b").delay / 2
    nodes = list(dict.fromkeys(device.node for device in devices))
    made = [inside.link(device.name, f"{device.node}.{SWITCH}", half) for device in devices] if len(devices) > 1 else []
    if between is not None:
        rest = max(between.link("a", "b").delay / 2 - half, 0.0)
        made += [between.link(f"{node}.{SWITCH}", CORE, rest) for node in nodes]
    return tuple(made)


def measured_links(path: Path, test: str | None = None) -> MeasuredLinks:
    """What one test printed."""
    text = files.read_text(path)
    with within(str(path)):
        lines = [_PREFIX.sub("", line) for line in text.split("\n")]
        ranks = len({int(match[1]) for line in lines if (match := _RANK.match(line))})
        if ranks < 2:
            raise FormatError(
                "lists fewer than two ranks ('#  Rank  0 Group  0 ...'); the output of nccl-tests was expected"
            )
        rows = _rows(lines)
        named = next((match[1] for line in lines if (match := _STARTS.search(line))), None)
        chosen = test or (named if named in TESTS else _test_of(rows, ranks))
        steps = {"sendrecv": 1, "all_reduce": 2 * (ranks - 1)}.get(chosen, ranks - 1)
        share = 1 if chosen == "sendrecv" else ranks
        found: dict[float, float] = {}
        for size, microseconds, _, _ in rows:
            found[size / share] = min(found.get(size / share, np.inf), microseconds / 1e6 / steps)
        sizes = sorted(found)
        if len(sizes) < 2:
            raise FormatError(f"{len(sizes)} sizes of messages found; at least two were expected")
        seconds = np.maximum.accumulate([found[size] for size in sizes]).tolist()
        return MeasuredLinks(_apart(list(zip(sizes, seconds, strict=True))), ranks)


def _apart(points: list[tuple[float, float]]) -> Points:
    """The points without those that take as long as a larger one: a table rises."""
    kept = [one for one, after in pairwise(points) if one[1] < after[1]] + points[-1:]
    return tuple(points[:1] + points[-1:] if len(kept) < 2 else kept)


def _rows(lines: list[str]) -> list[tuple[float, float, float, float]]:
    """(bytes, microseconds, algorithm bandwidth, bus bandwidth) of out-of-place runs."""
    columns: list[str] = []
    found: list[tuple[float, float, float, float]] = []
    for number, line in enumerate(lines, 1):
        words = line.lstrip("# ").split()
        if words[:2] == ["size", "count"]:
            columns = words
        elif columns and words and words[0].isdecimal() and not line.startswith("#"):
            if len(words) != len(columns):
                raise FormatError(
                    f"line {number}: {len(words)} columns found; {len(columns)} were expected, as in the header"
                )
            cells = [words[columns.index(name)] for name in ("size", "time", "algbw", "busbw")]
            for name, cell in zip(("size", "time", "algbw", "busbw"), cells, strict=True):
                if not _NUMBER.fullmatch(cell):
                    raise FormatError(f"line {number}: {name}: {shown(cell)} found; a number was expected")
            size, microseconds, algorithm, bus = map(float, cells)
            if size > _MOST_BYTES or not 0 < microseconds <= _MOST_US:
                raise FormatError(f"line {number}: {size:g} bytes in {microseconds:g} us found; a time was expected")
            if size:
                found.append((size, microseconds, algorithm, bus))
    if not found:
        raise FormatError("has no rows of sizes and times; the output of nccl-tests was expected")
    return found


def _test_of(rows: list[tuple[float, float, float, float]], ranks: int) -> str:
    """Which test printed these rows: by bus bandwidth over algorithm bandwidth."""
    ratio = float(np.median([bus / algorithm for *_, algorithm, bus in rows if algorithm >= 1] or [0.0]))
    expected = {"all_reduce": 2 * (ranks - 1) / ranks, "all_gather": (ranks - 1) / ranks, "sendrecv": 1.0}
    near = [name for name, value in expected.items() if abs(ratio - value) < 0.02]
    if len(near) != 1:
        raise InputError(
            f"does not state which test it is of; test='all_reduce', or another of {', '.join(TESTS)}, was expected"
        )
    return near[0]
