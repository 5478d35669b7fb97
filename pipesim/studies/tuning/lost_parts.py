"""A cluster without what is gone: nodes, devices, links."""

from dataclasses import replace
from fnmatch import fnmatchcase

from pipesim.base.errors import InputError
from pipesim.base.lookup import suggest
from pipesim.core.cluster import Cluster, Link


def without(cluster: Cluster, names: str) -> Cluster:
    """A cluster without these nodes or devices and their links, or without these links (a--b): routes avoid them."""
    patterns = [name.strip() for name in names.split(";") if name.strip()]
    gone, cut = set(), set()
    for pattern in patterns:
        if "--" in pattern:
            cut |= _links_named(cluster, pattern)
            continue
        found = {
            one.name for one in cluster.devices if fnmatchcase(one.name, pattern) or fnmatchcase(one.node, pattern)
        }
        if not found:
            known = suggest(pattern, dict.fromkeys(one.node for one in cluster.devices))
            raise InputError(f"lost: cluster {cluster.name!r} has no node or device {pattern!r}; {known}")
        gone |= found
    devices = tuple(one for one in cluster.devices if one.name not in gone)
    if not devices:
        raise InputError(f"lost: {names!r} is all of cluster {cluster.name!r}; some of it was expected to be left")
    links = tuple(one for one in cluster.links if not {one.source, one.target} & gone and one not in cut)
    return replace(cluster, name=f"{cluster.name} without {names}", devices=devices, links=links)


def _links_named(cluster: Cluster, pattern: str) -> set[Link]:
    """The links between two names, in either direction."""
    ends = tuple(end.strip() for end in pattern.split("--", 1))
    found = {
        link for link in cluster.links
        for a, b in ((link.source, link.target), (link.target, link.source))
        if fnmatchcase(a, ends[0]) and fnmatchcase(b, ends[1])
    }  # fmt: skip
    if not found:
        known = suggest(pattern, [f"{link.source}--{link.target}" for link in cluster.links])
        raise InputError(f"lost: cluster {cluster.name!r} has no link {pattern!r}; {known}")
    return found
