"""From the profiles of all ranks of a pipelined run to a Recording of one of its iterations."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pipesim.base.arrays import Floats, Ints
from pipesim.base.errors import InputError, within
from pipesim.core.recorded_run import RecordedRun
from pipesim.core.recording import Clocks, Recording, on_one_clock
from pipesim.core.schedule import FORWARD
from pipesim.importers.kineto.action_names import actions_in, any_action, pattern_of
from pipesim.importers.kineto.action_times import RankActions, rank_actions
from pipesim.importers.kineto.layer_ranges import ITERATION
from pipesim.importers.kineto.process_groups import P2P, Communication, communications, transfer_table
from pipesim.importers.kineto.profiled_runs import Spans, optimizer_spans, run_of
from pipesim.importers.kineto.ranks import events_by_rank, title
from pipesim.importers.kineto.stages import STAGES, StageLayers, TimedFor, stage_layers, trace_of_stages
from pipesim.importers.kineto.unnamed_actions import with_ranges
from pipesim.importers.operations.operation_columns import RunFacts
from pipesim.importers.operations.run_assembly import NO_FACTS

ANY_DEVICE = TimedFor()


def recording(
    path: Path | Sequence[Path],
    *,
    actions: str | None = None,
    layers: str = STAGES,
    depth: int | None = None,
    iteration: str = ITERATION,
    number: int | None = None,
    clocks: Clocks = "auto",
    timed_for: TimedFor = ANY_DEVICE,
) -> Recording:
    """One iteration of a pipelined run from the files of all its ranks.

    `actions` is a regular expression, with groups stage, kind and microbatch, for the names of ranges that are actions;
    by default, names of torch.distributed.pipelining or words (see `action_names`). `layers` defines the layers of the
    trace: `stages`, or as for `kineto`, inside the forwards. `number` selects an iteration, from 0; by default the one
    of median length. `depth` and `iteration` are as for `kineto`, `clocks` as for `on_one_clock`.
    """
    return profiled(path, actions=actions, layers=layers, depth=depth, iteration=iteration).recording(
        number, clocks, timed_for
    )


@dataclass(frozen=True, slots=True)
class Profiled:
    """What the files of all ranks hold, each read once."""

    source: str
    actions: tuple[RankActions, ...]  # by rank
    communications: tuple[Communication, ...]
    layers: tuple[StageLayers, ...]
    optimizer: Mapping[int, Spans]  # rank -> when it worked in steps of the optimizer

    def recording(
        self, number: int | None = None, clocks: Clocks = "auto", timed_for: TimedFor = ANY_DEVICE
    ) -> Recording:
        """One iteration."""
        cut_bytes = _cut_bytes(self.actions, self.communications)
        table = transfer_table(self.communications)
        trace, stops = trace_of_stages(self.source, list(self.layers), cut_bytes, table, timed_for)
        columns = _columns(self.actions, _chosen(self.actions, number))
        return on_one_clock(Recording(**columns, cut_bytes=cut_bytes, trace=trace, stops=stops), clocks)

    def run(self, facts: RunFacts = NO_FACTS) -> RecordedRun:
        """All iterations, with communications."""
        return run_of(self.actions, self.communications, self.optimizer, self.source, facts)


def profiled(
    path: Path | Sequence[Path],
    *,
    actions: str | None = None,
    layers: str = STAGES,
    depth: int | None = None,
    iteration: str = ITERATION,
) -> Profiled:
    """Read the files of all ranks; the options are those of `recording`."""
    pattern = pattern_of(actions)
    actions_of_ranks: list[RankActions] = []
    seen: list[Communication] = []
    found: list[StageLayers] = []
    optimizer: dict[int, Spans] = {}
    for rank, events in events_by_rank(path):
        with within(events.path):
            if pattern is None and not any_action(events):
                events = with_ranges(events, iteration)  # noqa: PLW2901 - the same events, and what is found in them
            rows, named = actions_in(events, rank, pattern)
            actions_of_ranks.append(rank_actions(events, rank, rows, named, iteration))
            seen += communications(events, rank)
            found += stage_layers(events, actions_of_ranks[-1], layers, depth)
            optimizer[rank] = optimizer_spans(events)
    actions_of_ranks.sort(key=lambda one: one.rank)
    return Profiled(title(path), tuple(actions_of_ranks), tuple(seen), tuple(found), optimizer)


def kineto_run(
    path: Path | Sequence[Path], *, actions: str | None = None, iteration: str = ITERATION, facts: RunFacts = NO_FACTS
) -> RecordedRun:
    """The run in the profiles of all ranks: every iteration; `actions` and `iteration` are as for `recording`."""
    return profiled(path, actions=actions, iteration=iteration).run(facts)


def _columns(actions_of_ranks: Sequence[RankActions], iteration: int) -> dict[str, Any]:
    """One iteration of all ranks."""
    rows = [one.of(iteration) for one in actions_of_ranks]
    columns: dict[str, Ints] = {
        name: np.concatenate([getattr(one, name)[mine] for one, mine in zip(actions_of_ranks, rows, strict=True)])
        for name in ("stage", "kind", "microbatch")
    }
    first = min(one.origin for one in actions_of_ranks)
    for name in ("start", "end"):
        columns[name] = np.concatenate(
            [getattr(one, name)[mine] + one.origin - first for one, mine in zip(actions_of_ranks, rows, strict=True)]
        )
    return {
        **columns,
        "source": f"kineto, iteration {iteration}",
        "ranks": tuple(one.rank for one in actions_of_ranks),
        "rank": np.repeat(np.arange(len(actions_of_ranks)), [len(mine) for mine in rows]),
        "step": np.array(
            [one.step[iteration] if iteration < len(one.step) else 0 for one in actions_of_ranks], np.int64
        ),
        "shift": np.zeros(len(actions_of_ranks), np.int64),
        "doubt": np.zeros(len(actions_of_ranks), np.int64),
    }


def _chosen(actions_of_ranks: Sequence[RankActions], number: int | None) -> int:
    """The iteration of median length among those with the most common actions."""
    count = min(int(one.iteration.max()) + 1 for one in actions_of_ranks)
    if number is not None:
        if not 0 <= number < count:
            raise InputError(
                f"number = {number} found; 0 to {count - 1} was expected, since {count} iterations were recorded"
            )
        return number
    done = {at: tuple(one.cells(at) for one in actions_of_ranks) for at in range(count)}
    common = Counter(done.values()).most_common(1)[0][0]
    alike = [at for at in done if done[at] == common]
    lengths = {at: max(_length(one, at) for one in actions_of_ranks) for at in alike}
    return sorted(alike, key=lambda at: (lengths[at], at))[(len(alike) - 1) // 2]


def _length(one: RankActions, iteration: int) -> int:
    rows = one.of(iteration)
    return int(one.end[rows].max() - one.start[rows].min()) if len(rows) else 0


def _cut_bytes(actions_of_ranks: Sequence[RankActions], seen: Sequence[Communication]) -> Floats:
    """Bytes of a microbatch's activations at each boundary: the most common size of messages between its ranks."""
    sizes: dict[frozenset[int], Counter[int]] = defaultdict(Counter)
    for one in seen:
        if one.kind == P2P:
            sizes[frozenset((one.source, one.target))][one.size] += 1
    holders: dict[int, set[int]] = defaultdict(set)
    for actions_ in actions_of_ranks:
        for stage in np.unique(actions_.stage[actions_.kind == FORWARD]).tolist():
            holders[stage].add(actions_.rank)
    found = np.full(max(holders, default=0), np.nan)
    for stage in range(len(found)):
        between: Counter[int] = sum(
            (sizes[frozenset((a, b))] for a in sorted(holders[stage]) for b in sorted(holders[stage + 1])), Counter()
        )
        if between:
            found[stage] = between.most_common(1)[0][0]
    return found
