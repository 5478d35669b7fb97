"""How flows share links: max-min fair rates, by progressive filling.

    link 0   capacity 3   a b c      1. every link offers capacity / flows: 1 and 4; the least is link 0's
    link 1   capacity 5   c          2. its flows get that rate and are fixed; the others share what is left
                                     3. again, until every flow is fixed

One function, used by every engine, on flat sequences of numbers: the same sums in the same order give the same bits.
What links offer only rises as flows are fixed, so a heap of offers is looked over again only at its top.
"""

import heapq
from collections.abc import Sequence

from pipesim.base.arrays import Floats, Ints

INFINITE = float("inf")


def max_min(  # noqa: C901, PLR0912, PLR0915 - both heaps and the flows change in every turn
    first: Sequence[int] | Ints,
    media: Sequence[int] | Ints,
    capacity: Sequence[float] | Floats,
    limit: Sequence[float] | Floats,
) -> list[float]:
    """The rate of each flow. Flow i crosses media[first[i] : first[i + 1]] and never exceeds limit[i].

    Media are numbered 0 to len(capacity) - 1 and cross each flow at most once.
    """
    flows, links = len(first) - 1, len(capacity)
    rate = [0.0] * flows
    has_rate = [False] * flows
    left = [0.0] * links
    sharing = [0] * links
    for j in range(first[flows]):
        sharing[media[j]] += 1
    begin = [0] * (links + 1)  # the flows of link m are member[begin[m] : begin[m + 1]]
    for m in range(links):
        begin[m + 1] = begin[m] + sharing[m]
    place = [0] * links
    member = [0] * first[flows]
    for i in range(flows):
        for j in range(first[i], first[i + 1]):
            m = media[j]
            member[begin[m] + place[m]] = i
            place[m] += 1
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
    open_flows = flows
    while open_flows:
        # The link that offers least, and the flow that wants least: whichever is tighter is fixed now.
        offer, tightest = INFINITE, -1
        while len(offers) > 0:
            offer, tightest = offers[0]
            if sharing[tightest] == 0:
                heapq.heappop(offers)
            elif left[tightest] / sharing[tightest] != offer:
                heapq.heapreplace(offers, (left[tightest] / sharing[tightest], tightest))
            else:
                break
            offer, tightest = INFINITE, -1
        while len(limits_left) > 0 and has_rate[limits_left[0][1]]:
            heapq.heappop(limits_left)
        least_limit, lowest = INFINITE, -1
        if len(limits_left) > 0:
            least_limit, lowest = limits_left[0]
        share = min(least_limit, offer)
        alone = least_limit <= offer
        for at in range(0 if alone else begin[tightest], 1 if alone else begin[tightest + 1]):
            i = lowest if alone else member[at]
            if has_rate[i]:
                continue
            rate[i] = share
            has_rate[i] = True
            open_flows -= 1
            for j in range(first[i], first[i + 1]):
                m = media[j]
                sharing[m] -= 1
                left[m] = max(0.0, left[m] - share)
    return rate
