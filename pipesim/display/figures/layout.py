"""The layout of a Gantt chart: rows, strips inside rows, and the spans in each strip.

    row         strip
    gpu0        compute     F0 F1 F2 ...    B0          one box per task on the lane
                band                          A A       all-reduce; only in charts that have any
    gpu0->gpu1  track 0        > >   >                  links=True: one row per medium with transfers,
                track 1         >                       one track for each of the simultaneous transfers
    gpu0->nic0 ×8                                       of many media, those that carry the same share a row

y grows downwards: row 0 is from 0 to 1.
"""

from dataclasses import dataclass

import numpy as np

from pipesim.base.arrays import Floats, Ints
from pipesim.base.intervals import tracks
from pipesim.core.program import COLLECTIVES
from pipesim.core.timeline import Timeline

_GAP = 0.5  # between devices and media, in rows
_MARGIN = 0.09  # above and below the strips of a row
_BAND = 0.24  # the part of a row for all-reduces
_MOST_MEDIA = 24  # rows; above, media that carry the same at the same times share one: those of a team's members
_CROWD = 100  # with more rows, there are no margins


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """Rows and strips by their y, spans by their strip. The compute strip of a device has the number of the device."""

    names: tuple[str, ...]
    devices: int
    row_top: Floats  # per row; a row is 1 high
    strip_top: Floats  # per strip
    strip_bottom: Floats
    strip: Ints  # per span
    task: Ints
    shade: Ints  # the chunk of the task among those of its device
    shades: int

    @property
    def height(self) -> float:
        """The y at the end of the last row."""
        return float(self.row_top[-1]) + 1


def lay_out(timeline: Timeline, *, links: bool) -> Layout:
    """Rows for devices and, with `links`, for media; spans of no duration are left out."""
    program = timeline.program
    devices = len(program.devices)
    media, alike = _media(timeline) if links else (np.zeros(0, np.int64), [])
    row_top = np.concatenate([np.arange(devices), devices + _GAP + np.arange(len(media))])
    parts = [_computation(timeline), _bands(timeline), _transfers(timeline, media)]
    has_bands = bool(len(parts[1][0]))
    tracks_of = _tracks_of(parts[2][0], len(media))
    strip_top, strip_bottom = _strips(row_top, devices, tracks_of, has_bands=has_bands)
    strip = np.concatenate([parts[0][0], devices + parts[1][0], _strip_of(parts[2][0], tracks_of, 2 * devices)])
    task = np.concatenate([task for _, task in parts])
    lasting = timeline.end[task] > timeline.start[task]
    shade = _shades(timeline)[task]
    return Layout(
        names=(*program.devices, *(f"{program.media[m]}{many}" for m, many in zip(media.tolist(), alike, strict=True))),
        devices=devices,
        row_top=row_top,
        strip_top=strip_top,
        strip_bottom=strip_bottom,
        strip=strip[lasting],
        task=task[lasting],
        shade=shade[lasting],
        shades=int(shade.max(initial=0)) + 1,
    )


def _media(timeline: Timeline) -> tuple[Ints, list[str]]:
    """The media with transfers; of many, only one of those that carry transfers at the same times, and how many."""
    media = np.flatnonzero(timeline.moved > 0)
    if len(media) <= _MOST_MEDIA:
        return media, [""] * len(media)
    route = timeline.program.route
    medium, task = route.values, route.row_of_value()
    order = np.lexsort((timeline.end[task], timeline.start[task], medium))
    medium, task = medium[order], task[order]
    times = np.stack([timeline.start[task], timeline.end[task], timeline.program.kind[task]], axis=1)
    found: dict[bytes, list[int]] = {}
    for one in media.tolist():
        here = slice(*np.searchsorted(medium, [one, one + 1]).tolist())
        found.setdefault(times[here].tobytes(), []).append(one)
    first = np.array([group[0] for group in found.values()], np.int64)
    return first, [f" ×{len(group)}" if len(group) > 1 else "" for group in found.values()]


def _computation(timeline: Timeline) -> tuple[Ints, Ints]:
    task = np.flatnonzero(timeline.program.is_compute)
    return timeline.program.lane[task], task


def _bands(timeline: Timeline) -> tuple[Ints, Ints]:
    """All-reduces, each on its sender; those of a rule without links, one per ring, on all devices of their stage."""
    program = timeline.program
    task = np.flatnonzero(np.isin(program.kind, COLLECTIVES))
    if program.sharing_rule.has_links or not len(task):
        return program.source[task], task
    on_lane = program.is_compute
    present = np.unique(np.stack([program.stage[on_lane], program.lane[on_lane]], axis=1), axis=0)
    pairs = [(lane, t) for t in task.tolist() for lane in present[present[:, 0] == program.stage[t], 1].tolist()]
    device, task = np.array(pairs, np.int64).reshape(-1, 2).T
    return device, task


def _transfers(timeline: Timeline, media: Ints) -> tuple[Ints, Ints]:
    """The transfers of each medium, as ((row among media, track) in one number, task)."""
    route = timeline.program.route
    row_of = np.full(len(timeline.program.media), -1, np.int64)
    row_of[media] = np.arange(len(media))
    row, task = row_of[route.values], route.row_of_value()
    row, task = row[row >= 0], task[row >= 0]
    return row + tracks(row, timeline.start[task], timeline.end[task]) * max(1, len(media)), task


def _tracks_of(code: Ints, media: int) -> Ints:
    """The number of tracks of each medium."""
    count = np.ones(media, np.int64)
    np.maximum.at(count, code % max(1, media), code // max(1, media) + 1)
    return count


def _strip_of(code: Ints, tracks_of: Ints, first: int) -> Ints:
    starts = first + np.cumsum(tracks_of) - tracks_of
    return starts[code % max(1, len(tracks_of))] + code // max(1, len(tracks_of)) if len(code) else code


def _strips(row_top: Floats, devices: int, tracks_of: Ints, *, has_bands: bool) -> tuple[Floats, Floats]:
    """Top and bottom of all strips: compute strips, bands, then the tracks of each medium."""
    margin = _MARGIN if len(row_top) <= _CROWD else 0.0
    inner = 1 - 2 * margin
    top = row_top[:devices] + margin
    middle = top + inner * (1 - _BAND if has_bands else 1)
    medium = np.repeat(np.arange(len(tracks_of)), tracks_of)
    track = np.arange(len(medium)) - np.repeat(np.cumsum(tracks_of) - tracks_of, tracks_of)
    each = inner / tracks_of[medium]
    track_top = row_top[devices + medium] + margin + track * each
    return np.concatenate([top, middle, track_top]), np.concatenate([middle, top + inner, track_top + each])


def _shades(timeline: Timeline) -> Ints:
    """For every task on a lane, and every all-reduce, its chunk among those of its device: 0, 1, ...

    A replica without microbatches has an all-reduce but no computation.
    """
    program = timeline.program
    stages = int(program.stage.max(initial=0)) + 1
    code = program.source * stages + program.stage
    shaded = program.is_compute | np.isin(program.kind, COLLECTIVES)
    present = np.unique(code[shaded])
    device = present // stages
    number = np.arange(len(present)) - np.searchsorted(device, device)
    shade = np.zeros(len(program), np.int64)
    shade[shaded] = number[np.searchsorted(present, code[shaded])]
    return shade
