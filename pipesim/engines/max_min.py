"""How flows share links: max-min fair rates, by progressive filling.

    link 0   capacity 3   a b c      1. every link offers capacity / flows: 1 and 4; the least is link 0's
    link 1   capacity 5   c          2. its flows get that rate and are fixed; the others share what is left
                                     3. again, until every flow is fixed

On flat sequences of numbers, for the SimPy engine. All links that offer least, to the last bit, are fixed in one round,
and a link's capacity is reduced once a round, by rate x flows: so flows that are alike get rates of the same bits, and
one flow with a weight of n gets those of n flows that are alike.
What a link offers only rises as flows are fixed, to the last bit too: it is never less than before the round. So each
round has a higher rate than the one before, and what a link offers at last, its level, depends on nothing but the
rates below it of the flows that cross it:

    a flow's rate      the least of its limit and the levels of its links
    a link's level     what it offers when the flows that have a lower rate are fixed, the lowest first; infinite if
                       no flow is left then

There is one solution of these equations, whatever way it is found (by induction over rates, from the lowest):
`engines.compiled.filling` finds it without heaps, `engines.compiled.rate_updates` from the solution before a change.
"""

import heapq
from collections.abc import Sequence

from pipesim.base.arrays import Floats, Ints

INFINITE = float("inf")


def max_min(  # noqa: C901, PLR0912 - both heaps and the flows change in every turn
    first: Sequence[int] | Ints,
    media: Sequence[int] | Ints,
    weight: Sequence[int] | Ints,
    capacity: Sequence[float] | Floats,
    limit: Sequence[float] | Floats,
) -> list[float]:
    """The rate of each flow. Flow i crosses media[first[i] : first[i + 1]] and never exceeds limit[i].

    Media are numbered 0 to len(capacity) - 1 and cross each flow at most once. At position j of `media`, weight[j]
    flows that are alike cross the link; without weights it is one.
    """
    flows, links, weighted = len(first) - 1, len(capacity), len(weight) > 0
    rate = [0.0] * flows
    sharing = flows_on_links(first, media, weight, links)  # those without a rate, as weighted
    level = [INFINITE] * links  # at first what each link offers
    if all_held_back_at_once(first, media, capacity, limit, sharing, rate, level):
        return rate
    has_rate = [False] * flows
    left = [0.0] * links
    taken = [0] * links  # flows of a link that are fixed in this round, as weighted
    begin, member = flows_by_link(first, media, links)
    offers, limits_left = finite(level), finite(limit)
    for m in range(links):
        left[m] = capacity[m]
    fixed, open_flows = [0] * flows, flows
    while open_flows:
        # The flows that want least and the links that offer least: all that are the tightest are fixed in this round.
        share, count = least_limit(limits_left, has_rate), 0
        while len(offers) > 0:
            offer, m = offers[0]
            if sharing[m] == 0:
                heapq.heappop(offers)
            elif level[m] != offer:
                heapq.heapreplace(offers, (level[m], m))
            elif offer > share:
                break
            else:
                share = min(share, offer)
                heapq.heappop(offers)
                for at in range(begin[m], begin[m + 1]):
                    i = member[at]
                    if not has_rate[i]:
                        has_rate[i] = True
                        fixed[count] = i
                        count += 1
        while least_limit(limits_left, has_rate) == share:
            fixed[count] = heapq.heappop(limits_left)[1]
            has_rate[fixed[count]] = True
            count += 1
        open_flows -= count
        for n in range(count):
            rate[fixed[n]] = share
            for j in range(first[fixed[n]], first[fixed[n] + 1]):
                taken[media[j]] += weight[j] if weighted else 1
        for n in range(count):
            for j in range(first[fixed[n]], first[fixed[n] + 1]):
                m = media[j]
                if taken[m]:
                    left[m] = max(0.0, left[m] - share * taken[m])
                    sharing[m] -= taken[m]
                    taken[m] = 0
                    if sharing[m]:
                        level[m] = max(level[m], left[m] / sharing[m])
    return rate


def all_held_back_at_once(  # noqa: PLR0917 - called once in each computation
    first: Sequence[int] | Ints,
    media: Sequence[int] | Ints,
    capacity: Sequence[float] | Floats,
    limit: Sequence[float] | Floats,
    sharing: list[int],
    rate: list[float],
    level: list[float],
) -> bool:
    """Whether the first round settles all flows, as where they share one link: `rate` is then right.

    `level` is what each link offers before the first round.
    """
    share = INFINITE
    for m in range(len(sharing)):
        if sharing[m]:
            level[m] = capacity[m] / sharing[m]
            share = min(share, level[m])
    for i in range(len(rate)):
        share = min(share, limit[i])
    held_back = 0
    for i in range(len(rate)):
        rate[i], tightest = share, limit[i] == share
        for j in range(first[i], first[i + 1]):
            tightest = tightest or level[media[j]] == share
        held_back += 1 if tightest else 0
    return held_back == len(rate)


def flows_on_links(
    first: Sequence[int] | Ints, media: Sequence[int] | Ints, weight: Sequence[int] | Ints, links: int
) -> list[int]:
    """How many flows cross each link, as weighted."""
    number, weighted = [0] * links, len(weight) > 0
    for j in range(first[len(first) - 1]):
        number[media[j]] += weight[j] if weighted else 1
    return number


def flows_by_link(first: Sequence[int] | Ints, media: Sequence[int] | Ints, links: int) -> tuple[list[int], list[int]]:
    """The flows of link m are member[begin[m] : begin[m + 1]]."""
    begin, place, member = [0] * (links + 1), [0] * links, [0] * first[len(first) - 1]
    for j in range(len(member)):
        begin[media[j] + 1] += 1
    for m in range(links):
        begin[m + 1] += begin[m]
    for i in range(len(first) - 1):
        for j in range(first[i], first[i + 1]):
            m = media[j]
            member[begin[m] + place[m]] = i
            place[m] += 1
    return begin, member


def finite(values: Sequence[float] | Floats) -> list[tuple[float, int]]:
    """A heap of the values that are finite, each with its number."""
    heap = [(value, n) for n, value in enumerate(values) if value < INFINITE]
    heapq.heapify(heap)
    return heap


def least_limit(limits_left: list[tuple[float, int]], has_rate: list[bool]) -> float:
    """The least limit of a flow without a rate, which is then the first of the heap; infinite if none has one."""
    while len(limits_left) > 0 and has_rate[limits_left[0][1]]:
        heapq.heappop(limits_left)
    return limits_left[0][0] if len(limits_left) > 0 else INFINITE
