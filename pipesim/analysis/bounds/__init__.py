"""Lower bounds on the iteration time: of all plans, and of all schedules of one plan.

`plan_bound` holds for every plan with one stage per device and every schedule that does not split the backward. For a
guess T a dynamic program looks for a plan that keeps every inequality that a plan as fast as T must keep; if it finds
none, no plan is as fast. T is searched from below, in coarse steps and then in fine ones, each with what those before
have left. Costs are at their best, whichever devices a plan uses: the fastest kind, the greatest bandwidth that r
devices can have between all of them, the widest ring. Some of the inequalities, for stages 1 .. S, M microbatches and
channels n -> n+1:

    X_n     forward part of what is before stage n, one microbatch: sum over k < n of ( F_k + cF_k )           B15
    full_n  what is before stage n starts and after it ends: the sum over k < n of ( F_k + 2 cF_k + B_k ),     B16
            or X_j + F_j + ... + B_j + A_j where stage j < n ends later with its all-reduce A_j
    tail_n  what is between a forward and a backward of stage n: the way to the last stage and back            B21

    T >= M (F_n + B_n) + max( full_n, X_n + A_n )                       a stage works, then its all-reduce     B23, B24
    T >= max( F_n + M B_n, M F_n + B_n ) + tail_n + the same max        no backward before the first comes     B25
                                                                        back, no forward after the last goes
    T >= X_n + M F_n + tail_n + B_n + A_n                               the last forward comes back            B27
    T >= full_n + M c_n + what follows the last message                 a channel is busy                      B28
    T >= X_n + what leaves an island of devices                         links of an island are busy            B31 - B35

docs/certificate.md derives all of them, B1 to B36; the same numbers are beside the lines that keep them.

A replica may be late alone. What follows then is less, unless the replicas of a stage on one island are known to do
everything at the same time: their devices can change places, sharing is `fair`, and nothing delays only one of them.

    islands          which devices are close to each other, and what can leave them
    guesses          which T are tried, and what a guess leaves to those after it
    moves            where stages can be, and what channels between them cost; incoming: by where they lead
    forms            the same, more coarsely, where there are many islands
    layer_sums       seconds and bytes of layers
    transition       what a stage or a channel adds to a plan
    reach            the dynamic program, from the first layer on; frontier: its partial plans
    heads            what partial plans have behind them; island_traffic: what leaves islands
    tails            the least that is still to come, from the last layer backwards
    rounding         what whole nanoseconds can take from a simulated time
"""

import functools
import itertools
import math
from collections.abc import Callable

import numpy as np

from pipesim.analysis.bounds.forms import by_form, by_shape
from pipesim.analysis.bounds.guesses import COARSE, Guesses
from pipesim.analysis.bounds.islands import (
    IslandModel,
    Network,
    best_partitions,
    island_model,
    loosened,
    ring_bandwidths,
)
from pipesim.analysis.bounds.layer_sums import LayerSums, both_ways, kinds_of, layer_sums
from pipesim.analysis.bounds.moves import Moves, by_island
from pipesim.analysis.bounds.rounding import NS, UNSCALED, LeastPart, of_plans, of_schedules, of_work
from pipesim.base import units
from pipesim.base.arrays import Floats
from pipesim.core.cluster import Cluster
from pipesim.core.costs import Costs, Phase
from pipesim.core.plan import REPLICAS, Plan, Replicas
from pipesim.core.schedule import INPUT, WEIGHT, Schedule
from pipesim.core.sharing import Sharing, sharing_rule
from pipesim.core.teams import SINGLE, Widths

MOST_MOVES, MOST_SHAPES, MOST_ISLANDS = 400_000, 600, 4  # for more, a bound takes minutes
MANY_MOVES = 50_000  # from so many on, coarser moves are tried first
# For more, a bound takes gigabytes and hours: routes between all devices (0.6 kB each), channels between all forms (64
# bytes). It is then the greater of the total work and a single stage.
MOST_DEVICES, MOST_FORMS = 512, 4096


def stage_seconds(plan: Plan, costs: Costs, cluster: Cluster, phase: Phase) -> Floats:
    """Seconds of one microbatch on each stage: on its fastest replica."""
    return np.array(
        [
            min(
                costs.at(plan.widths(n)).seconds_of(kind, plan.share(n), s.start, s.stop)[phase]
                for kind in {cluster.device(device).kind for device in s.devices}
            )
            for n, s in enumerate(plan.stages)
        ]
    )


def schedule_bound(plan: Plan, costs: Costs, cluster: Cluster, part: LeastPart = UNSCALED) -> float:
    """Seconds that every schedule of this plan needs which does not split the backward (B3).

        max over stages n of   work_n + what must pass before stage n starts and after it ends
        head_n = sum over k < n of (forward_k + backward_k);    work_n = M (forward_n + backward_n)

    With whole replication a stage's replicas share its microbatches. Chunks on one device share the device, and
    transfers take time: both are left out, so the bound holds but is not reached. It holds for the times of actions as
    they are, and for those in whole nanoseconds of a simulation: it is the lesser of both.
    """
    forward, backward, first = (
        stage_seconds(plan, costs, cluster, phase) for phase in ("forward", "backward", "backward_first")
    )
    replicas = np.array(plan.replication) if plan.replicas == "whole" else np.ones(len(plan.stages))
    passing = np.ceil(plan.microbatches / replicas)
    exact = _longest(passing, forward + np.minimum(backward, first))
    forward, backward, first = (units.to_ns(seconds).astype(np.float64) for seconds in (forward, backward, first))
    found = min(exact, units.to_s(_longest(passing, forward + np.minimum(backward, first))))  # R4
    return of_schedules(float(passing.max()), len(plan.stages), max(map(len, plan.chunks))).scaled(found, part)


def _longest(passing: Floats, both: Floats) -> float:
    """The greatest `work + head` of a stage, from the forward and backward of one microbatch on each."""
    head = np.concatenate([[0.0], np.cumsum(both)[:-1]])
    return float((passing * both + head).max())


@functools.lru_cache(maxsize=64)  # a comparison needs the same one for every planner and scheduler
def plan_bound(
    costs: Costs, cluster: Cluster, microbatches: int, sharing: Sharing = "fair", *, in_step: bool = True
) -> float:
    """Seconds that every plan of one stage per device needs, on any order of devices, with any unsplit schedule.

    Holds for replicas that split microbatches and for those that take them whole, and for how transfers use links:
    `sharing`. Under `fair`, replicas that split microbatches are assumed to have them in the same order, with eager
    transfers and without a scenario; with `in_step=False`, or where links have bursts, they are not, and the bound is
    weaker, the one of `fifo`.
    Simulated times are rounded to nanoseconds, and equal replicas may end one apart; what that can gain is subtracted.
    """
    rounding = of_plans(microbatches, len(cluster.devices)).subtracted * NS
    if len(cluster.devices) > MOST_DEVICES:
        return max(0.0, total_work(costs, cluster, microbatches) - rounding)
    in_step = in_step and not cluster.buckets  # replicas that do the same may find buckets that differ
    cluster = loosened(cluster)
    network = Network(cluster)
    rule = sharing_rule(sharing)
    labels = (
        best_partitions(network) if rule.contended and rule.has_links else [np.zeros(len(cluster.devices), np.int64)]
    )
    low = max(total_work(costs, cluster, microbatches), single_stage(costs, cluster, microbatches))
    models = [island_model(network, label, sharing, in_step=in_step) for label in labels]
    if any(_forms(islands) > MOST_FORMS for islands in models):
        return max(0.0, low - rounding)
    found = np.inf
    for replicas in REPLICAS:
        tables = layer_sums(costs, cluster, microbatches, replicas)
        searches = [_search(tables, islands, replicas, microbatches) for islands in models]
        if found == np.inf or all(one.reaches(found, COARSE.grain) for one in searches):
            least = low
            for one in searches:
                least = one.least(least, found)
            found = least
    return max(0.0, found - rounding)


def _search(tables: LayerSums, islands: IslandModel, replicas: Replicas, microbatches: int) -> Guesses:
    """With the most exact moves that are not too many, and coarser ones before them if they are many."""
    build, rows = _builder(islands)
    exact = functools.partial(build, islands, replicas, microbatches)
    if rows < MANY_MOVES or build is by_form:
        return Guesses(tables, exact)
    return Guesses(tables, exact, Guesses(tables, functools.partial(by_form, islands, replicas, microbatches)))


def _builder(islands: IslandModel) -> tuple[Callable[[IslandModel, Replicas, int], Moves], int]:
    """The most exact description with not too many moves, and how many they would be by island."""
    rows = math.prod(math.comb(math.comb(size + 3, 3) + many - 1, many) for size, many in islands.groups)
    codes = (int(islands.sizes.max()) + 1) ** (2 * len(islands.sizes))
    if rows <= MOST_MOVES and codes < 2**62:
        return by_island, rows
    shapes = math.comb(int(islands.sizes.max()) + len(islands.sizes), len(islands.sizes))
    few = 1 < len(islands.sizes) <= MOST_ISLANDS and shapes <= MOST_SHAPES
    return by_shape if few else by_form, rows


def _forms(islands: IslandModel) -> int:
    """How many forms stages have, where channels between all of them are built; otherwise 0."""
    most = int(islands.sizes.max())
    return most * (most + 1) // 2 + int(islands.sizes.sum()) if _builder(islands)[0] is by_form else 0


def bound_for(
    plan: Plan,
    schedule: Schedule,
    costs: Costs,
    cluster: Cluster,
    sharing: Sharing = "fair",
    *,
    in_step: bool = True,
    part: LeastPart = UNSCALED,
) -> float:
    """The bound that a plan and its schedule can be compared with: `plan_bound` where it holds, else the total work.

    `plan_bound` does not hold for several stages on one device, nor for teams of several GPUs, whose messages and
    rings it does not know, nor for schedules that split the backward. `in_step`:
    whether replicas of a stage that have the same order of actions also do them at the same time. `part`: what parts
    of their times tasks take at the least.
    """
    microbatches, devices = plan.microbatches, len(cluster.devices)
    simple = all(len(held) == 1 for held in plan.chunks) and not np.isin(schedule.kind, [INPUT, WEIGHT]).any()
    teams = team_widths(plan)
    if teams or not simple:
        stages = max(map(len, plan.chunks))
        work = total_work(costs, cluster, microbatches, stages, teams)
        return of_work(microbatches, devices, stages).scaled(work, part)
    in_step = in_step and (plan.replicas == "whole" or _in_step(plan, schedule))
    found = plan_bound(costs, cluster, microbatches, sharing, in_step=in_step)
    return of_plans(microbatches, devices).scaled(found, part)


def _in_step(plan: Plan, schedule: Schedule) -> bool:
    """Whether all replicas of a stage have the same actions in the same order; each device has one stage."""
    first = dict[int, list[tuple[int, int, int, bool]]]()
    return all(schedule.part(rank) == first.setdefault(n, schedule.part(rank)) for rank, (n,) in enumerate(plan.chunks))


def team_widths(plan: Plan) -> tuple[Widths, ...]:
    """The widths of the teams of a plan; none if each is a single GPU."""
    found = tuple(dict.fromkeys(plan.widths(n) for n in range(len(plan.stages))))
    return () if found == (SINGLE,) else found


def total_work(
    costs: Costs, cluster: Cluster, microbatches: int, stages: int = 1, teams: tuple[Widths, ...] = ()
) -> float:
    """All work over all devices: a bound for any plan with at most so many stages on a device, and any schedule (B1).

    Each layer on as many replicas of the fastest kind as take the least of the devices' time, whole or in parts; with
    `teams`, on those of the width that takes the least time of all its GPUs.
    """
    devices = len(cluster.devices)
    least = np.full(len(costs.model), np.inf)
    for widths, kind, r in itertools.product(teams or (costs.widths,), kinds_of(cluster), range(1, devices + 1)):
        at, gpus = costs.at(widths), widths.gpus if teams else 1
        split = at.seconds("backward_input", kind, 1 / r) + at.seconds("backward_weight", kind, 1 / r)
        whole = np.minimum(both_ways(at, kind, 1 / r), at.forward(kind, 1 / r) + split)
        least = np.minimum(least, gpus * r * whole)
    each = {widths.gpus for widths in teams}
    used = devices - devices % each.pop() if len(each) == 1 else devices  # teams of one width leave what is over
    rounding = of_work(microbatches, devices, stages).subtracted * NS
    return max(0.0, float(microbatches * least.sum() / used) - rounding)


def single_stage(costs: Costs, cluster: Cluster, microbatches: int) -> float:
    """The layer that is worst to have in any stage: on as many replicas as suit it best, with their all-reduce (B2)."""
    devices, model = len(cluster.devices), costs.model
    together = ring_bandwidths(cluster.bandwidth_matrix)
    alone = np.full((devices, len(model)), np.inf)
    whole = np.min([both_ways(costs, kind, 1.0) for kind in kinds_of(cluster)], axis=0)
    for r in range(1, devices + 1):
        split = np.min([both_ways(costs, kind, 1 / r) for kind in kinds_of(cluster)], axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            weights = 2 * (r - 1) / r * np.array(model.parameter_bytes)
            reduce = np.where(weights > 0, weights / together[r], 0.0)
        alone[r - 1] = microbatches * np.minimum(split, whole / r) + reduce
    return float(alone.min(axis=0).max())
