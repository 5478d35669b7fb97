"""Which ranges of a file are layers, and the calls of these layers.

    how             what a layer is
    ranges          record_function ranges (user_annotation)
    modules         calls of modules (with_modules=True)
    operators       operators that no other operator called, but for data movement before and after the model
    a regex         ranges, modules and operators with a matching name; the group `layer` (or the first) is the name
    auto            ranges if at least two of them work, else modules, else operators

Ranges nest. A range whose parts are layers is opened, and the time between its parts is added to them:

    ranges      |------------------ forward ------------------|          opened: it has most of the time
                   |-- block0 --|  |-- block1 --| |- head -|             its parts: the layers
    layers      |--- block0 ------|--- block1 -----|-- head --|
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from pipesim.base.arrays import Bools, Ints
from pipesim.base.errors import InputError, shown
from pipesim.importers.kineto.events import MODULE, MODULE_PREFIX, NODE_PREFIX, OP, RANGE, Events
from pipesim.importers.kineto.nesting import inside, outermost, parents

AUTO, OPERATORS = "auto", "operators"
WAYS = (AUTO, "ranges", "modules", OPERATORS)
ITERATION = r"ProfilerStep#?\s*\d+"
# Ranges that PyTorch writes itself, and usual names of ranges around the optimizer and the backward.
_OWN = re.compile(r"ProfilerStep|enumerate\(DataLoader\)|PyTorch Profiler|## Call CompiledFx")
_OPTIMIZER = re.compile(r"Optimizer\.|\W*(optimizer|optim|zero_grad)(\W?step)?\W*$", re.IGNORECASE)
_BACKWARD = re.compile(r"\W*(loss\W)?(backward|bwd)(\W?pass)?\W*$", re.IGNORECASE)
_MOST = 0.5


@dataclass(frozen=True, slots=True, eq=False)
class Calls:
    """Calls of layers in order of time: row, begin, end and name of each."""

    row: Ints
    start: Ints
    end: Ints
    names: tuple[str, ...]

    def chosen(self, which: Bools | Ints) -> "Calls":
        """Only these."""
        rows = np.flatnonzero(which) if which.dtype == bool else which
        return Calls(self.row[rows], self.start[rows], self.end[rows], tuple(self.names[i] for i in rows.tolist()))


def compiled_pattern(pattern: str, option: str) -> re.Pattern[str]:
    """A regular expression that a user wrote."""
    try:
        return re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise InputError(f"{option} = {shown(pattern)} found; a regular expression was expected: {error}") from None


def iterations(events: Events, pattern: str) -> tuple[Ints, Ints]:
    """When each iteration begins and ends: the innermost ranges with a matching name, or the whole file."""
    expression = compiled_pattern(pattern, "iteration")
    hit = np.array([bool(expression.search(name)) for name in events.names], bool)
    rows = events.of(RANGE)
    rows = rows[hit[events.name[rows]]]
    if not len(rows):
        if pattern != ITERATION:
            raise InputError(f"iteration = {shown(pattern)}: no range has a matching name; {ranges_there(events)}")
        return events.start.min(keepdims=True), events.end.max(keepdims=True) + 1
    above = parents(events.thread[rows], events.start[rows], events.end[rows])
    rows = np.delete(rows, above[above >= 0])
    rows = rows[np.argsort(events.start[rows], kind="stable")]
    start, end = events.start[rows], events.end[rows]
    apart = np.append(True, start[1:] >= np.maximum.accumulate(end)[:-1])
    return start[apart], end[apart]


def ranges_there(events: Events, most: int = 8) -> str:
    """The ranges of a file, for error messages."""
    names = Counter(events.text(row) for row in events.of(RANGE).tolist())
    listed = [repr(name[:40]) for name, _ in names.most_common(most)]
    return f"its ranges are {', '.join(listed)}{', ...' if len(names) > most else ''}" if names else "it has no ranges"


def backward_nodes(events: Events) -> Ints:
    """The operators that autograd runs, one for each node of its graph."""
    rows = np.flatnonzero((events.category == OP) & events.named(NODE_PREFIX))
    if len(rows):
        return rows
    old = np.array([re.search(r"Backward\d*$|AccumulateGrad$", name) is not None for name in events.names], bool)
    return np.flatnonzero((events.category == OP) & old[events.name])


def optimizer_ranges(events: Events) -> Ints:
    """Ranges around the optimizer's work."""
    return np.flatnonzero((events.category == RANGE) & _which(events, _OPTIMIZER))


def _which(events: Events, pattern: re.Pattern[str]) -> Bools:
    return np.array([pattern.match(name) is not None for name in events.names], bool)[events.name]


# --- candidates ------------------------------------------------------------------------------------------------------


def candidates(events: Events, how: str, nodes: Ints) -> tuple[Ints, tuple[str, ...]]:
    """The rows that can be layers, and their names."""
    own = _which(events, _OWN) | _which(events, _OPTIMIZER) | _which(events, _BACKWARD) | events.communicates
    if how == "ranges":
        rows = np.flatnonzero((events.category == RANGE) & ~own)
        names = [events.text(row) for row in rows.tolist()]
    elif how == "modules":
        rows = events.of(MODULE)
        names = [events.text(row).removeprefix(MODULE_PREFIX) for row in rows.tolist()]
    elif how == "operators":
        rows = _operators(events, own, nodes)
        names = [events.text(row) for row in rows.tolist()]
    else:
        rows, names = _matching(events, how)
    return rows, tuple(map(printable, names))


def _operators(events: Events, own: Bools, nodes: Ints) -> Ints:
    """Operators that neither another operator nor autograd nor the optimizer called."""
    rows = np.flatnonzero((events.category == OP) & ~own & (events.end > events.start))
    rows = rows[outermost(events.thread[rows], events.start[rows], events.end[rows])]
    held = np.union1d(nodes, optimizer_ranges(events))
    around = events.thread[held], events.start[held], events.end[held]
    return rows[inside(events.thread[rows], events.start[rows], around) < 0]


def _matching(events: Events, how: str) -> tuple[Ints, list[str]]:
    expression = compiled_pattern(how, "layers")
    found = [expression.search(name.removeprefix(MODULE_PREFIX)) for name in events.names]
    hit = np.array([match is not None for match in found], bool)
    rows = np.flatnonzero(hit[events.name] & np.isin(events.category, [RANGE, MODULE, OP]))
    names = [_layer_name(match) for row in rows.tolist() if (match := found[events.name[row]])]
    if not len(rows):
        raise InputError(f"layers = {shown(how)}: matches no range, module or operator; {ranges_there(events)}")
    return rows, names


def _layer_name(match: re.Match[str]) -> str:
    groups = match.groupdict()
    return groups.get("layer") or next((text for text in match.groups() if text), None) or match[0] or match.string


def printable(name: str) -> str:
    """A name that fits in a line of a table."""
    return "".join(c if c.isprintable() else " " for c in name)[:120].strip() or "unnamed"


def kind_of(name: str) -> str:
    """The kind of a layer, from its name: Linear from Linear_3, aten::conv2d from aten::conv2d #2."""
    return re.sub(r"(\W*|_)#?\d+$", "", name) or name


# --- opening ---------------------------------------------------------------------------------------------------------


def calls(
    events: Events,
    how: str,
    depth: int | None,
    weight: NDArray[np.float64],
    nodes: Ints,
    *,
    without: Bools | None = None,
) -> Calls:
    """The calls of layers, after ranges are opened. `weight` is the work that each row of the file causes.

    Rows in `without` are not layers, whatever their names. `depth` is the number of levels of ranges to open; None
    opens those with most of the work, most of it in their parts.
    """
    rows, names = candidates(events, how, nodes)
    if without is not None:
        names = tuple(name for name, row in zip(names, rows.tolist(), strict=True) if not without[row])
        rows = rows[~without[rows]]
    thread, start, end = events.thread[rows], events.start[rows], events.end[rows]
    above = parents(thread, start, end)
    if how not in WAYS:  # the innermost that match: the user defined the layers
        leaf = np.setdiff1d(np.arange(len(rows)), above)
        return _by_time(rows[leaf], start[leaf], end[leaf], [names[i] for i in leaf.tolist()])
    opened = _opened_paths(names, above, weight[rows], depth)
    found = list(_closed_ranges(names, above, opened, (start.tolist(), end.tolist())))
    which, begins, ends = np.array(found, np.int64).reshape(-1, 3).T
    return _by_time(rows[which], begins, ends, [names[i] for i in which.tolist()])


def _closed_ranges(
    names: Sequence[str], above: Ints, opened: set[tuple[str, str]], spans: tuple[list[int], list[int]]
) -> Iterator[tuple[int, int, int]]:
    """The ranges that stay closed, with begin and end extended over the opened range around them."""
    starts, ends = spans
    parts: dict[int, list[int]] = defaultdict(list)
    for row, around in enumerate(above.tolist()):
        parts[around].append(row)
    left = [(root, starts[root], ends[root], ("", names[root])) for root in parts[-1]]
    while left:
        row, begin, stop, path = left.pop()
        if path not in opened or not parts[row]:
            yield row, begin, stop
            continue
        edges = pairwise([begin, *(starts[part] for part in parts[row][1:]), stop])
        left += [(part, *edge, (_path(path), names[part])) for part, edge in zip(parts[row], edges, strict=True)]


def _path(path: tuple[str, str]) -> str:
    return f"{path[0]}\0{path[1]}"


def _opened_paths(
    names: Sequence[str], above: Ints, weight: NDArray[np.float64], depth: int | None
) -> set[tuple[str, str]]:
    """Ranges (by their names and those around them) with most of the work, most of it in their parts."""
    path: list[tuple[str, str]] = []
    level: dict[tuple[str, str], int] = {}
    total: dict[tuple[str, str], float] = defaultdict(float)
    in_parts: dict[tuple[str, str], float] = defaultdict(float)
    for row, around in enumerate(above.tolist()):  # a row comes after the row around it
        key = ("", names[row]) if around < 0 else (_path(path[around]), names[row])
        path.append(key)
        level[key] = 0 if around < 0 else level[path[around]] + 1
        total[key] += float(weight[row])
        if around >= 0:
            in_parts[path[around]] += float(weight[row])
    if depth is not None:
        return {key for key in total if level[key] < depth}
    work = sum(total[key] for key in total if not level[key])
    return {key for key in total if total[key] > _MOST * work and in_parts[key] > _MOST * total[key]}


def _by_time(rows: Ints, start: Ints, end: Ints, names: Sequence[str]) -> Calls:
    order = np.lexsort((rows, start))
    return Calls(rows[order], start[order], end[order], tuple(names[i] for i in order.tolist()))
