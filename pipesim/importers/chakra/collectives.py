"""The transfers of a collective among k ranks, for n bytes as each rank states them.

all_reduce                     each edge of a ring: 2(k-1) messages of n/k
reduce_scatter (_block)        each edge of a ring: k-1 messages of n/k      n: what each rank puts in
all_gather                     each edge of a ring: k-1 messages of n        n: what each rank puts in
barrier                        each edge of a ring: 2(k-1) messages of no bytes
broadcast, reduce              each edge of a chain: n, in k-1 parts, one after the other
all_to_all                     from each rank to each other: n/k
scatter, gather                from the first rank to each other, or back: n/k and n
"""

from collections.abc import Iterator
from typing import NamedTuple


class Edge(NamedTuple):
    """One of the transfers: from which member to which, messages of how many bytes, how many in a row."""

    source: int
    target: int
    size: float
    times: int


def edges(type_: str, ranks: int, size: int) -> Iterator[Edge]:
    """The transfers of a collective; none where one rank is alone."""
    if ranks < 2:
        return
    parts = {
        "all_reduce": (size / ranks, 2 * (ranks - 1)),
        "reduce_scatter": (size / ranks, ranks - 1),
        "reduce_scatter_block": (size / ranks, ranks - 1),
        "all_gather": (float(size), ranks - 1),
        "barrier": (0.0, 2 * (ranks - 1)),
    }
    if type_ in parts:
        yield from (Edge(rank, (rank + 1) % ranks, *parts[type_]) for rank in range(ranks))
    elif type_ == "all_to_all":
        yield from (Edge(a, b, size / ranks, 1) for a in range(ranks) for b in range(ranks) if a != b)
    elif type_ in {"broadcast", "reduce"}:
        chain = range(ranks - 1) if type_ == "broadcast" else range(ranks - 1, 0, -1)
        step = 1 if type_ == "broadcast" else -1
        yield from (Edge(rank, rank + step, size / (ranks - 1), ranks - 1) for rank in chain)
    else:
        yield from (
            Edge(0, other, size / ranks, 1) if type_ == "scatter" else Edge(other, 0, float(size), 1)
            for other in range(1, ranks)
        )
