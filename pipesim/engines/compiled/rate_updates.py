"""New max-min fair rates from those before a change: only what the change reaches is computed.

    level[m]    what link m offers when the flows with a lower rate are fixed (`engines.max_min`)
    rate[i]     the least of limit[i] and the levels of the links that flow i crosses

A link whose flows have changed, or whose flows have other rates elsewhere, is pending. The pending link with the lowest
level is taken, and its level is computed from the levels of all other links; where it differs, its flows get other
rates, and links above these rates are pending in turn. When no link is pending all equations hold, and they have one
solution: the rates are those that `max_min` finds, to the last bit. Most links that are joined to a change through
common flows keep their levels, and are never looked at.
"""

from typing import NamedTuple

import numpy as np

from pipesim.base.arrays import Bools, Floats, Ints
from pipesim.base.kernels import borrowing, inlined
from pipesim.engines.compiled.simulation_state import RouteArrays

INFINITE = float("inf")
MOST_LOOKS = 8  # times as many levels as there are links: then all rates are computed together


class Levels(NamedTuple):
    """The level of each link, and room for a search for those that change."""

    level: Floats  # infinite where a link holds no flow back
    before: Floats  # of each flow: its rate before this change; -1 where it has not changed
    pending: Bools  # of each link
    queue: Floats  # the levels of pending links: a binary heap, from 1 on
    links: Ints  # beside each level in the queue: its link; links[0] is their number
    below: Floats  # what flows on one link would get elsewhere
    weights: Ints  # how many flows that are alike each of them is


def initial_levels(tasks: int, media: int) -> Levels:
    """No flow is under way."""
    return Levels(
        np.full(media, INFINITE),
        np.full(tasks, -1.0),
        np.zeros(media, np.bool_),
        np.empty(media + 1),
        np.zeros(media + 1, np.int64),
        np.empty(tasks),
        np.empty(tasks, np.int64),
    )


@borrowing
def add_pending(levels: Levels, medium: int) -> None:
    """The level of a link is to be computed, unless it is pending already."""
    if levels.pending[medium]:
        return
    levels.pending[medium] = True
    queue, links, value = levels.queue, levels.links, levels.level[medium]
    at = links[0] + 1
    links[0] = at
    while at > 1 and queue[at >> 1] > value:
        queue[at], links[at] = queue[at >> 1], links[at >> 1]
        at >>= 1
    queue[at], links[at] = value, medium


@borrowing
def next_pending(levels: Levels) -> int:
    """Remove the pending link with the lowest level."""
    queue, links = levels.queue, levels.links
    size = links[0] - 1
    links[0] = size
    first: int = links[1]
    value, last, at = queue[size + 1], links[size + 1], 1
    while True:
        child = 2 * at
        if child > size:
            break
        if child < size and queue[child + 1] < queue[child]:
            child += 1
        if queue[child] >= value:
            break
        queue[at], links[at] = queue[child], links[child]
        at = child
    queue[at], links[at] = value, last
    levels.pending[first] = False
    return first


@inlined
def rate_elsewhere(routes: RouteArrays, level: Floats, task: int, medium: int) -> float:
    """The rate that a flow would have without this link."""
    rate: float = routes.limit[task]
    for k in range(routes.first[task], routes.first[task + 1]):
        m = routes.medium[k]
        if m != medium:
            rate = min(rate, level[m])
    return rate


@borrowing
def level_of(  # noqa: PLR0917 - a kernel has no keywords
    routes: RouteArrays, levels: Levels, capacity: float, medium: int, foremost: int, following: Ints, task: Ints
) -> float:
    """What a link offers when the flows that have a lower rate elsewhere are fixed; its flows begin at `foremost`."""
    below, weights, number, sharing, j = levels.below, levels.weights, 0, 0, foremost
    while j >= 0:
        weight = routes.weight[j] if len(routes.weight) > 0 else 1
        value = rate_elsewhere(routes, levels.level, task[j], medium)
        sharing += weight
        if value < INFINITE:
            below[number], weights[number] = value, weight
            number += 1
        j = following[j]
    if sharing == 0:
        return INFINITE
    sort_by_rate(below, weights, number)
    left, level, at = capacity, capacity / sharing, 0
    while at < number and below[at] < level:
        value, taken = below[at], 0
        while at < number and below[at] == value:
            taken += weights[at]
            at += 1
        left = max(0.0, left - value * taken)
        sharing -= taken
        if sharing == 0:
            return INFINITE
        level = max(level, left / sharing)
    return level


@borrowing
def sort_by_rate(below: Floats, weights: Ints, number: int) -> None:
    """Sort so many rates, with their weights, by Shell's method: most links have few flows."""
    gap = 1
    while gap < number // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for n in range(gap, number):
            value, weight, at = below[n], weights[n], n
            while at >= gap and below[at - gap] > value:
                below[at], weights[at] = below[at - gap], weights[at - gap]
                at -= gap
            below[at], weights[at] = value, weight
        gap //= 3
