"""From the files of all ranks of a pipelined run to a Recording of one of its iterations, with the layers' times."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pipesim.base.arrays import Floats, Ints
from pipesim.base.errors import InputError, within
from pipesim.core.recording import Clocks, Recording, on_one_clock
from pipesim.core.schedule import FORWARD
from pipesim.core.trace import ANY_KIND
from pipesim.importers.kineto.action_names import actions_in, pattern_of
from pipesim.importers.kineto.action_times import RankActions, acts
from pipesim.importers.kineto.layer_ranges import ITERATION
from pipesim.importers.kineto.process_groups import P2P, Communication, moved, table
from pipesim.importers.kineto.ranks import of_ranks, title
from pipesim.importers.kineto.stages import STAGES, StageLayers, parts, trace_of_stages


def recording(
    path: Path | Sequence[Path],
    *,
    actions: str | None = None,
    layers: str = STAGES,
    depth: int | None = None,
    iteration: str = ITERATION,
    number: int | None = None,
    clocks: Clocks = "auto",
    samples: int = 1,
    device: str = ANY_KIND,
) -> Recording:
    """One iteration of a pipelined run from the files of all its ranks.

    `actions` is a regular expression, with groups stage, kind and microbatch, for the names of ranges that are actions;
    by default they are called as torch.distributed.pipelining does, or in words. `layers` says what the layers of the
    trace are: `stages`, or what is meant by it for `kineto`, inside of the forwards. `number` chooses an iteration,
    from 0; by default that of median length. The other options are as for `kineto`, `clocks` as for `on_one_clock`.
    """
    pattern = pattern_of(actions)
    every: list[RankActions] = []
    seen: list[Communication] = []
    found: list[StageLayers] = []
    for rank, events in of_ranks(path):
        with within(events.path):
            rows, named = actions_in(events, rank, pattern)
            every.append(acts(events, rank, rows, named, iteration))
            seen += moved(events, rank)
            found += parts(events, every[-1], layers, depth)
    every.sort(key=lambda one: one.rank)
    cut_bytes = _cut_bytes(every, seen)
    trace, stops = trace_of_stages(title(path), found, cut_bytes, table(seen), samples=samples, device=device)
    columns = _columns(every, _chosen(every, number))
    return on_one_clock(Recording(**columns, cut_bytes=cut_bytes, trace=trace, stops=stops), clocks)


def _columns(every: Sequence[RankActions], iteration: int) -> dict[str, Any]:
    """One iteration of all ranks."""
    rows = [one.of(iteration) for one in every]
    columns: dict[str, Ints] = {
        name: np.concatenate([getattr(one, name)[mine] for one, mine in zip(every, rows, strict=True)])
        for name in ("stage", "kind", "microbatch")
    }
    first = min(one.origin for one in every)
    for name in ("start", "end"):
        columns[name] = np.concatenate(
            [getattr(one, name)[mine] + one.origin - first for one, mine in zip(every, rows, strict=True)]
        )
    return {
        **columns,
        "source": f"kineto, iteration {iteration}",
        "ranks": tuple(one.rank for one in every),
        "rank": np.repeat(np.arange(len(every)), [len(mine) for mine in rows]),
        "step": np.array([one.step[iteration] if iteration < len(one.step) else 0 for one in every], np.int64),
        "shift": np.zeros(len(every), np.int64),
        "doubt": np.zeros(len(every), np.int64),
    }


def _chosen(every: Sequence[RankActions], number: int | None) -> int:
    """The iteration of median length among those that do what most do."""
    count = min(int(one.iteration.max()) + 1 for one in every)
    if number is not None:
        if not 0 <= number < count:
            raise InputError(f"number = {number} found; {count} iterations were recorded, from 0 on")
        return number
    done = {at: tuple(one.cells(at) for one in every) for at in range(count)}
    common = Counter(done.values()).most_common(1)[0][0]
    alike = [at for at in done if done[at] == common]
    lengths = {at: max(_length(one, at) for one in every) for at in alike}
    return sorted(alike, key=lambda at: (lengths[at], at))[(len(alike) - 1) // 2]


def _length(one: RankActions, iteration: int) -> int:
    rows = one.of(iteration)
    return int(one.end[rows].max() - one.start[rows].min()) if len(rows) else 0


def _cut_bytes(every: Sequence[RankActions], seen: Sequence[Communication]) -> Floats:
    """Bytes of a microbatch's activations at each boundary: of the messages between its ranks, the most common size."""
    sizes: dict[frozenset[int], Counter[int]] = defaultdict(Counter)
    for one in seen:
        if one.kind == P2P:
            sizes[frozenset((one.source, one.target))][one.size] += 1
    holders: dict[int, set[int]] = defaultdict(set)
    for acts_ in every:
        for stage in np.unique(acts_.stage[acts_.kind == FORWARD]).tolist():
            holders[stage].add(acts_.rank)
    found = np.full(max(holders, default=0), np.nan)
    for stage in range(len(found)):
        between: Counter[int] = sum(
            (sizes[frozenset((a, b))] for a in sorted(holders[stage]) for b in sorted(holders[stage + 1])), Counter()
        )
        if between:
            found[stage] = between.most_common(1)[0][0]
    return found
