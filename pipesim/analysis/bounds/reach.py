"""Whether any plan can be as fast as a guess: a dynamic program over layers and moves, on plain arrays."""

import numpy as np
from numpy.typing import NDArray

from pipesim.base.arrays import Floats, Ints

FORE, FULL, LAST, OWED, LONE, BACKED, GONE, CAME, LATER, MORE, MINE, ROUNDS = range(12)  # first columns of the table
AHEAD, BACK, HERE, ANY = range(4)  # what leaves an island on the way ahead, back, ahead to end there, and all of it
WAYS = 4


def reachable(  # noqa: PLR0917, C901, PLR0912, PLR0915 - kernels take plain values, and call no others
    busy: Floats,
    passage: Floats,
    forward: Floats,
    backward: Floats,
    passing: Floats,
    many: Ints,
    rest: Floats,
    cut: Floats,
    parameters: Floats,
    area: Floats,
    early: float,  # noqa: ARG001 - the tables as they are
    late: Floats,
    first: Ints,
    stop: Ints,
    shift: Ints,
    place: Ints,
    arrive: Floats,
    leave: Floats,
    onto: Floats,
    home: Floats,
    own: Floats,
    start: Floats,
    load: Floats,
    ahead: Floats,
    back: Floats,
    size: Ints,
    opens: NDArray[np.bool_],
    becomes: Ints,
    left: Ints,
    ring: Floats,
    turns: Floats,
    circle: Floats,
    turn_place: Ints,
    turn_state: Ints,
    onward: Floats,
    tail: Floats,
    lone_onward: Floats,
    lone_tail: Floats,
    room: Floats,
    space: Floats,
    target: float,
    grain: float,
) -> bool:
    """Whether some plan breaks no inequality for T = target. The arrays are told in `tables`, `moves` and `tails`.

    What is carried along for a plan up to a state (behind l layers), or up to a place (the channel to it included):

    fore        least seconds of one microbatch, forward
    full        the same both ways, or what ends later: the way there and back from a stage on, and its all-reduce
    last        when the last forward can have come as far, to one replica at least
    owed        what there is to be done beside all that is still to come
    lone        the same, where one replica alone may be so late
    backed      full where one replica alone may be late on the way back, so that only its part is
    gone, came  when all is done of the last stage if what follows its last forward, or is before its first backward,
                takes no time
    later       its forward; at a place, how much later the last replica can start than the first
    more        its forward and backward; at a place, how much later all start and sooner they end than one, in the mean
    mine        at a place, full for the replica that has most before it
    rounds      at a place, how often its replicas take turns until each of the stage before has handed on a microbatch
    sent[g, t]  least seconds for which all-reduces that start after late[t] T keep island g's links busy, as a part of
                what is left of T then
    begun[g, w] when all that leaves island g one way can have left it, if something does; what follows all of it is
                counted with it where w < HERE
    idle[g, w]  0 where nothing does, else infinite

    Of plans whose full is in the same part `grain` of T the least of everything is kept; one that is nowhere less than
    another's is dropped. Rows of the table are linked to lists: `row[where]`, then `after[row]`.
    """
    layers, places, states, islands = cut.shape[0] - 1, size.shape[0], first.shape[0], ahead.shape[1]
    parts = late.shape[0]
    still, lone_still = tail.T.copy(), lone_tail.T.copy()  # read by state, layer after layer
    sent, begun = 12, 12 + islands * parts
    idle = begun + islands * WAYS
    width = idle + islands * WAYS
    row = np.full((layers + 1) * states + places, -1)  # of a state behind l layers, then of a place
    at_place = (layers + 1) * states
    count, unused = places, -1
    table, after, grade = np.empty((2 * places, width)), np.empty(2 * places, np.int64), np.empty(2 * places, np.int64)
    for p in range(places):
        after[p], grade[p] = unused, 0
        unused = p
        if opens[p] and room[0, p] >= 0:
            row[at_place + p], unused = p, after[p]
            after[p], table[p] = -1, 0.0
            table[p, begun:idle] = np.inf
    of = np.ones(states, np.int64)  # devices of the last stage
    for p in range(places):
        if left[p] >= 0:
            of[becomes[p]] = size[p]
    found = np.empty(int(1 / grain) + 2, np.int64)
    here, adds = np.empty(width), np.empty(parts)
    soonest = np.zeros(rest.shape[0], np.int64)  # with v devices left, the least layer from where on they are enough
    for v in range(len(soonest)):
        while area[soonest[v]] > v * target:
            soonest[v] += 1
    for step in range(2 * layers):
        l, going = step // 2, step % 2 == 0  # noqa: E741 - the letter of the formulas
        for x in range(states if going else places):  # from states to places, or from places to states
            where = l * states + x if going else at_place + x
            n, r = 0, row[where]
            while r >= 0:  # in the order of what they are graded by, and only those that are somewhere the least
                i, following = n, after[r]
                while i > 0 and grade[found[i - 1]] > grade[r]:
                    found[i] = found[i - 1]
                    i -= 1
                found[i] = r
                n, r = n + 1, following
            row[where] = -1
            kept = 0
            for i in range(n):
                r = found[i]
                least = table[r, FULL] <= (space[l, x] if going else room[l, x])
                j = 0
                while least and j < kept:
                    d = 0
                    while d < width and table[r, d] >= table[found[j], d]:
                        d += 1
                    least = d < width
                    j += 1
                if least:
                    found[kept] = r
                    kept += 1
                else:
                    after[r], unused = unused, r
            for i in range(kept):
                r = found[i]
                fore, full, last, owed, mine = (
                    table[r, FORE],
                    table[r, FULL],
                    table[r, LAST],
                    table[r, OWED],
                    table[r, MINE],
                )
                k, s = (0, 0) if going else (size[x], becomes[x])
                later, more, rounds = table[r, LATER], table[r, MORE], table[r, ROUNDS]
                lone, backed = table[r, LONE], table[r, BACKED]
                begin = first[x] if going else max(l + 1, soonest[left[x]])
                for option in range(begin, stop[x] if going else layers + 1):
                    if going:
                        m = option
                        p = shift[x] + place[m]
                        if full + cut[l] * load[m] > target:
                            break  # a state's moves are in the order of their load
                        one = start[m] + cut[l] * arrive[m]
                        back_home = start[m] + cut[l] * home[m]
                        rest_of = back_home + lone_onward[l, p]  # what follows a message that goes ahead here
                        rest_to = one + onward[l, p]  # and what is before one that comes back
                        if full + max(2 * one - room[l, p], start[m] + cut[l] * load[m] + rest_of - target) > 0:
                            continue
                        leaving = start[m] + cut[l] * leave[m]
                        owing = max(owed + one, lone + start[m] + cut[l] * onto[m]) + leaving
                        lone_owing = full + start[m] + cut[l] * load[m] + back_home
                        if max(owing + onward[l, p], lone_owing + lone_onward[l, p]) > target:
                            continue
                        fits = True
                        for g in range(islands):
                            to = turn_place[m, g]
                            for w in range(WAYS):
                                leaves = cut[l] * (ahead[m, g] if w != BACK else 0.0)
                                leaves += cut[l] * (back[m, g] if w % 2 == 1 else 0.0)  # BACK or ANY
                                then = table[r, begun + g * WAYS + w] + leaves
                                quiet = table[r, idle + g * WAYS + w]
                                if leaves > 0:
                                    since = full if w == AHEAD else backed if w == BACK else fore
                                    then, quiet = min(then, since + leaves + quiet), np.inf
                                    if then + (rest_of if w == AHEAD else rest_to if w == BACK else 0.0) > target:
                                        then = np.inf
                                here[begun + to * WAYS + w], here[idle + to * WAYS + w] = then, quiet
                                fits = fits and min(then, quiet) <= target
                            if not fits:
                                break
                        if not fits:
                            continue
                        for g in range(islands):
                            to = turn_place[m, g]
                            for t in range(parts):
                                here[sent + to * parts + t] = table[r, sent + g * parts + t]
                        here[FORE], here[FULL] = fore + one, full + 2 * one
                        k, before = size[p], of[x]
                        here[OWED], here[LONE], here[BACKED] = owing, lone_owing, full + one + back_home
                        here[GONE], here[CAME] = table[r, GONE] + leaving + one, table[r, CAME] + leaving + one
                        turn = many[k] // before  # so many times all of the stage before have one, then the others
                        mean = (before * turn / 2 + many[k] - before * turn) * (turn + 1) / many[k] - 1
                        here[LATER] = ((many[k] - 1) // before) * table[r, LATER]
                        here[MORE] = mean * table[r, MORE]
                        here[ROUNDS] = (many[before] - 1) // k
                        here[LAST] = max(last + cut[l] * onto[m], fore + cut[l] * load[m]) + start[m]
                        here[MINE] = full + 2 * start[m] + cut[l] * own[m]
                        into = at_place + p
                    else:
                        end = option
                        weights = parameters[end] - parameters[l]
                        reduce = ring[x] * weights + turns[x] if weights > 0 else 0.0
                        work = busy[k, end] - busy[k, l]
                        if work + max(mine + more, fore + later + reduce) > target:
                            break  # more layers only make it worse
                        # No backward before the first microbatch came back, no forward after the last went ahead.
                        f, b = forward[k, end] - forward[k, l], backward[k, end] - backward[k, l]
                        at_ends = max(f + passing[k] * b, passing[k] * f + b)
                        ready = max(full + more, fore + later + reduce)
                        if at_ends + still[s, end] + ready > target:
                            continue
                        one = passage[k, end] - passage[k, l]
                        starts = fore + later
                        gone_on = max(last + f, starts + passing[k] * f)
                        owing = max(owed, table[r, GONE] + rounds * f, table[r, CAME] + rounds * b) + one
                        owing, lone_owing = max(owing, at_ends + ready), max(lone + one, gone_on + b + reduce)
                        if max(owing + still[s, end], lone_owing + lone_still[s, end]) > target:
                            continue
                        over = max(starts + work, starts + at_ends + still[s, end], gone_on + lone_still[s, end] + b)
                        for t in range(parts):
                            adds[t] = weights / (1 - late[t]) if weights > 0 and over >= late[t] * target else 0.0
                        fits = True
                        for g in range(islands):
                            to, turning = turn_state[x, g], circle[x, g] * weights
                            for t in range(parts):
                                busy_then = table[r, sent + g * parts + t] + circle[x, g] * adds[t]
                                here[sent + to * parts + t] = busy_then
                                fits = fits and busy_then <= target
                            for w in range(WAYS):
                                then, quiet = table[r, begun + g * WAYS + w], table[r, idle + g * WAYS + w]
                                if w == HERE and then + one + lone_still[s, end] + reduce > target:
                                    then = np.inf
                                if w == ANY and turning > 0:
                                    then = min(then, fore + quiet) + turning
                                    quiet = np.inf
                                here[begun + to * WAYS + w], here[idle + to * WAYS + w] = then, quiet
                                fits = fits and min(then, quiet) <= target
                            if not fits:
                                break
                        if not fits:
                            continue
                        if end == layers:
                            return True
                        here[FORE], here[FULL] = fore + f, max(full, fore + reduce) + one
                        here[LAST], here[OWED], here[LONE] = gone_on, owing, lone_owing
                        here[BACKED] = max(backed, fore + reduce) + one
                        here[GONE] = fore + passing[k] * f + b + reduce
                        here[CAME] = fore + f + passing[k] * b + reduce
                        here[LATER], here[MORE], here[MINE], here[ROUNDS] = f, f + b, 0.0, 0.0
                        into = end * states + s
                    level = int(here[FULL] / (grain * target))
                    to = row[into]
                    while to >= 0 and grade[to] != level:
                        to = after[to]
                    if to >= 0:
                        for d in range(width):
                            table[to, d] = min(table[to, d], here[d])
                        continue
                    if unused < 0 and count == len(table):
                        table = np.concatenate((table, np.empty_like(table)))
                        after, grade = np.concatenate((after, after)), np.concatenate((grade, grade))
                    if unused < 0:
                        to, count = count, count + 1
                    else:
                        to, unused = unused, after[unused]
                    table[to] = here
                    grade[to], after[to], row[into] = level, row[into], to
                after[r], unused = unused, r
    return False
