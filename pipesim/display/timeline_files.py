"""Timelines as files for other tools: trace events for Chrome and Perfetto, tables for everything else."""

import contextlib
import gzip
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import orjson

from pipesim.analysis import curves
from pipesim.base import files, lookup
from pipesim.base.arrays import Ints
from pipesim.base.errors import InputError, UnknownNameError
from pipesim.base.intervals import tracks
from pipesim.core.program import COLLECTIVES, KINDS, LETTERS
from pipesim.core.timeline import Simulated, Timeline, timeline_of

Event = dict[str, Any]

CHUNK = 20_000  # events in memory at once
_NS_PER_US = 1000  # trace events are in microseconds; thousandths are exact
_ZIP_LEVEL = 3  # higher levels take longer than everything else and save little


def export(timeline: Timeline | Simulated, path: Path | str, format: str | None = None) -> None:  # noqa: A002 - the name for users
    """Write a timeline in the format of the suffix of the path, or in `format`, one of FORMATS.

    >>> result = ps.simulate("bert-large", 'flat(2, bandwidth="1GB/s")', microbatches=4)
    >>> ps.export_timeline(result.timeline, "timeline.json")  # opens in Perfetto
    """
    FORMATS[check_path(path, format)].write(timeline_of(timeline), Path(path))


def check_path(path: Path | str, format: str | None = None) -> str:  # noqa: A002 - as above
    """The format of a file name, or an error that names the known ones."""
    path = Path(path)
    if format is not None and format not in FORMATS:
        raise UnknownNameError(f"unknown format {format!r}; {lookup.suggest(format, FORMATS)}")
    name = format or next((name for name, known in FORMATS.items() if _ends(path, known.suffixes)), None)
    if name is None or not _ends(path, FORMATS[name].suffixes):
        raise _wrong_suffix(path, name)
    return name


def _ends(path: Path, suffixes: tuple[str, ...]) -> bool:
    return path.name.lower().endswith(suffixes)


def _wrong_suffix(path: Path, name: str | None) -> InputError:
    known = [f"{name} ({', '.join(FORMATS[name].suffixes)})" for name in (FORMATS if name is None else [name])]
    return InputError(f"{path}: a file name with the suffix of a format was expected; known are {', '.join(known)}")


# --- Chrome trace events ---------------------------------------------------------------------------------------------
#
#   process     a device                              one more process: links
#   threads     compute, sends, receives, all-reduce; slices that overlap go to "sends 2", ...
#   arrows      from the slice of a transfer on the sender to the one on the receiver
#   counters    memory of each device                 load of each medium with transfers

_FAMILIES = ("compute", "sends", "receives", "all-reduce")
_COMPUTE, _SENDS, _RECEIVES, _REDUCES = range(4)


def chrome(timeline: Timeline, path: Path | str) -> None:
    """Write trace events that ui.perfetto.dev and chrome://tracing show: .json, or .json.gz."""
    path = Path(path)
    if not _ends(path, FORMATS["chrome"].suffixes):
        raise _wrong_suffix(path, "chrome")
    with files.atomic_write(path) as temporary, _opened(temporary, zipped=_ends(path, (".gz",))) as file:
        file.write(b'{"displayTimeUnit":"ns","traceEvents":[')
        separator = b"\n"
        for events in _events(timeline):
            file.write(separator + orjson.dumps(events)[1:-1])
            separator = b",\n"
        file.write(b"\n]}\n")


@contextlib.contextmanager
def _opened(path: Path, *, zipped: bool) -> Iterator[IO[bytes]]:
    with path.open("wb") as file:
        if not zipped:
            yield file
            return
        # Without name and time in the header, the same timeline makes the same bytes.
        with gzip.GzipFile(filename="", mode="wb", compresslevel=_ZIP_LEVEL, fileobj=file, mtime=0) as packed:
            yield packed  # type: ignore[misc]  # a file to write bytes to


class _Slices(NamedTuple):
    """The slices of all threads; a transfer has two, on its sender and on its receiver."""

    task: Ints
    device: Ints
    family: Ints
    thread: Ints  # numbered from 1 over the whole trace
    names: list[str]  # of the threads
    owner: Ints  # the device of each thread


def _slices(timeline: Timeline) -> _Slices:
    program = timeline.program
    moving = ~program.is_compute & ~np.isin(program.kind, COLLECTIVES)
    everything = np.arange(len(program))
    first = np.select([program.is_compute, moving], [_COMPUTE, _SENDS], _REDUCES)
    task = np.concatenate([everything, everything[moving]])
    device = np.concatenate([program.source, program.target[moving]])
    family = np.concatenate([first, np.full(int(moving.sum()), _RECEIVES)])
    row = device * len(_FAMILIES) + family
    track = tracks(row, timeline.start[task], timeline.end[task])
    width = int(track.max(initial=0)) + 1
    codes, thread = np.unique(row * width + track, return_inverse=True)
    names = [_thread_name(*divmod(code, width)) for code in codes.tolist()]
    return _Slices(task, device, family, thread + 1, names, codes // width // len(_FAMILIES))


def _thread_name(row: int, track: int) -> str:
    family = _FAMILIES[row % len(_FAMILIES)]
    return f"{family} {track + 1}" if track else family


def _events(timeline: Timeline) -> Iterator[list[Event]]:
    """All events, at most CHUNK at a time; a slice is before the arrow bound to it."""
    slices = _slices(timeline)
    yield from _chunks(_heads(timeline, slices))
    for first in range(0, len(slices.task), CHUNK):
        yield _slice_events(timeline, slices, slice(first, first + CHUNK))
    yield from _arrows(timeline, slices)
    yield from _chunks(_counters(timeline))


def _chunks(events: Iterator[Event]) -> Iterator[list[Event]]:
    chunk: list[Event] = []
    for event in events:
        chunk.append(event)
        if len(chunk) == CHUNK:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def _heads(timeline: Timeline, slices: _Slices) -> Iterator[Event]:
    """Names and order of processes and threads."""
    names = [*timeline.program.devices, *(["links"] if _used_media(timeline) else [])]
    for pid, name in enumerate(names, 1):
        yield {"ph": "M", "pid": pid, "name": "process_name", "args": {"name": name}}
        yield {"ph": "M", "pid": pid, "name": "process_sort_index", "args": {"sort_index": pid}}
    for tid, (name, device) in enumerate(zip(slices.names, slices.owner.tolist(), strict=True), 1):
        thread = {"ph": "M", "pid": device + 1, "tid": tid}
        yield thread | {"name": "thread_name", "args": {"name": name}}
        yield thread | {"name": "thread_sort_index", "args": {"sort_index": tid}}


def _slice_events(timeline: Timeline, slices: _Slices, rows: slice) -> list[Event]:
    program, task = timeline.program, slices.task[rows]
    columns = zip(
        (slices.device[rows] + 1).tolist(),
        slices.thread[rows].tolist(),
        _names(timeline, task, slices.family[rows]),
        program.kind[task].tolist(),
        (timeline.start[task] / _NS_PER_US).tolist(),
        ((timeline.end[task] - timeline.start[task]) / _NS_PER_US).tolist(),
        _arguments(timeline, task),
        strict=True,
    )
    return [
        {"ph": "X", "pid": pid, "tid": tid, "ts": ts, "dur": dur, "name": name, "cat": KINDS[kind], "args": args}
        for pid, tid, name, kind, ts, dur, args in columns
    ]


def _names(timeline: Timeline, task: Ints, family: Ints) -> list[str]:
    """0F2 for computation; "0>2 to gpu1" on the sender, "0>2 from gpu0" on the receiver."""
    program = timeline.program
    whom = ["", *(f" to {d}" for d in program.devices), *(f" from {d}" for d in program.devices)]
    there, here = program.target[task] + 1, program.source[task] + 1 + len(program.devices)
    other = np.select([family == _COMPUTE, family == _RECEIVES], [0, here], there)
    return [
        f"{stage}{LETTERS[kind]}{microbatch if microbatch >= 0 else ''}{whom[o]}"
        for stage, kind, microbatch, o in zip(
            program.stage[task].tolist(),
            program.kind[task].tolist(),
            program.microbatch[task].tolist(),
            other.tolist(),
            strict=True,
        )
    ]


def _arguments(timeline: Timeline, task: Ints) -> list[Event]:
    """The details of a slice; bytes only of transfers, a microbatch only if there is one."""
    program = timeline.program
    found = [
        {"task": t, "stage": stage, "microbatch": microbatch, "bytes": size}
        for t, stage, microbatch, size in zip(
            task.tolist(),
            program.stage[task].tolist(),
            program.microbatch[task].tolist(),
            program.size[task].tolist(),
            strict=True,
        )
    ]
    for row in np.flatnonzero(program.is_compute[task]).tolist():
        del found[row]["bytes"]
    for row in np.flatnonzero(program.microbatch[task] < 0).tolist():
        del found[row]["microbatch"]
    return found


def _arrows(timeline: Timeline, slices: _Slices) -> Iterator[list[Event]]:
    """Arrows start with the slice on the sender and end in the last ns of the one on the receiver."""
    sends, receives = (np.flatnonzero(slices.family == family) for family in (_SENDS, _RECEIVES))  # in the same order
    task = slices.task[sends]
    lasting = timeline.end[task] > timeline.start[task]
    sends, receives, task = sends[lasting], receives[lasting], task[lasting]
    half = CHUNK // 2
    for first in range(0, len(task), half):
        rows = slice(first, first + half)
        ends = (
            ({"ph": "s"}, sends[rows], timeline.start[task[rows]]),
            ({"ph": "f", "bp": "e"}, receives[rows], timeline.end[task[rows]] - 1),
        )
        yield [
            sort | {"id": t, "pid": pid, "tid": tid, "ts": ts, "name": "transfer", "cat": "transfer"}
            for sort, at, time in ends
            for t, pid, tid, ts in zip(
                task[rows].tolist(),
                (slices.device[at] + 1).tolist(),
                slices.thread[at].tolist(),
                (time / _NS_PER_US).tolist(),
                strict=True,
            )
        ]


def _used_media(timeline: Timeline) -> list[int]:
    return np.flatnonzero(timeline.moved > 0).tolist()


def _counters(timeline: Timeline) -> Iterator[Event]:
    program = timeline.program
    for pid, (time, memory) in enumerate(curves.memory_curves(timeline), 1):
        for ts, held in zip((time / _NS_PER_US).tolist(), memory.tolist(), strict=True):
            yield {"ph": "C", "pid": pid, "ts": ts, "name": "memory", "args": {"bytes": held}}
    load, pid = curves.load_curves(timeline), len(program.devices) + 1
    for medium in _used_media(timeline):
        time, rate = load[medium]
        for ts, value in zip((time / _NS_PER_US).tolist(), rate.tolist(), strict=True):
            # A byte per ns is a GB per s.
            yield {"ph": "C", "pid": pid, "ts": ts, "name": program.media[medium], "args": {"GB/s": value}}


class Format(NamedTuple):
    """A writer of timelines, and the suffixes of its files."""

    write: Callable[[Timeline, Path], None]
    suffixes: tuple[str, ...]


FORMATS = {
    "chrome": Format(chrome, (".json", ".json.gz")),
    "csv": Format(Timeline.save, (".csv",)),
    "parquet": Format(Timeline.save, (".parquet",)),
}
