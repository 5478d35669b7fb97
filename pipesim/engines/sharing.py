"""How flows share links: max-min fair rates, by progressive filling.

    link 0   capacity 3   a b c      1. every link offers capacity / flows: 1 and 4; the least is link 0's
    link 1   capacity 5   c          2. its flows get that rate and are settled; the others share what is left
                                     3. again, until every flow is settled

One function, used by every engine, on flat sequences of numbers: the same sums in the same order give the same bits.
"""

from collections.abc import Sequence


def max_min(
    first: Sequence[int], media: Sequence[int], capacity: Sequence[float], limit: Sequence[float]
) -> list[float]:
    """The rate of each flow. Flow i crosses media[first[i] : first[i + 1]] and never exceeds limit[i].

    Media are numbered 0 to len(capacity) - 1 and cross each flow at most once.
    """
    flows, links = len(first) - 1, len(capacity)
    rate = [0.0] * flows
    settled = [False] * flows
    left = [capacity[m] for m in range(links)]
    sharing = [0] * links
    members: list[list[int]] = [[] for _ in range(links)]
    for i in range(flows):
        for j in range(first[i], first[i + 1]):
            sharing[media[j]] += 1
            members[media[j]].append(i)
    open_flows = flows
    while open_flows:
        # The link that offers least, and the flow that wants least: whichever is tighter is settled now.
        offer, tightest = float("inf"), -1
        for m in range(links):
            if sharing[m] and left[m] / sharing[m] < offer:
                offer, tightest = left[m] / sharing[m], m
        wish, modest = float("inf"), -1
        for i in range(flows):
            if not settled[i] and limit[i] < wish:
                wish, modest = limit[i], i
        now = [modest] if wish <= offer else [i for i in members[tightest] if not settled[i]]
        share = min(wish, offer)
        for i in now:
            rate[i] = share
            settled[i] = True
            open_flows -= 1
            for j in range(first[i], first[i + 1]):
                m = media[j]
                sharing[m] -= 1
                left[m] = max(0.0, left[m] - share)
    return rate
