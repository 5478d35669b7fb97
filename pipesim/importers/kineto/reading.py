"""Reading a file of PyTorch's profiler, .json or .json.gz, into Events; errors name the event and the key."""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipesim.base import files
from pipesim.base.arrays import Ints
from pipesim.base.errors import FormatError, shown, within
from pipesim.importers.compressed import read_inflated
from pipesim.importers.kineto.events import (
    COMMUNICATION,
    COMMUNICATION_KERNELS,
    DEVICE,
    GROUP_PREFIXES,
    LAUNCH,
    MODULE,
    MODULE_PREFIX,
    OP,
    RANGE,
    Events,
    MemoryEvents,
)
from pipesim.importers.kineto.nsight import MAGIC, is_nsight, nsight_events
from pipesim.importers.kineto.parsing import EXPECTED, no_garbage_collection, parse

# The names of each category in all versions of the profiler.
_CATEGORIES = {
    "cpu_op": OP,
    "operator": OP,
    "user_annotation": RANGE,
    "python_function": MODULE,
    "python": MODULE,
    "cuda_runtime": LAUNCH,
    "cuda_driver": LAUNCH,
    "hip_runtime": LAUNCH,
    "xpu_runtime": LAUNCH,
    "xpu_driver": LAUNCH,
    "privateuse1_runtime": LAUNCH,
    "runtime": LAUNCH,
    "kernel": DEVICE,
    "concurrent_kernel": DEVICE,
    "gpu_memcpy": DEVICE,
    "gpu_memset": DEVICE,
    "memcpy": DEVICE,
    "memset": DEVICE,
}
BYTES = {
    **dict.fromkeys(("bool", "byte", "char", "unsigned char", "signed char", "int8", "uint8"), 1),
    **dict.fromkeys(("half", "bfloat16", "c10::half", "c10::bfloat16", "short", "short int"), 2),
    **dict.fromkeys(("float", "int", "unsigned int"), 4),
    **dict.fromkeys(("double", "long", "long int", "c10::complex<float>", "complexfloat"), 8),
    **dict.fromkeys(("c10::complex<double>", "complexdouble"), 16),
}

_LAST_US, _LONGEST_US = 9e15, 1e12  # the year 2255; 11 days
_MOST_BYTES = 2**50


@dataclass(slots=True)
class _Columns:
    """Columns under construction."""

    names: dict[str, int] = field(default_factory=dict)
    threads: dict[tuple[Any, Any], int] = field(default_factory=dict)
    event: list[int] = field(default_factory=list)
    category: list[int] = field(default_factory=list)
    name: list[int] = field(default_factory=list)
    thread: list[int] = field(default_factory=list)
    ts: list[float] = field(default_factory=list)
    dur: list[float] = field(default_factory=list)
    correlation: list[int] = field(default_factory=list)
    sequence: list[int] = field(default_factory=list)
    size: list[int] = field(default_factory=list)
    details: dict[int, dict[str, Any]] = field(default_factory=dict)
    memory: list[tuple[float, int, int, int, bool]] = field(default_factory=list)
    memory_event: list[int] = field(default_factory=list)


def read(path: Path) -> Events:
    """The events of one file, also of an export of Nsight Systems."""
    if is_nsight(files.read_bytes(path, len(MAGIC))):
        return nsight_events(path)
    text = read_inflated(path).removeprefix(b"\xef\xbb\xbf")
    with within(str(path)), no_garbage_collection():
        data = parse(text)
        del text
        if isinstance(data, list):
            data = {"traceEvents": data}
        events = data.get("traceEvents") if isinstance(data, dict) else None
        if not isinstance(events, list):
            raise FormatError(f"has no list 'traceEvents'; {EXPECTED}")
        columns = _Columns()
        for index, event in enumerate(events):
            if not isinstance(event, dict):
                raise FormatError(f"traceEvents[{index}]: {shown(event)} found; an object was expected")
            _add_event(columns, index, event)
        events.clear()  # the objects take several times the memory of the columns
        return _assembled(path, data, columns)


# --- events ----------------------------------------------------------------------------------------------------------


def _add_event(columns: _Columns, index: int, event: dict[str, Any]) -> None:
    """Keep an event of a type that is used."""
    phase = event.get("ph")
    if phase == "X":
        cat = event.get("cat")
        category = _CATEGORIES.get(cat.lower(), -1) if isinstance(cat, str) else -1
        if category >= 0:
            _add_span(columns, index, event, category)
    elif phase == "i" and event.get("name") == "[memory]":
        _add_memory(columns, index, event)


def _add_span(columns: _Columns, index: int, event: dict[str, Any], category: int) -> None:
    name, ts, dur = event.get("name"), event.get("ts"), event.get("dur")
    if not isinstance(name, str):
        raise FormatError(f"traceEvents[{index}].name: {shown(name)} found; text was expected")
    if category == MODULE and not name.startswith(MODULE_PREFIX):
        return
    args = event.get("args")
    if not isinstance(args, dict):
        args = {}
    row = len(columns.event)
    columns.event.append(index)
    columns.category.append(category)
    columns.name.append(columns.names.setdefault(name, len(columns.names)))
    columns.thread.append(_thread(columns, event))
    columns.ts.append(_number(ts, index, "ts"))
    columns.dur.append(_number(dur, index, "dur"))
    columns.correlation.append(_whole(args.get("correlation")) if category in {LAUNCH, DEVICE} else -1)
    columns.sequence.append(_whole(args.get("Sequence number")) if category == OP else -1)
    columns.size.append(_first_input(args) if category in {OP, RANGE} else -1)
    if _is_communication(category, name, args):
        columns.details[row] = args


def _is_communication(category: int, name: str, args: dict[str, Any]) -> bool:
    if category == DEVICE:
        return "Collective name" in args or any(part in name.lower() for part in COMMUNICATION_KERNELS)
    return category in {OP, RANGE} and name.startswith(COMMUNICATION)


def _thread(columns: _Columns, event: dict[str, Any]) -> int:
    key = (str(event.get("pid"))[:80], str(event.get("tid"))[:80])
    return columns.threads.setdefault(key, len(columns.threads))


def _number(value: Any, index: int, key: str) -> float:  # noqa: ANN401 - any JSON
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    raise FormatError(f"traceEvents[{index}].{key}: {shown(value)} found; microseconds were expected")


def _whole(value: Any) -> int:  # noqa: ANN401 - any JSON
    """An optional number that links events; -1 where it is missing."""
    return value if type(value) is int and 0 <= value < 2**62 else -1


def _first_input(args: dict[str, Any]) -> int:
    """Bytes of the first input if it is a tensor of known shape and type, else -1."""
    dims, kinds = args.get("Input Dims"), args.get("Input type")
    if not (isinstance(dims, list) and isinstance(kinds, list) and dims and kinds):
        return -1
    first, kind = dims[0], kinds[0]
    if not isinstance(first, list) or not isinstance(kind, str) or kind.lower() not in BYTES:
        return -1
    total = BYTES[kind.lower()]
    for dim in first:
        if type(dim) is not int or dim < 0:
            return -1
        total *= dim
    return total if total <= _MOST_BYTES else -1


def _add_memory(columns: _Columns, index: int, event: dict[str, Any]) -> None:
    args = event.get("args")
    if not isinstance(args, dict):
        return
    size, address, device = args.get("Bytes"), args.get("Addr"), args.get("Device Type")
    if type(size) is not int or abs(size) > _MOST_BYTES or type(address) is not int:
        return
    time = _number(event.get("ts"), index, "ts")
    address &= 2**63 - 1
    columns.memory_event.append(index)
    columns.memory.append((time, _thread(columns, event), size, address, type(device) is int and device != 0))


# --- columns ---------------------------------------------------------------------------------------------------------


def _assembled(path: Path, data: dict[str, Any], columns: _Columns) -> Events:
    if not columns.event:
        raise FormatError(
            "has no operators, ranges or kernels; a trace with activities (ProfilerActivity.CPU, ...) was expected"
        )
    start, end, memory, first = _times(columns)
    thread = np.array(columns.thread, np.int64)
    order = np.lexsort((-end, start, thread))
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    info = data.get("distributedInfo")
    info = info if isinstance(info, dict) else {}
    return Events(
        path=str(path),
        names=tuple(columns.names),
        **{
            name: np.array(getattr(columns, name), np.int64)[order]
            for name in ("category", "name", "thread", "correlation", "sequence", "size")
        },
        start=start[order],
        end=end[order],
        details={int(place[row]): found for row, found in columns.details.items()},
        memory=_memory(columns, memory),
        rank=_rank(path, info),
        world=max(_whole(info.get("world_size")), 1),
        device=_device(data),
        origin=max(_whole(data.get("baseTimeNanoseconds")), 0) + first * 1000,
        host=str(data.get("host_name", ""))[:80],
        has_shapes=bool(max(columns.size) >= 0),
    )


def _times(columns: _Columns) -> tuple[Ints, Ints, Ints, int]:
    """Nanoseconds of starts, ends and allocations since the first event, and the microsecond of that event."""
    event = np.array(columns.event, np.int64)
    ts, dur = _checked(columns.ts, event, "ts", _LAST_US), _checked(columns.dur, event, "dur", _LONGEST_US)
    allotted = [time for time, *_ in columns.memory]
    memory = _checked(allotted, np.array(columns.memory_event, np.int64), "ts", _LAST_US)
    first = math.floor(min(ts.min(), memory.min(initial=math.inf)))
    if max((ts + dur).max(), memory.max(initial=0)) - first > _LONGEST_US:
        raise FormatError("its events are more than 11 days apart; the times of one run were expected")
    start = np.rint((ts - first) * 1000).astype(np.int64)
    end = start + np.rint(dur * 1000).astype(np.int64)
    return start, end, np.rint((memory - first) * 1000).astype(np.int64), first


def _checked(values: Iterable[float], event: NDArray[np.int64], key: str, most: float) -> NDArray[np.float64]:
    column = np.array(list(values), np.float64)
    wrong = ~((column >= 0) & (column <= most))
    if wrong.any():
        at = int(np.argmax(wrong))
        raise FormatError(
            f"traceEvents[{event[at]}].{key}: {column[at]} found; microseconds from 0 to {most:g} were expected"
        )
    return column


def _memory(columns: _Columns, time: NDArray[np.int64]) -> MemoryEvents:
    order = np.argsort(time, kind="stable")
    table = np.array([row[1:] for row in columns.memory], np.int64).reshape(-1, 4)[order]
    return MemoryEvents(time[order], table[:, 0], table[:, 1], table[:, 2], table[:, 3] > 0)


def _rank(path: Path, info: dict[str, Any]) -> int | None:
    rank = _whole(info.get("rank"))
    if rank >= 0:
        return rank
    named = re.search(r"rank[-_]?([0-9]{1,9})", path.name)
    return int(named[1]) if named else None


def _device(data: dict[str, Any]) -> str:
    found = data.get("deviceProperties")
    names = [device.get("name") for device in found if isinstance(device, dict)] if isinstance(found, list) else []
    return next((name[:80] for name in names if isinstance(name, str)), "")


def group_name(name: str) -> str:
    """`all_reduce` from `nccl:all_reduce`; empty for names that are not of a process group."""
    return name.partition(":")[2] if name.startswith(GROUP_PREFIXES) else ""
