"""Clusters as text."""

from pipesim.core import widths
from pipesim.core.cluster import Cluster
from pipesim.display.text.formatting import facts, rate, size, table
from pipesim.display.text.terminal import PLAIN, Terminal


def cluster(cluster: Cluster, most: int = 16, on: Terminal = PLAIN) -> str:
    """What a cluster has, and the bandwidth between its devices."""
    kinds = {
        kind: sum(d.kind == kind for d in cluster.devices) for kind in dict.fromkeys(d.kind for d in cluster.devices)
    }
    nodes = len({device.node for device in cluster.devices})
    matrix, between = widths.among_first(cluster, most), widths.least_and_most(cluster)
    head = [
        ("cluster", cluster.name),
        ("devices", ", ".join(f"{count} x {kind}" for kind, count in kinds.items())),
        (
            "memory",
            " or ".join(size(m) if m else "unknown" for m in dict.fromkeys(d.memory for d in cluster.devices))
            + " each",
        ),
        ("nodes", str(nodes)),
        ("other vertices", str(len(cluster.vertices) - len(cluster.devices))),
        ("links", f"{len(cluster.links)} ({len(cluster.media)} directions or media)"),
    ]
    if between is not None:
        head.append(("bandwidth", f"{_least(between[0])} to {rate(between[1])} between two devices"))
    if cluster.buckets:
        sorts = dict.fromkeys(cluster.buckets.values())
        words = " or ".join(f"{size(int(burst))} at {rate(peak)}" for burst, peak in sorts)
        head.append(("bursts", f"{words}, on {len(cluster.buckets)} of {len(cluster.media)} directions or media"))
    names = [device.name for device in cluster.devices[:most]]
    rows = [
        [name, *("·" if i == j else f"{matrix[i, j] / 1e9:.4g}" for j in range(len(names)))]
        for i, name in enumerate(names)
    ]
    left = len(cluster.devices) - len(names)
    more = f"\n... {left} more devices; draw all of them with --plot FILE" if left else ""
    return f"{facts(head, on)}\n\n{table(['GB/s', *map(_short, names)], rows, on=on)}{more}"


def _least(bandwidth: float) -> str:
    return rate(bandwidth) if bandwidth else "no route"


def _short(name: str) -> str:
    """A name that fits above a column: node1.gpu3 -> 1.3."""
    digits = [part.lstrip("abcdefghijklmnopqrstuvwxyz_-") or part for part in name.split(".")]
    return ".".join(digits)
