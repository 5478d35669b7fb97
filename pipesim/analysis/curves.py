"""Quantities over time, as steps: the memory of each device, the load of each medium.

    time     0    10    25    40        from time[i] ns on, until time[i + 1], the value is value[i];
    value    2     5     4     2        the last value holds to the end of the iteration

What ends at an instant makes room for what starts at it: a curve has one value per instant, with both counted.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from pipesim.base.arrays import Floats, Ints
from pipesim.core.rates import Rates
from pipesim.core.timeline import Timeline

Number = TypeVar("Number", np.int64, np.float64)

# Sums of rates that differ by less than this part of the largest are the same load.
_ROUNDING = 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class Steps(Generic[Number]):
    """One step curve per row, in flat columns: row r is [starts[r] : starts[r + 1]]. Every row begins at time 0."""

    starts: Ints
    time: Ints
    value: NDArray[Number]

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, row: int) -> tuple[Ints, NDArray[Number]]:
        piece = slice(self.starts[row], self.starts[row + 1])
        return self.time[piece], self.value[piece]

    def __iter__(self) -> Iterator[tuple[Ints, NDArray[Number]]]:
        return (self[row] for row in range(len(self)))


def memory_steps(timeline: Timeline, device: int) -> tuple[Ints, Ints]:
    """Bytes in use on a device (its position in the program) over time: what is always there, and what tasks add."""
    return _memory(timeline, np.flatnonzero(timeline.program.lane == device))[device]


def memory_curves(timeline: Timeline) -> Steps[np.int64]:
    """`memory_steps` of all devices at once: one row per device."""
    return _memory(timeline, np.flatnonzero(timeline.program.is_compute))


def _memory(timeline: Timeline, task: Ints) -> Steps[np.int64]:
    program = timeline.program
    row = np.tile(program.lane[task], 2)
    time = np.concatenate([timeline.start[task], timeline.end[task]])
    change = np.concatenate([program.memory_start[task], program.memory_end[task]])
    some = change != 0
    return _steps(program.static_memory, row[some], time[some], change[some])


def load_steps(timeline: Timeline, medium: int) -> tuple[Ints, Floats]:
    """Bytes per ns of a medium's capacity (its position in the program) that are used over time.

    Where rates were kept (fair sharing) these are the rates. Otherwise a transfer loads its route at its average rate,
    from the end of its delay to its end; a channel's capacity counts the delay in, so there from its start.
    """
    return _loads(timeline, medium)[medium]


def load_curves(timeline: Timeline, tasks: NDArray[np.bool_] | None = None) -> Steps[np.float64]:
    """`load_steps` of all media at once, one row per medium; if given, of these tasks only."""
    return _loads(timeline, None, tasks)


def _loads(timeline: Timeline, medium: int | None, tasks: NDArray[np.bool_] | None = None) -> Steps[np.float64]:
    route = timeline.program.route
    task, begin, end, rate = _pieces(timeline)
    if tasks is not None:
        chosen = tasks[task]
        task, begin, end, rate = task[chosen], begin[chosen], end[chosen], rate[chosen]
    lengths = route.lengths[task]
    piece = np.repeat(np.arange(len(task)), lengths)
    hop = np.arange(len(piece)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    row = route.values[route.starts[task[piece]] + hop]
    if medium is not None:
        piece, row = piece[row == medium], row[row == medium]
    time = np.concatenate([begin[piece], end[piece]])
    change = np.concatenate([rate[piece], -rate[piece]])
    return _steps(np.zeros(len(timeline.program.media)), np.tile(row, 2), time, change)


def _pieces(timeline: Timeline) -> tuple[Ints, Ints, Ints, Floats]:
    """Stretches of time in which a transfer runs at one rate: (task, begin, end, bytes per ns)."""
    program = timeline.program
    if timeline.rates is not None:
        task, begin, end, rate = _rated_pieces(timeline, timeline.rates)
    else:
        task = np.flatnonzero(~program.is_compute)
        delay = program.delay[task] if program.sharing_rule.has_links else np.int64(0)
        begin, end = timeline.start[task] + delay, timeline.end[task]
        rate = program.used[task] / np.maximum(end - begin, 1)
    lasting = (end > begin) & (rate > 0)
    return task[lasting], begin[lasting], end[lasting], rate[lasting]


def _rated_pieces(timeline: Timeline, rates: Rates) -> tuple[Ints, Ints, Ints, Floats]:
    """Each rate holds until the same transfer's next one, the last until its end."""
    order = np.lexsort((rates.time, rates.task))  # stable: of two rates at one instant the later row counts
    task, begin, rate = rates.task[order], rates.time[order], rates.rate[order]
    end = timeline.end[task]
    followed = np.flatnonzero(task[1:] == task[:-1])
    end[followed] = begin[followed + 1]
    return task, begin, end, rate


def _steps(base: NDArray[Number], row: Ints, time: Ints, change: NDArray[Number]) -> Steps[Number]:
    """Add up changes row by row, each row from its base at time 0; one point per instant at which the value changes."""
    rows = len(base)
    row = np.concatenate([np.arange(rows), row])
    time = np.concatenate([np.zeros(rows, np.int64), time])
    change = np.concatenate([base, change])
    order = np.lexsort((time, row))
    row, time, change = row[order], time[order], change[order]
    value = _sums_by_row(row, change, rows)
    last = np.append((row[1:] != row[:-1]) | (time[1:] != time[:-1]), np.ones(len(row[:1]), bool))
    row, time, value = row[last], time[last], value[last]
    tolerance = _ROUNDING * float(np.abs(value).max(initial=0))
    differs = np.append(np.ones(len(row[:1]), bool), (row[1:] != row[:-1]) | (np.abs(np.diff(value)) > tolerance))
    row, time, value = row[differs], time[differs], value[differs]
    return Steps(np.searchsorted(row, np.arange(rows + 1)), time, value)


def _sums_by_row(row: Ints, change: NDArray[Number], rows: int) -> NDArray[Number]:
    """Running sums, one per row; sums of floats that return to nothing are exactly 0."""
    first = np.searchsorted(row, np.arange(rows))
    total = np.cumsum(change)
    before = np.append(np.zeros(1, total.dtype), total)[first]
    sums: NDArray[Number] = total - before[row]
    if sums.dtype.kind == "f":
        under_way = np.cumsum(np.sign(change))  # a row's floats come in pairs: what begins also ends
        sums[under_way == 0] = 0
    return sums


def averages(time: Ints, value: NDArray[Number], edges: NDArray[np.int64] | Floats) -> Floats:
    """The mean of a step curve between each two edges (ns, ascending)."""
    lasting = np.maximum(edges[-1] - time[-1:], 0)
    area = np.concatenate([[0.0], np.cumsum(value * np.append(np.diff(time), lasting))])
    until = np.interp(edges, np.append(time, time[-1] + lasting), area)
    return np.asarray(np.diff(until) / np.diff(edges), np.float64)
