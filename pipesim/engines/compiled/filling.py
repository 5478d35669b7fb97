"""Max-min fair rates of a group of flows that common links join, by progressive filling (`engines.max_min`).

As there, in rounds: the links that offer least, and the flows that want least, settle the rates of their flows. There
is no heap: what a round looks at is what is still open, at the front of its part of `found` and of `media`. Most groups
have few flows, and most flows get their rates in the first rounds.
"""

from typing import NamedTuple

import numpy as np

from pipesim.base.arrays import Floats, Ints
from pipesim.base.kernels import borrowing
from pipesim.engines.compiled.rate_updates import INFINITE
from pipesim.engines.compiled.simulation_state import RouteArrays


class JoinedSearch(NamedTuple):
    """Room for finding which flows are joined to a change through common links, and for their rates."""

    turn: Ints  # one number: which search this is
    seen_medium: Ints  # the search that last found each link
    seen_flow: Ints
    found: Ints
    media: Ints  # the links found, in the order in which they are looked at
    group_flows: Ints  # of each group of flows that common links join: where it ends in `found`
    group_media: Ints  # ... and its links in `media`
    rates: Floats  # of each flow found
    left: Floats  # of each link: its capacity, less the rates of the flows that have one
    sharing: Ints  # how many flows on it have no rate yet, as weighted
    taken: Ints  # how many get theirs in this round; 0 between rounds


def initial_search(tasks: int, media: int) -> JoinedSearch:
    """Nothing has been looked for."""
    return JoinedSearch(
        np.zeros(1, np.int64),
        np.full(media, -1, np.int64),
        np.full(tasks, -1, np.int64),
        np.empty(tasks, np.int64),
        np.empty(media, np.int64),
        np.empty(media, np.int64),
        np.empty(media, np.int64),
        np.empty(tasks),
        np.empty(media),
        np.empty(media, np.int64),
        np.zeros(media, np.int64),
    )


@borrowing
def fair_rates(  # noqa: PLR0917 - a kernel has no keywords
    routes: RouteArrays, capacity: Floats, search: JoinedSearch, level: Floats, begin: int, group: int
) -> None:
    """The rates of a group of flows, which are found from `begin` on, and the levels of their links."""
    first = search.group_media[group - 1] if group > 0 else 0
    open_flows, open_media = search.group_flows[group], search.group_media[group]
    offer_all(routes, capacity, search, level, begin, group)
    while open_flows > begin:
        open_media = without_settled(search, first, open_media)
        share = least(routes, search, level, begin, open_flows, first, open_media)
        until = open_flows
        open_flows = settle(routes, search, level, share, begin, open_flows)
        take(routes, search, level, share, open_flows, until)


@borrowing
def offer_all(  # noqa: PLR0917 - a kernel has no keywords
    routes: RouteArrays, capacity: Floats, search: JoinedSearch, level: Floats, begin: int, group: int
) -> None:
    """Every link offers its capacity to all of its flows."""
    first = search.group_media[group - 1] if group > 0 else 0
    for k in range(first, search.group_media[group]):
        m = search.media[k]
        search.left[m], search.sharing[m] = capacity[m], 0
    for at in range(begin, search.group_flows[group]):
        t = search.found[at]
        for j in range(routes.first[t], routes.first[t + 1]):
            search.sharing[routes.medium[j]] += routes.weight[j] if len(routes.weight) > 0 else 1
    for k in range(first, search.group_media[group]):
        m = search.media[k]
        level[m] = search.left[m] / search.sharing[m] if search.sharing[m] > 0 else INFINITE


@borrowing
def without_settled(search: JoinedSearch, first: int, until: int) -> int:
    """Put the links whose flows all have rates behind the others; where those end."""
    at = first
    while at < until:
        m = search.media[at]
        if search.sharing[m] > 0:
            at += 1
        else:
            until -= 1
            search.media[at], search.media[until] = search.media[until], m
    return until


@borrowing
def least(  # noqa: PLR0917 - a kernel has no keywords
    routes: RouteArrays, search: JoinedSearch, level: Floats, begin: int, open_flows: int, first: int, open_media: int
) -> float:
    """What the open links offer least, or an open flow wants, if that is less."""
    share = INFINITE
    for at in range(first, open_media):
        share = min(share, level[search.media[at]])
    for at in range(begin, open_flows):
        share = min(share, routes.limit[search.found[at]])
    return share


@borrowing
def settle(  # noqa: PLR0917 - a kernel has no keywords
    routes: RouteArrays, search: JoinedSearch, level: Floats, share: float, begin: int, until: int
) -> int:
    """Give this rate to the flows that want or are offered no more, and put them behind the others; where those end."""
    at = begin
    while at < until:
        t = search.found[at]
        tightest = routes.limit[t] == share
        for j in range(routes.first[t], routes.first[t + 1]):
            tightest |= level[routes.medium[j]] == share
        if tightest:
            search.rates[t] = share
            for j in range(routes.first[t], routes.first[t + 1]):
                search.taken[routes.medium[j]] += routes.weight[j] if len(routes.weight) > 0 else 1
            until -= 1
            search.found[at], search.found[until] = search.found[until], t
        else:
            at += 1
    return until


@borrowing
def take(  # noqa: PLR0917 - a kernel has no keywords
    routes: RouteArrays, search: JoinedSearch, level: Floats, share: float, begin: int, until: int
) -> None:
    """Reduce the links of the flows that have got this rate, each once, and what they offer to the others."""
    for at in range(begin, until):
        t = search.found[at]
        for j in range(routes.first[t], routes.first[t + 1]):
            m = routes.medium[j]
            if search.taken[m] > 0:
                search.left[m] = max(0.0, search.left[m] - share * search.taken[m])
                search.sharing[m] -= search.taken[m]
                search.taken[m] = 0
                if search.sharing[m] > 0:
                    level[m] = max(level[m], search.left[m] / search.sharing[m])
                elif level[m] > share:
                    level[m] = INFINITE
