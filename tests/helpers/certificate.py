"""The inequalities of docs/certificate.md for one plan, written from the document: which of them a time T breaks."""

from typing import NamedTuple

import numpy as np

from pipesim.analysis.bounds.islands import Network, island_model, loosened
from pipesim.analysis.bounds.layer_sums import BACKWARD, FORWARD, LATE, WORK, layer_sums
from pipesim.analysis.bounds.moves import links_of, rings_of


class Terms(NamedTuple):
    """Stages (one number each) and channels (one fewer), as the document names them."""

    f: list
    b: list
    W: list
    P: list
    q: list
    k: list
    A: list
    w: list  # bytes of parameters
    ring: list  # [stage][island]: seconds of an all-reduce's bytes that leave it, per byte of parameters
    delay: list
    arrive: list  # this and what follows: times the bytes of the cut
    leave: list
    arrive_one: list
    leave_one: list
    both: list
    load: list
    ahead: list  # [channel][island]
    back: list


def model_of(cluster, label, sharing, *, in_step):
    return island_model(Network(loosened(cluster)), label, sharing, in_step=in_step)


def terms(plan, costs, cluster, model, label):
    """What a plan's stages and channels take at the least, on these islands."""
    sums = layer_sums(costs, cluster, plan.microbatches, plan.replicas)
    counts = np.array(
        [np.bincount([label[cluster.index[x]] for x in s.devices], minlength=len(model.sizes)) for s in plan.stages]
    )
    counts = counts[:, model.order]
    ring, latency, ring_load = rings_of(model, counts)
    k = counts.sum(axis=1)
    begin, end = (np.array([getattr(s, name) for s in plan.stages]) for name in ("start", "stop"))
    sum_of = [
        (sums.seconds[k, end, column] - sums.seconds[k, begin, column]).tolist() for column in (FORWARD, BACKWARD, WORK)
    ]
    weights = sums.parameters[end] - sums.parameters[begin]
    reduce = np.where(weights > 0, ring * weights + latency, 0.0)
    links = [
        links_of(model, counts[n : n + 1], counts[n + 1 : n + 2], plan.replicas, plan.microbatches)
        for n in range(len(k) - 1)
    ]
    bytes_ = sums.cut[end[:-1]]
    column = {
        name: [float(getattr(x, name)[0]) * (1.0 if name == "delay" else d) for x, d in zip(links, bytes_, strict=True)]
        for name in ("delay", "forward", "backward", "forward_min", "backward_min", "round_trip", "load")
    }
    leaving = [
        [(getattr(x, name)[0] * d).tolist() for x, d in zip(links, bytes_, strict=True)]
        for name in ("forward_load", "backward_load")
    ]
    return Terms(
        *sum_of, sums.most[k].tolist(), sums.with_most[k].tolist(), k.tolist(), reduce.tolist(), weights.tolist(),
        ring_load.tolist(), *column.values(), *leaving,
    )  # fmt: skip


class Carried(NamedTuple):
    """What section 7 derives, of each stage; `alpha` to `eta` of each channel."""

    alpha: list
    lam: list
    eta: list
    X: list
    Y: list
    E: list
    G: list
    G1: list
    tau: list
    sigma: list
    spread: list
    mean: list
    last: list
    ends: list
    U: list  # what follows a forward that goes over a channel, until it is back: B28, B31
    N: list  # what is before a backward that comes over a channel: B32


def carried(x):
    """Stage after stage, and back."""
    stages, channels = range(len(x.f)), range(len(x.f) - 1)
    alpha, lam, one, eta = (
        [x.delay[c] + column[c] for c in channels] for column in (x.arrive, x.leave, x.arrive_one, x.leave_one)
    )
    X, Y, E, G, G1, spread, mean, last = [0.0], [0.0], [], [], [], [], [], []
    start = 0.0
    for n in stages:  # B15, B16, B17, B18, B19, B20
        E.append(X[n] + x.f[n])
        G.append(x.b[n] + max(Y[n], x.A[n]))
        G1.append(x.b[n] + max(eta[n - 1] + G[n - 1] if n else 0.0, x.A[n]))
        turns = [e // x.k[n - 1] for e in range(x.q[n])] if n else [0]
        spread.append(turns[-1] * x.f[n - 1])
        mean.append(sum(turns) / len(turns) * (x.f[n - 1] + x.b[n - 1]))
        last.append(max(start + x.f[n], X[n] + spread[n] + x.P[n] * x.f[n]))
        if n in channels:
            X.append(E[n] + alpha[n])
            Y.append(alpha[n] + G[n])
            start = x.delay[n] + max(last[n] + x.arrive_one[n], E[n] + x.load[n])
    tau, sigma = [0.0 for _ in stages], [0.0 for _ in stages]  # B21, B22
    for n in reversed(channels):
        between = x.f[n + 1] + tau[n + 1] + x.b[n + 1] + lam[n]
        tau[n], sigma[n] = alpha[n] + between, one[n] + between
    ends = [max(x.f[n] + x.P[n] * x.b[n], x.P[n] * x.f[n] + x.b[n]) for n in stages]
    U = [eta[c] + x.f[c + 1] + x.b[c + 1] + sigma[c + 1] for c in channels]
    N = [alpha[c] + x.f[c + 1] + x.b[c + 1] + tau[c + 1] for c in channels]
    return Carried(alpha, lam, eta, X, Y, E, G, G1, tau, sigma, spread, mean, last, ends, U, N)


def of_stages(x, h):
    """Section 8: (number, seconds) of what is about one stage."""
    for n in range(len(x.f)):
        own = h.E[n - 1] + h.G[n - 1] + 2 * x.delay[n - 1] + x.both[n - 1] if n else 0.0
        yield "B23", x.W[n] + own + h.mean[n]
        yield "B24", h.X[n] + h.spread[n] + x.W[n] + x.A[n]
        yield "B25", h.ends[n] + h.tau[n] + max(h.X[n] + h.Y[n] + h.mean[n], h.X[n] + h.spread[n] + x.A[n])
        yield "B27", h.last[n] + h.sigma[n] + x.b[n] + x.A[n]


def of_channels(x, h):
    """Section 8: of what is about a channel."""
    for n in range(len(x.f) - 1):
        yield "B28", h.E[n] + x.delay[n] + x.load[n] + h.U[n] + h.G[n]
        rounds = (x.q[n] - 1) // x.k[n + 1]
        way = h.alpha[n] + x.f[n + 1] + h.tau[n + 1] + x.b[n + 1] + h.lam[n]
        yield "B29", h.X[n] + x.P[n] * x.f[n] + way + rounds * x.f[n + 1] + x.b[n] + x.A[n]
        yield "B30", h.X[n] + x.f[n] + way + rounds * x.b[n + 1] + x.P[n] * x.b[n] + x.A[n]


def of_island(x, h, g):
    """Section 9: of what leaves an island."""
    ahead, back = ({c: column[g] for c, column in enumerate(leaving) if column[g] > 0} for leaving in (x.ahead, x.back))
    for e in ahead:
        sent, first = sum(seconds for c, seconds in ahead.items() if c <= e), min(ahead)
        yield "B31", h.E[first] + h.G[first] + sent + h.U[e]
        for j in range(e + 1, len(x.f)):
            yield "B33", h.E[first] + sent + x.f[j] + x.b[j] + h.sigma[j] + x.A[j]
    for e in back:
        sent, first = sum(seconds for c, seconds in back.items() if c <= e), min(back)
        yield "B32", h.E[first] + h.N[e] + sent + h.G1[first]
    rings = {n: x.ring[n][g] * x.w[n] for n in range(len(x.f)) if x.ring[n][g] * x.w[n] > 0}
    begun = [h.E[c] for c in (*ahead, *back)] + [h.X[n] for n in rings]
    yield "B34", min(begun, default=0.0) + sum((*ahead.values(), *back.values(), *rings.values()))


def of_late_rings(x, h, g, target, late):
    """B35: of all-reduces that cannot start before a part of T, over the part of T that is left."""
    over = [
        max(h.X[n] + h.spread[n] + max(x.W[n], h.ends[n] + h.tau[n]), h.last[n] + h.sigma[n] + x.b[n])
        for n in range(len(x.f))
    ]
    for part in late:
        sent = sum(x.ring[n][g] * x.w[n] for n in range(len(x.f)) if over[n] >= part * target)
        yield "B35", sent / (1 - part)


def broken(x, target, late=LATE):
    """Which inequalities do not hold for T = target: their numbers."""
    h, islands = carried(x), range(len(x.ring[0]))
    every = [*of_stages(x, h), *of_channels(x, h)]
    every += [found for g in islands for found in (*of_island(x, h, g), *of_late_rings(x, h, g, target, late))]
    return {number for number, seconds in every if seconds > target}


def rounding(plan, cluster):
    """R of section 11, in seconds."""
    return 2 * (2 * plan.microbatches + 4 * len(cluster.devices)) * 1e-9
