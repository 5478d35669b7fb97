"""Which ranges of a file are layers, which call of which layer each is, and in which sample.

    how             what is taken as a layer
    ranges          record_function ranges (user_annotation)
    modules         calls of modules (with_modules=True)
    operators       operators that no other called, without those around the model that only move or make data
    a regex         ranges, modules and operators whose name it matches; a group `layer` (or the first one) is the name
    auto            ranges if there are at least two that work, else modules, else operators

Ranges nest. A range whose parts are layers is opened, and its parts take what lies between them:

    ranges      |------------------ forward ------------------|          opened: it has most of all time
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
# Ranges that PyTorch writes itself, and what people call those around everything but the forward.
_OWN = re.compile(r"ProfilerStep|enumerate\(DataLoader\)|PyTorch Profiler|## Call CompiledFx")
_OPTIMIZER = re.compile(r"Optimizer\.|\W*(optimizer|optim|zero_grad)(\W?step)?\W*$", re.IGNORECASE)
_BACKWARD = re.compile(r"\W*(loss\W)?(backward|bwd)(\W?pass)?\W*$", re.IGNORECASE)
_MOST_OF_IT = 0.5


@dataclass(frozen=True, slots=True, eq=False)
class Calls:
    """Calls of layers in order of time: the row of each, when it begins and ends, and what it is called."""

    row: Ints
    start: Ints
    end: Ints
    names: tuple[str, ...]

    def chosen(self, which: Bools | Ints) -> "Calls":
        """Only these."""
        rows = np.flatnonzero(which) if which.dtype == bool else which
        return Calls(self.row[rows], self.start[rows], self.end[rows], tuple(self.names[i] for i in rows.tolist()))


def compiled(pattern: str, option: str) -> re.Pattern[str]:
    """A regular expression that a user wrote."""
    try:
        return re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise InputError(f"{option} = {shown(pattern)} found; a regular expression was expected: {error}") from None


def iterations(events: Events, pattern: str) -> tuple[Ints, Ints]:
    """When each iteration begins and ends: the innermost ranges of this name, or all of the file."""
    expression = compiled(pattern, "iteration")
    hit = np.array([bool(expression.search(name)) for name in events.names], bool)
    rows = events.of(RANGE)
    rows = rows[hit[events.name[rows]]]
    if not len(rows):
        if pattern != ITERATION:
            raise InputError(f"iteration = {shown(pattern)}: no range is called so; {ranges_there(events)}")
        return events.start.min(keepdims=True), events.end.max(keepdims=True) + 1
    above = parents(events.thread[rows], events.start[rows], events.end[rows])
    rows = np.delete(rows, above[above >= 0])
    rows = rows[np.argsort(events.start[rows], kind="stable")]
    start, end = events.start[rows], events.end[rows]
    apart = np.append(True, start[1:] >= np.maximum.accumulate(end)[:-1])
    return start[apart], end[apart]


def ranges_there(events: Events, most: int = 8) -> str:
    """Which ranges a file has, for messages."""
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


# --- which -----------------------------------------------------------------------------------------------------------


def candidates(events: Events, how: str, nodes: Ints) -> tuple[Ints, tuple[str, ...]]:
    """The rows that may be layers, and what they are called."""
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
    """Operators that no other called, and that autograd did not run; those of the optimizer are no layers."""
    rows = np.flatnonzero((events.category == OP) & ~own & (events.end > events.start))
    rows = rows[outermost(events.thread[rows], events.start[rows], events.end[rows])]
    held = np.union1d(nodes, optimizer_ranges(events))
    around = events.thread[held], events.start[held], events.end[held]
    return rows[inside(events.thread[rows], events.start[rows], around) < 0]


def _matching(events: Events, how: str) -> tuple[Ints, list[str]]:
    expression = compiled(how, "layers")
    found = [expression.search(name.removeprefix(MODULE_PREFIX)) for name in events.names]
    hit = np.array([match is not None for match in found], bool)
    rows = np.flatnonzero(hit[events.name] & np.isin(events.category, [RANGE, MODULE, OP]))
    names = [_caught(match) for row in rows.tolist() if (match := found[events.name[row]])]
    if not len(rows):
        raise InputError(f"layers = {shown(how)}: matches no range, module or operator; {ranges_there(events)}")
    return rows, names


def _caught(match: re.Match[str]) -> str:
    groups = match.groupdict()
    return groups.get("layer") or next((text for text in match.groups() if text), None) or match[0] or match.string


def printable(name: str) -> str:
    """A name that fits in a line of a table."""
    return "".join(c if c.isprintable() else " " for c in name)[:120].strip() or "unnamed"


def sort_of(name: str) -> str:
    """What sort of layer it is, from its name: Linear from Linear_3, aten::conv2d from aten::conv2d #2."""
    return re.sub(r"(\W*|_)#?\d+$", "", name) or name


# --- opened ----------------------------------------------------------------------------------------------------------


def calls(
    events: Events,
    how: str,
    depth: int | None,
    weight: NDArray[np.float64],
    nodes: Ints,
    *,
    without: Bools | None = None,
) -> Calls:
    """The calls of layers, ranges opened where they must be. `weight` is how much each row of the file works.

    Rows in `without` are no layers, whatever they are called. `depth` opens so many levels of ranges; None opens those
    that hold most of the work, most of it in their parts.
    """
    rows, names = candidates(events, how, nodes)
    if without is not None:
        names = tuple(name for name, row in zip(names, rows.tolist(), strict=True) if not without[row])
        rows = rows[~without[rows]]
    thread, start, end = events.thread[rows], events.start[rows], events.end[rows]
    above = parents(thread, start, end)
    if how not in WAYS:  # the innermost ones that match: the user has said what a layer is
        leaf = np.setdiff1d(np.arange(len(rows)), above)
        return _in_time(rows[leaf], start[leaf], end[leaf], [names[i] for i in leaf.tolist()])
    opened = _opened_paths(names, above, weight[rows], depth)
    found = list(_unopened(names, above, opened, (start.tolist(), end.tolist())))
    which, begins, ends = np.array(found, np.int64).reshape(-1, 3).T
    return _in_time(rows[which], begins, ends, [names[i] for i in which.tolist()])


def _unopened(
    names: Sequence[str], above: Ints, opened: set[tuple[str, str]], spans: tuple[list[int], list[int]]
) -> Iterator[tuple[int, int, int]]:
    """The ranges that stay closed, with the begin and end that they have as parts of what was opened around them."""
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
    """Ranges, by their names and those around them, that hold most of the work, and most of theirs in their parts."""
    path: list[tuple[str, str]] = []
    level: dict[tuple[str, str], int] = {}
    total: dict[tuple[str, str], float] = defaultdict(float)
    in_parts: dict[tuple[str, str], float] = defaultdict(float)
    for row, around in enumerate(above.tolist()):  # rows stand behind what is around them
        key = ("", names[row]) if around < 0 else (_path(path[around]), names[row])
        path.append(key)
        level[key] = 0 if around < 0 else level[path[around]] + 1
        total[key] += float(weight[row])
        if around >= 0:
            in_parts[path[around]] += float(weight[row])
    if depth is not None:
        return {key for key in total if level[key] < depth}
    work = sum(total[key] for key in total if not level[key])
    return {key for key in total if total[key] > _MOST_OF_IT * work and in_parts[key] > _MOST_OF_IT * total[key]}


def _in_time(rows: Ints, start: Ints, end: Ints, names: Sequence[str]) -> Calls:
    order = np.lexsort((rows, start))
    return Calls(rows[order], start[order], end[order], tuple(names[i] for i in order.tolist()))
