"""The least value of a function of a few numbers, without derivatives: the simplex method of Nelder and Mead (1965)."""

from collections.abc import Callable, Sequence

import numpy as np

from pipesim.base.arrays import Floats


def nelder_mead(
    cost: Callable[[Floats], float], start: Sequence[float], *, step: float = 0.15, evaluations: int = 400
) -> tuple[Floats, float]:
    """Where the cost is least, and that cost, after at most so many evaluations (and those of a shrinking simplex).

    >>> from pipesim.base.minimise import nelder_mead
    >>> at, least = nelder_mead(lambda x: (x[0] - 2) ** 2 + (x[1] + 1) ** 2, [0.0, 0.0])
    >>> [round(float(value), 4) for value in at]
    [2.0, -1.0]
    """
    first: Floats = np.array(start, np.float64)
    corners = [first, *(first + step * row for row in np.eye(len(first)))]
    costs = [cost(corner) for corner in corners]
    spent = len(costs)
    while spent < evaluations and max(costs) - min(costs) > 1e-12:
        order = np.argsort(costs, kind="stable")
        corners, costs = [corners[i] for i in order], [costs[i] for i in order]
        centre = np.mean(corners[:-1], axis=0)
        away = centre - corners[-1]
        reflected = centre + away
        reached = cost(reflected)
        spent += 1
        if reached < costs[0]:
            further = centre + 2 * away
            beyond = cost(further)
            spent += 1
            corners[-1], costs[-1] = (further, beyond) if beyond < reached else (reflected, reached)
        elif reached < costs[-2]:
            corners[-1], costs[-1] = reflected, reached
        else:
            inside = centre - away / 2
            nearer = cost(inside)
            spent += 1
            if nearer < costs[-1]:
                corners[-1], costs[-1] = inside, nearer
            else:
                corners = [corners[0], *((corners[0] + corner) / 2 for corner in corners[1:])]
                costs = [costs[0], *(cost(corner) for corner in corners[1:])]
                spent += len(corners) - 1
    best = int(np.argmin(costs))
    return corners[best], costs[best]
