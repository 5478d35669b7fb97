"""From recorded transfers to a cluster: for each class of links a table of (bytes, seconds), and links that have it.

    intra    between devices of one node           inter    between nodes

    node0.cpu0 ══ node0.switch ══ node0.cpu1       every route within a node, and every one between nodes, takes as long
                       ║                           as its table states: delays are divided over the links of the
                     core ═══ node1.switch ══ ...  route, and each link has the bandwidth of the whole

A table has the times of single transfers; concurrent ones share the capacity, from the large end of the table. Whether
both directions share it follows from messages that are sent both ways at once. A straight line (latency + bytes /
bandwidth) is fitted too, only to report its error.
"""

from dataclasses import dataclass

import numpy as np

from pipesim.base.arrays import Floats
from pipesim.base.errors import InputError, RefusedError
from pipesim.core.cluster import Cluster, Device, Link, Points
from pipesim.recorders.capacity import Duplex, capacity, duplex
from pipesim.recorders.link_files import BOTH_WAYS, P2P, RecordedLinks
from pipesim.recorders.message_times import LeftOut, MessageTime, points, reliable, rising

INTRA, INTER = "intra", "inter"
SWITCH, CORE = "switch", "core"


@dataclass(frozen=True, slots=True)
class Fit:
    """A class of links: its points, its table, and the mean relative errors of table and straight line."""

    name: str
    points: tuple[MessageTime, ...]
    left_out: tuple[LeftOut, ...]
    table: Points
    bandwidth: float
    duplex: Duplex
    table_error: float
    line_error: float

    @property
    def delay(self) -> float:
        """Seconds before the first byte arrives."""
        return self.link("a", "b").delay

    def link(self, source: str, target: str, delay: float | None = None) -> Link:
        """A link with this table, moved to another delay if one is given."""
        own = Link("a", "b", self.bandwidth, table=self.table).delay
        delay = own if delay is None else delay
        table = tuple((size, seconds - own + delay) for size, seconds in self.table)
        return Link(source, target, self.bandwidth, delay, self.duplex.kind, table=table)

    def seconds(self, size: float) -> float:
        """The time of a message, by the table."""
        link = self.link("a", "b")
        return link.delay + link.transmission(size)

    def ring(self, participants: int, size: float) -> float:
        """The time of an all-reduce as a ring over such links, as it is simulated.

        Every process sends and receives at once; on half-duplex links these two share the capacity.
        """
        link, part = self.link("a", "b"), size / participants
        alone = link.transmission(part)
        used = min(part / self.bandwidth, alone)  # seconds of the whole capacity
        each = max(alone, 2 * used) if link.duplex == "half" else alone
        return 2 * (participants - 1) * (link.delay + each)


def fits(links: RecordedLinks) -> dict[str, Fit]:
    """A fit for each class of links that was timed; refused if a size could not be measured."""
    node = {device.name: device.node for device in links.about.devices}
    table = links.transfers
    ends = zip(table["source"].tolist(), table["target"].tolist(), strict=True)
    within = np.array([node[source] == node[target] for source, target in ends], np.bool_)
    p2p, both_ways = table["kind"] == P2P, table["kind"] == BOTH_WAYS
    missing = [what for what in links.about.not_measured if what.startswith(P2P)]
    if missing or not p2p.any():
        raise RefusedError(
            f"the machine was too noisy to measure all that a cluster needs: {'; '.join(missing) or 'nothing'}. Stop "
            "other processes, or wait longer for a quiet machine with --patience"
        )
    return {
        name: fit(name, points(table, p2p & chosen), points(table, both_ways & chosen))
        for name, chosen in ((INTRA, within), (INTER, ~within))
        if (p2p & chosen).any()
    }


def fit(name: str, recorded: list[MessageTime], both_ways: list[MessageTime]) -> Fit:
    """The table of a class of links, its capacity, and whether its directions share that."""
    if len(recorded) < 2:
        raise InputError(f"{name} links: {len(recorded)} sizes of messages found; at least two were expected")
    kept, left_out = reliable(name, recorded)
    bandwidth = capacity(name, kept)
    sizes = np.array([point.bytes for point in kept], np.float64)
    seconds = np.array([point.seconds for point in kept])
    table = tuple(zip(sizes.tolist(), rising(seconds).tolist(), strict=True))
    link = Link("a", "b", bandwidth, table=table)
    modelled = np.array([link.delay + link.transmission(size) for size in sizes.tolist()])
    errors = [float(np.mean(np.abs(values / seconds - 1))) for values in (modelled, _line(sizes, seconds))]
    return Fit(name, tuple(recorded), left_out, table, bandwidth, duplex(kept, both_ways), *errors)


def _line(sizes: Floats, seconds: Floats) -> Floats:
    """The straight line with the least relative errors (squared), at each size."""
    both = np.stack([np.ones_like(sizes), sizes], axis=1) / seconds[:, None]
    weights = np.linalg.lstsq(both, np.ones_like(sizes), rcond=None)[0]
    line: Floats = weights[0] + weights[1] * sizes
    return line


def cluster_of(links: RecordedLinks, name: str = "recorded") -> Cluster:
    """The cluster that was recorded."""
    found = fits(links)
    nodes: dict[str, list[Device]] = {}
    for device in links.about.devices:
        nodes.setdefault(device.node, []).append(device)
    several = any(len(devices) > 1 for devices in nodes.values())
    for needed, expected in ((INTRA, several), (INTER, len(nodes) > 1)):
        if expected and needed not in found:
            raise InputError(f"no transfers of class {needed} were recorded; the cluster needs them")
    made: list[Link] = []
    for node, devices in nodes.items():
        hub = f"{node}.{SWITCH}" if several else devices[0].name
        half = found[INTRA].delay / 2 if several else 0.0
        made += [found[INTRA].link(device.name, hub, half) for device in devices if several]
        if len(nodes) > 1:
            made.append(found[INTER].link(hub, CORE, max(found[INTER].delay / 2 - half, 0.0)))
    return Cluster(name, links.about.devices, tuple(made))
