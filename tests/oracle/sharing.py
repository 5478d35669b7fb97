"""Who may use which links: the rate of every flow, and who is first in line."""

from fractions import Fraction


def fair_rates(flows: dict, capacity: dict) -> dict:
    """Max-min fair: all rates rise together; those at their limit, and those on a link that is full, stay.

    `flows`: name -> (media, limit or None); `capacity`: medium -> bytes per ns.
    """
    rates, rising = {}, dict(flows)
    while rising:
        left = {}  # what a medium offers to each flow that still rises
        for medium in {medium for media, _ in rising.values() for medium in media}:
            taken = sum((rates[name] for name in rates if medium in flows[name][0]), Fraction(0))
            left[medium] = (capacity[medium] - taken) / sum(medium in media for media, _ in rising.values())
        limits = [limit for _, limit in rising.values() if limit is not None]
        level = min([*left.values(), *limits])
        full = {medium for medium, offer in left.items() if offer == level}
        staying = [name for name, (media, limit) in rising.items() if limit == level or full.intersection(media)]
        for name in staying:
            rates[name] = level
            del rising[name]
    return rates


def first_in_line(waiting: list, busy: set) -> list:
    """Those that may start, of (ready, turn, name, media): no medium is busy, nobody earlier wants one of them."""
    wanted, starting = set(busy), []
    for _, _, name, media in sorted(waiting):
        if wanted.isdisjoint(media):
            starting.append(name)
        wanted.update(media)
    return starting
