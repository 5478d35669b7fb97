"""How flows share links: max-min fair rates, by progressive filling.

    link 0   capacity 3   a b c      1. every link offers capacity / flows: 1 and 4; the least is link 0's
    link 1   capacity 5   c          2. its flows get that rate and are fixed; the others share what is left
                                     3. again, until every flow is fixed

One function, used by every engine, on flat sequences of numbers. All links that offer least, to the last bit, are
fixed in one round, and a link's capacity is reduced once a round, by rate x flows: so flows that are alike get rates
of the same bits, and one flow with a weight of n gets those of n flows that are alike.
What links offer only rises as flows are fixed, so a heap of offers is looked over again only at its top.
"""

import heapq
from collections.abc import Sequence

from pipesim.base.arrays import Floats, Ints

INFINITE = float("inf")


def max_min(  # noqa: C901, PLR0912, PLR0915 - both heaps and the flows change in every turn
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
    sharing = [0] * links  # flows without a rate, as weighted
    for j in range(first[flows]):
        sharing[media[j]] += weight[j] if weighted else 1
    if all_held_back_at_once(first, media, capacity, limit, sharing, rate):
        return rate
    has_rate = [False] * flows
    left = [0.0] * links
    taken = [0] * links  # flows of a link that are fixed in this round, as weighted
    begin, member = flows_by_link(first, media, links)
    offers = [(0.0, 0)]
    limits_left = [(0.0, 0)]
    offers.clear()
    limits_left.clear()
    for m in range(links):
        left[m] = capacity[m]
        if sharing[m]:
            offers.append((left[m] / sharing[m], m))
    for i in range(flows):
        if limit[i] < INFINITE:
            limits_left.append((limit[i], i))  # noqa: PERF401 - what numba knows
    heapq.heapify(offers)
    heapq.heapify(limits_left)
    fixed, open_flows = [0] * flows, flows
    while open_flows:
        # The flows that want least and the links that offer least: all that are the tightest are fixed in this round.
        share, count = least_limit(limits_left, has_rate), 0
        while len(offers) > 0:
            offer, m = offers[0]
            if sharing[m] == 0:
                heapq.heappop(offers)
            elif left[m] / sharing[m] != offer:
                heapq.heapreplace(offers, (left[m] / sharing[m], m))
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
                left[m] = max(0.0, left[m] - share * taken[m])  # once: it is nothing the next time
                sharing[m] -= taken[m]
                taken[m] = 0
    return rate


def all_held_back_at_once(  # noqa: PLR0917 - a kernel has no keywords
    first: Sequence[int] | Ints,
    media: Sequence[int] | Ints,
    capacity: Sequence[float] | Floats,
    limit: Sequence[float] | Floats,
    sharing: list[int],
    rate: list[float],
) -> bool:
    """Whether the first round settles all flows, as where they share one link; their rates are then in `rate`."""
    share = INFINITE
    for m in range(len(sharing)):
        if sharing[m]:
            share = min(share, capacity[m] / sharing[m])
    for i in range(len(rate)):
        share = min(share, limit[i])
    held_back = 0
    for i in range(len(rate)):
        rate[i], tightest = share, limit[i] == share
        for j in range(first[i], first[i + 1]):
            tightest = tightest or capacity[media[j]] / sharing[media[j]] == share
        held_back += 1 if tightest else 0
    return held_back == len(rate)


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


def least_limit(limits_left: list[tuple[float, int]], has_rate: list[bool]) -> float:
    """The least limit of a flow without a rate, which is then the first of the heap; infinite if none has one."""
    while len(limits_left) > 0 and has_rate[limits_left[0][1]]:
        heapq.heappop(limits_left)
    return limits_left[0][0] if len(limits_left) > 0 else INFINITE
