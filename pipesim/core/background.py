"""Load of other jobs on the links, read from a CSV as a scenario.

    link,time,share
    node0.nic0->core,0,0.1          from 0 s on, others use 10 % of the bandwidth from node0.nic0 to core,
    node0.nic0->core,20ms,0.6       from 20 ms on 60 %, until the end
    node0<->node1,5ms,0.25          both directions; before its first row, a link has no load

link     a->b is one direction, a<->b both, and a shared medium has its own name (`Cluster.media`). Where both
         directions share a medium, either direction means that medium. Each medium must have only one name in the file.
time     since the start of the iteration: seconds, or with a unit. The rows of a link are sorted by time; rows of
         other links may be between them.
share    of the bandwidth that others use from that time until the next row of the link, 0 to less than 1.

The load has priority: simulated transfers share the remaining bandwidth, as with `Degraded`.
"""

import csv
import io
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Self

from pipesim.base import files, units
from pipesim.base.errors import FormatError, InputError, shown, within
from pipesim.base.lookup import suggest
from pipesim.core.cluster import Cluster
from pipesim.core.scenario import Degraded, Scenario

COLUMNS = ("link", "time", "share")


class _Ends(NamedTuple):
    source: str
    target: str
    one_way: bool
    media: tuple[str, ...]


class _Load(NamedTuple):
    """The load from a time on, with its line in the file."""

    line: int
    time: float
    share: float


@dataclass(frozen=True, slots=True)
class Background:
    """The text of such a file, and its name for messages."""

    name: str
    text: str

    @classmethod
    def load(cls, path: Path | str) -> Self:
        """The text of a file; its rows are checked against a cluster by `on`."""
        return cls(str(path), files.read_text(Path(path)))

    def on(self, cluster: Cluster) -> Scenario:
        """The links of a cluster degraded by what others use of them."""
        with within(self.name):
            known = _known(cluster)
            loads = _loads(self.text, known)
            _check_distinct(loads, known)
            return Scenario(
                degraded=tuple(window for link, rows in loads.items() for window in _windows(known[link], rows))
            )


def read(path: Path | str, cluster: Cluster) -> Scenario:
    """The scenario of a cluster with the load in a CSV."""
    return Background.load(path).on(cluster)


def _known(cluster: Cluster) -> dict[str, _Ends]:
    """The links and media by all their names."""
    medium = {(u, v): str(data["medium"]) for u, v, data in cluster.graph.edges(data=True)}
    found: dict[str, _Ends] = {}
    for (u, v), there in medium.items():
        found[f"{u}->{v}"] = _Ends(u, v, True, (there,))
        if (v, u) in medium:
            found[f"{u}<->{v}"] = _Ends(u, v, False, tuple(sorted({there, medium[v, u]})))
        found.setdefault(there, _Ends(u, v, True, (there,)))
    return found


def _loads(text: str, known: dict[str, _Ends]) -> dict[str, list[_Load]]:
    """The rows of each link."""
    reader = csv.reader(io.StringIO(text), strict=True)
    found: dict[str, list[_Load]] = {}
    try:
        header = [name.strip() for name in next(reader, [])]
        if sorted(header) != sorted(COLUMNS):
            raise FormatError(
                f"line 1: {shown(','.join(header))} found; the headings {','.join(COLUMNS)} were expected"
            )
        for record in reader:
            if not record:
                continue
            with within(f"line {reader.line_num}"):
                link, load = _row(dict(zip(header, record, strict=False)), len(record), reader.line_num)
                if link not in known:
                    raise InputError(f"link: unknown link {shown(link)}; {_suggest(link, known)}")
                rows = found.setdefault(link, [])
                if rows and load.time <= rows[-1].time:
                    before = f"{rows[-1].time} s in line {rows[-1].line}"
                    raise InputError(f"time: {load.time} s found; a time after {before} was expected")
                rows.append(load)
    except csv.Error as error:
        raise FormatError(f"line {reader.line_num}: is not CSV: {error}") from None
    return found


def _row(cells: dict[str, str], width: int, line: int) -> tuple[str, _Load]:
    """The link of a row, and its load."""
    if width != len(COLUMNS):
        raise InputError(f"{width} cells found; {len(COLUMNS)} were expected, as in the header")
    with within("time"):
        time = units.duration(cells["time"].strip())
    try:
        share = units.number(cells["share"])
    except ValueError:
        share = -1.0
    if not 0 <= share < 1:
        raise InputError(
            f"share: {shown(cells['share'])} found; a number from 0 to less than 1 was expected (0.3: others use 30 %)"
        )
    return cells["link"].strip(), _Load(line, time, share)


def _suggest(link: str, known: dict[str, _Ends]) -> str:
    """The name that was probably meant; without all known names if the cluster is large."""
    text = suggest(link, known)
    return text if len(known) <= 24 else f"{text.partition('known are')[0]}'pipesim show CLUSTER --json' has all links"


def _check_distinct(loads: dict[str, list[_Load]], known: dict[str, _Ends]) -> None:
    """Refuse two names of one medium: whether their shares add up is ambiguous."""
    owner: dict[str, str] = {}
    for link, rows in loads.items():
        for medium in known[link].media:
            if medium in owner:
                raise InputError(
                    f"line {rows[0].line}: link: {link!r} is {medium!r}, as {owner[medium]!r} above is; use "
                    "one name for each medium"
                )
            owner[medium] = link


def _windows(ends: _Ends, rows: list[_Load]) -> list[Degraded]:
    """A window from each row to the next with another share; the last has no end."""
    steps = [row for at, row in enumerate(rows) if at == 0 or row.share != rows[at - 1].share]
    stops: list[float | None] = [*(row.time for row in steps[1:]), None]
    found = []
    for row, stop in zip(steps, stops, strict=True):
        if row.share:
            with within(f"line {row.line}"):
                window = Degraded(ends.source, ends.target, 1 - row.share, row.time, stop, ends.one_way)
            found.append(window)
    return found
