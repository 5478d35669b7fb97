"""Teams: the GPUs that hold one replica of a stage together and work in lock-step.

    stage 0, two replicas of tensor width 4       node0.gpu0-3  |  node0.gpu4-7        a team each
    stage 1                                       node1.gpu0-3  |  node1.gpu4-7

A team is tensor x context wide. Its first member gives it its name: where one device per replica is named (in stages,
as a rank of a schedule), that is the first member of the replica's team.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from pipesim.base.errors import InputError
from pipesim.core.cluster import Cluster, Device, Link

Team = tuple[str, ...]

_LAST_NUMBER = re.compile(r"(.*?)([0-9]+)")


@dataclass(frozen=True, slots=True)
class Widths:
    """Over how many GPUs tensors, sequences and experts of a layer are divided."""

    tensor: int = 1
    context: int = 1
    expert: int = 1

    @property
    def gpus(self) -> int:
        """The GPUs of a team; experts are divided over the replicas."""
        return self.tensor * self.context

    @property
    def by_name(self) -> dict[str, int]:
        """The widths as columns of a trace name them."""
        return {"tensor": self.tensor, "context": self.context, "expert": self.expert}

    def __str__(self) -> str:
        named = self.by_name.items()
        return ", ".join(f"{name} width {width}" for name, width in named if width > 1) or "one GPU each"


SINGLE = Widths()


def teams_of(cluster: Cluster, gpus: int) -> tuple[Team, ...]:
    """The teams of so many GPUs that a cluster has room for: neighbours of one kind, inside a node where they fit.

    Devices are taken node by node. GPUs of a node that are too few for a team stay unused; a team that is wider than
    a node takes whole nodes one after the other.

    >>> teams_of(ps.load_cluster("servers(2, 4, intra='300GB/s', inter='25GB/s')"), 2)[1]
    ('node0.gpu2', 'node0.gpu3')
    """
    if gpus < 1:
        raise InputError(f"a team of {gpus} GPUs found; 1 or more was expected")
    groups: dict[tuple[str, str], list[str]] = {}
    for device in cluster.devices:
        groups.setdefault((device.node, device.kind), []).append(device.name)
    found: list[Team] = []
    started: dict[str, list[str]] = {}  # by kind, the members so far of a team wider than a node
    for (_, kind), names in groups.items():
        if gpus <= len(names):
            found += [tuple(names[i : i + gpus]) for i in range(0, len(names) - gpus + 1, gpus)]
            continue
        members = started.setdefault(kind, [])
        members += names[: gpus - len(members)]
        if len(members) == gpus:
            found.append(tuple(members))
            started[kind] = []
    if not found:
        raise InputError(
            f"cluster {cluster.name!r} has {len(cluster.devices)} GPUs; a team of {gpus} of one kind does not fit"
        )
    place = cluster.index
    return tuple(sorted(found, key=lambda team: place[team[0]]))


def has_team(cluster: Cluster, gpus: int) -> bool:
    """Whether a cluster has room for a team of so many GPUs."""
    try:
        return bool(teams_of(cluster, gpus))
    except InputError:
        return False


def teams_of_ranks(
    cluster: Cluster, widths: Sequence[int], data: int, kinds: Sequence[str] = ()
) -> tuple[tuple[Team, ...], ...]:
    """For each rank of a pipeline, `data` teams of its width, one beside the other.

    GPUs are taken node by node, those of the first kinds first; what a rank leaves of a node is there for later ones.
    A team has GPUs of one kind; it is in one node, or where it is wider has whole nodes.

    >>> cluster = ps.load_cluster("servers(2, 4, intra='300GB/s', inter='25GB/s')")
    >>> [[len(team) for team in teams] for teams in teams_of_ranks(cluster, (2, 1, 4), 1)]
    [[2], [1], [4]]
    """
    place = {kind: n for n, kind in enumerate(kinds)}
    groups: dict[tuple[str, str], list[str]] = {}
    for device in cluster.devices:
        groups.setdefault((device.node, device.kind), []).append(device.name)
    order = sorted(groups, key=lambda group: place.get(group[1], len(place)))
    sizes, found = {group: len(names) for group, names in groups.items()}, list[tuple[Team, ...]]()
    for n, width in enumerate(widths):
        teams = list[Team]()
        started: dict[str, list[tuple[str, str]]] = {}  # by kind, the nodes so far of a team that is wider than one
        for group in order:
            names = groups[group]
            while len(teams) < data and width <= len(names):
                teams.append(tuple(names[:width]))
                del names[:width]
            if len(teams) == data or width <= sizes[group] or len(names) < sizes[group]:
                continue
            nodes = started.setdefault(group[1], [])
            nodes.append(group)
            if sum(sizes[one] for one in nodes) >= width:
                teams.append(tuple(name for one in nodes for name in groups[one])[:width])
                for one in nodes:
                    groups[one] = []
                started[group[1]] = []
        if len(teams) < data:
            raise InputError(
                f"cluster {cluster.name!r} has {len(cluster.devices)} GPUs; {data} x teams of "
                f"{', '.join(map(str, widths))} GPUs found, for which there is no room from rank {n} on"
            )
        found.append(tuple(teams))
    return tuple(found)


def label(team: Sequence[str]) -> str:
    """A team as people write it: node0.gpu0-3, or node0.gpu0-7+node1.gpu0-7.

    >>> label(("node0.gpu0", "node0.gpu1", "node0.gpu2"))
    'node0.gpu0-2'
    """
    if len(team) == 1:
        return team[0]
    runs: list[tuple[str, str, int, int]] = []  # name of the first, what is before its number, first and last number
    for name in team:
        match = _LAST_NUMBER.fullmatch(name)
        stem, number = (match[1], int(match[2])) if match else (name, -1)
        if runs and match and runs[-1][1] == stem and runs[-1][3] == number - 1:
            runs[-1] = (*runs[-1][:3], number)
        else:
            runs.append((name, stem, number, number))
    return "+".join(first if low == high else f"{first}-{high}" for first, _, low, high in runs)


def as_devices(cluster: Cluster, teams: Iterable[Team]) -> Cluster:
    """The cluster as planners see it: each team is one device, at the place of its first member.

    Members send at the same time. So a link carries for one of them the part of its bandwidth that is left when all
    members of a team use it; the parts are found between neighbouring teams, for each sort of link (bandwidth and
    latency) the least. A team's peak is that of all its GPUs; its memory that of one, as costs are those of one.
    """
    chosen = list(teams)
    if all(len(team) == 1 for team in chosen) and len(chosen) == len(cluster.devices):
        return cluster
    devices = tuple(_as_device(cluster, team) for team in chosen)
    sharing = _most_on_links(cluster, chosen)
    links = tuple(_shared(link, sharing.get(_sort(link), 1)) for link in cluster.links)
    return replace(cluster, devices=devices, links=links)


def _as_device(cluster: Cluster, team: Team) -> Device:
    first = cluster.device(team[0])
    return first if first.flops is None else replace(first, flops=first.flops * len(team))


def _sort(link: Link) -> tuple[float, float]:
    return link.bandwidth, link.latency


def _shared(link: Link, users: int) -> Link:
    if users == 1:
        return link
    table = tuple((size / users, seconds) for size, seconds in link.table)
    bandwidth, burst, peak = (value / users for value in (link.bandwidth, link.burst, link.peak))
    return replace(link, bandwidth=bandwidth, burst=burst, peak=peak, table=table)


_SAMPLED = 16  # neighbouring teams that are looked at, at both ends of the list


def _most_on_links(cluster: Cluster, teams: Sequence[Team]) -> dict[tuple[float, float], int]:
    """For each sort of link, the most members of one team whose messages to the next team cross the same link."""
    most: dict[tuple[float, float], int] = {}
    neighbours = list(pairwise(teams))
    for one, other in dict.fromkeys([*neighbours[:_SAMPLED], *neighbours[-_SAMPLED:]]):
        routes = (cluster.route(a, b) for a, b in zip(one, other, strict=False))
        for number, users in Counter(link for route in routes for link in route.links).items():
            key = _sort(cluster.links[number])
            most[key] = max(most.get(key, 1), users)
    return most
