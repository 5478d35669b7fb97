"""Folding: which ranks, messages and links do the same at the same time, so that one of each is simulated.

    stream     all messages from one GPU to another that have the same part in what is done: between two stages, in a
               team's gather, on an edge of a ring
    class      ranks, streams or links that are alike

Classes are found by refinement from what differs at once (actions, kinds of devices, speeds, capacities, delays): two
links are alike only if as many streams of each class cross them, two streams only if they join ranks of the same
classes over links of the same classes, two ranks only if they have as many streams of each class. `_is_even` then
checks this by counting, so that no coincidence of hashes merges what is different.

All members of a class do the same at every moment: docs/folding.md has the proof. It rests on shares of links that
depend only on how many streams of each class cross them (`engines.max_min`), and on nothing that the number of a task
decides; so programs whose links carry one transfer after the other are not folded.
"""

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipesim.base.arrays import Ints, Ragged, row_codes
from pipesim.core.program import ACTIVATION
from pipesim.core.scenario import STEADY
from pipesim.core.schedule import Schedule
from pipesim.lowering.reductions import collectives_of, ring_edges
from pipesim.lowering.setup import Fold, Groups, Setup, StreamCodes
from pipesim.lowering.transfers import all_streams, between_gpus, ends_of_messages, gather_edges, gathers_messages

Hashes = NDArray[np.uint64]


def fold_of(setup: Setup) -> Fold | None:
    """How a plan and its schedule fold; None where nothing represents anything else, or the sharing rule forbids it."""
    rule, whole = setup.sharing_rule, setup.plan.replicas == "whole"
    if not rule.has_links or rule.one_at_a_time:
        return None
    if setup.cluster.buckets:  # what a bucket holds is added up from flows, not from how many are alike
        return None
    if whole and len(set(setup.plan.replication)) > 1:
        return None
    if setup.options.transfers == "sequential" and not whole:  # the order of messages to replicas distinguishes them
        return None
    streams = _streams_of(setup)
    graph = _graph_of(setup, streams)
    classes = _refined(graph, _Classes(_first_ranks(setup), _first_streams(setup, streams), _first_media(setup)))
    if not _folds(classes) or not _is_even(graph, classes):
        return None
    return _fold(setup, streams, graph, classes)


def folded(setup: Setup, fold: Fold) -> Setup:
    """What is lowered in place of a plan: the actions of the ranks that represent others, and of no others."""
    kept = fold.ranks == np.arange(len(fold.ranks))
    schedule = setup.schedule
    rows = kept[schedule.rank]
    starts = np.concatenate([[0], np.cumsum(np.where(kept, np.diff(schedule.starts), 0))]).astype(np.int64)
    columns = (schedule.stage, schedule.kind, schedule.microbatch, schedule.paired)
    return replace(setup, fold=fold, schedule=Schedule(starts, *(column[rows] for column in columns)))


class _Streams(NamedTuple):
    """GPUs and ranks at both ends; what is the same in streams that may be alike. Edges of rings come last."""

    ends: list[tuple[str, str]]
    ranks: Ints  # [stream, end]
    sort: list[Hashable]
    pairs: StreamCodes
    gathers: StreamCodes
    rings: dict[Groups, int]


def _streams_of(setup: Setup) -> _Streams:
    ranks = len(setup.plan.devices)
    sent, rank_of, stage_of = all_streams(setup), setup.rank_of_slot, setup.stage_of_slot
    join = rank_of[sent.source] * ranks + rank_of[sent.target]
    apart = rank_of[sent.source] != rank_of[sent.target]
    # What two ranks exchange: which cuts, in which direction.
    joins = np.unique(np.stack([join, stage_of[sent.source], sent.kind == ACTIVATION], axis=1)[apart], axis=0)
    begins = np.flatnonzero(np.diff(joins[:, 0], prepend=-1))
    cuts = {int(rows[0, 0]): rows[:, 1:].tobytes() for rows in np.split(joins, begins[1:]) if len(rows)}
    _, first = np.unique(join, return_index=True)
    messages = between_gpus(setup, sent.rows(first[apart[first]]))
    codes = setup.stream_codes(messages.source, messages.target, messages.part)
    ends = ends_of_messages(setup, messages)
    sort: list[Hashable] = [
        ("message", cuts[code // setup.most_messages], part)
        for code, part in zip(codes.tolist(), (part for _, _, part in ends), strict=True)
    ]
    joined = [divmod(code // setup.most_messages, ranks) for code in codes.tolist()]
    every = [(a, b) for a, b, _ in ends]
    gather_codes: list[int] = []
    if gathers_messages(setup):
        for code, exchanged in cuts.items():
            source, target = divmod(code, ranks)
            for n, edge in enumerate(gather_edges(setup, target)):
                gather_codes.append(code * setup.most_messages + n)
                every.append(edge)
                sort.append(("gather", exchanged))
                joined.append((source, target))
    rings: dict[Groups, int] = {}
    for groups in collectives_of(setup):
        if groups in rings:
            continue
        edges = ring_edges(setup, groups)
        rings[groups] = len(every)
        every += [(edge.source, edge.target) for edge in edges]
        sort += [("ring", len(rings), edge.length, edge.rings) for edge in edges]
        joined += [(setup.rank_of_gpu[edge.source], setup.rank_of_gpu[edge.target]) for edge in edges]
    ranks_of = np.array(joined, np.int64).reshape(-1, 2)
    gathers = StreamCodes(np.array(gather_codes, np.int64), len(codes))
    return _Streams(every, ranks_of, sort, StreamCodes(codes, 0), gathers, rings)


class _Graph(NamedTuple):
    """Streams, the ranks that they join and the media that they cross, in pairs."""

    stream: Ints  # of each crossing
    medium: Ints
    source: Ints  # ranks of each stream
    target: Ints
    joining: int  # so many streams, the first, matter to a rank; the others, of rings, to all ranks of a stage alike
    contended: bool = True  # whether it matters to a stream what else crosses its media


class _Classes(NamedTuple):
    """Ranks, streams and media, each with the number of its class."""

    ranks: Ints
    streams: Ints
    media: Ints


def _graph_of(setup: Setup, streams: _Streams) -> _Graph:
    route = setup.cluster.route
    setup.cluster.find_routes(streams.ends)
    media = {ends: route(*ends).media for ends in dict.fromkeys(streams.ends)}
    routes = Ragged.of([media[ends] for ends in streams.ends])
    source, target = streams.ranks.T
    joining = len(streams.pairs.codes) + len(streams.gathers.codes)
    contended = setup.sharing_rule.contended
    return _Graph(routes.row_of_value(), routes.values, source, target, joining, contended)


def _numbered(sorts: Sequence[Hashable]) -> Ints:
    number = {sort: n for n, sort in enumerate(dict.fromkeys(sorts))}
    return np.array([number[sort] for sort in sorts], np.int64)


def _first_ranks(setup: Setup) -> Ints:
    """Ranks that have the same actions, are of the same kind, and are equally fast at any time."""
    schedule, plan = setup.schedule, setup.plan
    step = len(plan.stages[0].devices) if plan.replicas == "whole" else 1
    columns = np.stack([schedule.stage, schedule.kind, schedule.microbatch // step, schedule.paired], axis=1)
    actions = np.split(columns, schedule.starts[1:-1])
    speeds = [setup.scenario.of_team(setup.members(rank)) for rank in range(len(plan.devices))]
    return _numbered([(setup.kind(n), speeds[n], row.tobytes()) for n, row in enumerate(actions)])


def _first_streams(setup: Setup, streams: _Streams) -> Ints:
    """Streams that are of the same sort and as fast alone on their routes."""
    cluster = setup.cluster
    alone = {}
    for ends in dict.fromkeys(streams.ends):
        found = cluster.route(*ends)
        tables = tuple(cluster.links[link].table for link in found.links) if cluster.has_tables else ()
        alone[ends] = found.delay, found.bandwidth, tables
    return _numbered([(sort, alone[ends]) for sort, ends in zip(streams.sort, streams.ends, strict=True)])


def _first_media(setup: Setup) -> Ints:
    """Media of the same capacity at any time."""
    cluster = setup.cluster
    speeds = setup.scenario.of_media(cluster) if setup.scenario.degraded else {}
    return _numbered(
        [(rate, speeds.get(name, STEADY)) for name, rate in zip(cluster.media, cluster.media_bandwidth, strict=True)]
    )


def _mixed(numbers: Ints, salt: int) -> Hashes:
    """Hashes whose sums tell multisets apart (the finaliser of splitmix64)."""
    found: Hashes = (numbers + salt).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        found = (found ^ (found >> np.uint64(shift))) * np.uint64(factor)
    return found ^ (found >> np.uint64(31))


def _sums(row: Ints, values: Hashes, rows: int) -> Hashes:
    """The sum of the values of each row."""
    found: Hashes = np.zeros(rows, np.uint64)
    np.add.at(found, row, values)
    return found


def _finer(numbers: Ints, *hashes: Hashes) -> Ints:
    """Numbers of the classes of what is alike in all of these."""
    order = np.lexsort((*hashes, numbers))
    new = np.zeros(len(numbers), bool)
    for column in (numbers, *hashes):
        new[1:] |= column[order][1:] != column[order][:-1]
    found = np.empty(len(numbers), np.int64)
    found[order] = np.cumsum(new)
    return found


def _refined(graph: _Graph, classes: _Classes) -> _Classes:
    """The coarsest classes, not coarser than these, of which each has as much to do with each other."""
    counted = -1
    while (count := sum(int(column.max(initial=-1)) + 1 for column in classes)) != counted:
        counted = count
        ranks, streams, media = classes
        joined = _mixed(ranks, 1)
        crossed = _sums(graph.stream, _mixed(media, 2)[graph.medium], len(streams))
        streams = _finer(streams, joined[graph.source], joined[graph.target], crossed)
        if graph.contended:
            media = _finer_media(graph, streams, media)
        n = graph.joining
        sent, received = (_mixed(streams[:n], salt) for salt in (4, 5))
        held = _sums(graph.source[:n], sent, len(ranks)), _sums(graph.target[:n], received, len(ranks))
        classes = _Classes(_finer(ranks, *held), streams, media)
    return classes


def _finer_media(graph: _Graph, streams: Ints, media: Ints) -> Ints:
    return _finer(media, _sums(graph.medium, _mixed(streams, 3)[graph.stream], len(media)))


def _folds(classes: _Classes) -> bool:
    """Whether any rank or any stream represents another."""
    return any(len(column) > int(column.max(initial=-1)) + 1 for column in (classes.ranks, classes.streams))


def _counted(owner: Ints, owner_class: Ints, other: Ints) -> tuple[Ints, bool]:
    """(class, class of others, how many of these each member has); and whether this is the same for all members."""
    of, joined, count = _distinct(owner, other)
    *rows, members = _distinct(owner_class[of], joined, count)
    sizes = np.bincount(owner_class)
    return np.stack(rows, axis=1), bool((members == sizes[rows[0]]).all())


def _distinct(*columns: Ints) -> tuple[Ints, ...]:
    """The different rows of columns, in order, and how often each occurs."""
    _, first, count = np.unique(row_codes(*columns), return_index=True, return_counts=True)
    return *(column[first] for column in columns), count


def _is_even(graph: _Graph, classes: _Classes) -> bool:
    """Whether each member of a class has as much to do with each other class as all other members have."""
    ranks, streams, media = classes
    every, n = np.arange(len(streams)), graph.joining
    shares = [(graph.medium, media, streams[graph.stream])] if graph.contended else []
    return all(
        _counted(owner, owner_class, other)[1]
        for owner, owner_class, other in (
            *shares,
            (graph.stream, streams, media[graph.medium]),
            (every, streams, ranks[graph.source]),
            (every, streams, ranks[graph.target]),
            (graph.source[:n], ranks, streams[:n]),
            (graph.target[:n], ranks, streams[:n]),
        )
    )


def _first_of(numbers: Ints) -> Ints:
    """For each member the first of its class."""
    _, first, inverse = np.unique(numbers, return_index=True, return_inverse=True)
    return first[inverse]


def _fold(setup: Setup, streams: _Streams, graph: _Graph, classes: _Classes) -> Fold:
    if not graph.contended:  # what crosses them makes no difference to what is done, but to what is reported of them
        classes = classes._replace(media=_finer_media(graph, classes.streams, classes.media))
    ranks, media = _first_of(classes.ranks), _first_of(classes.media)
    slots = np.array([setup.slot_of[stage, ranks[rank]] for stage, rank in setup.slots], np.int64)
    rows, _ = _counted(graph.medium, classes.media, classes.streams[graph.stream])
    order = np.lexsort((rows[:, 0], rows[:, 1]))  # (medium, stream, count), by stream
    medium, stream, count = rows[order].T
    first_medium = np.unique(classes.media, return_index=True)[1]
    by_class = np.searchsorted(stream, np.arange(int(classes.streams.max(initial=-1)) + 2))
    route = Ragged(by_class.astype(np.int64), first_medium[medium]).take(classes.streams)
    alike = Ragged(by_class.astype(np.int64), count).take(classes.streams)
    return Fold(
        ranks, slots, setup.rank_of_slot, _first_of(classes.streams), media, route, alike,
        streams.pairs, streams.gathers, streams.rings,
    )  # fmt: skip
