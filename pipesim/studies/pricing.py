"""Costs of plans by simulation, passed to planners so that they import no engine."""

import functools
import inspect
import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from math import inf

import numpy as np

from pipesim.analysis import metrics
from pipesim.analysis.joint_samples import draw_of
from pipesim.base import lookup, units
from pipesim.base.arrays import Floats
from pipesim.base.checks import check_one_of
from pipesim.base.cores import kernel_threads
from pipesim.base.errors import InputError, ScheduleError
from pipesim.core import limits
from pipesim.core.cluster import Cluster
from pipesim.core.costs import Costs
from pipesim.core.granularity import Blocks
from pipesim.core.limits import HostMemory
from pipesim.core.members import Layout, SchedulerInfo, info_of
from pipesim.core.plan import Plan
from pipesim.core.program import Program
from pipesim.core.schedule import Schedule
from pipesim.engines import ENGINES
from pipesim.lowering import Setup, lower, redraw
from pipesim.schedulers import SCHEDULERS
from pipesim.schedulers.layouts import groups_of, has_layout
from pipesim.studies.early_compilation import compile_fair_sharing
from pipesim.studies.remembered_prices import Price, PricesBeside, RememberedPrice

# What a planner may minimise of the seconds of drawn iterations.
OBJECTIVES: dict[str, Callable[[Floats], float]] = {
    "mean": lambda seconds: float(seconds.mean()),
    "p50": lambda seconds: float(np.percentile(seconds, 50)),
    "p95": lambda seconds: float(np.percentile(seconds, 95)),
    "p99": lambda seconds: float(np.percentile(seconds, 99)),
}
ITERATIONS = 40  # that are drawn for each plan, the same for all plans


@dataclass(frozen=True, slots=True)
class Objective:
    """What is minimised of iterations with drawn times, in place of the iteration with median times."""

    name: str
    jitter: float = 0.0
    draw: str | None = None

    def __post_init__(self) -> None:
        check_one_of("objective", self.name, OBJECTIVES)

    def check(self, costs: Costs) -> None:
        """Refuse times that do not vary."""
        draw_of(costs, self.draw)
        if not costs.is_random and not self.jitter:
            raise InputError(
                f"objective = {self.name!r} found; the trace of {costs.model.name!r} has one sample per layer, so that "
                "all iterations are the same; state how much times vary with jitter (0.05: by 5 %)"
            )


# The exact time is the best of these. An estimate uses only the first two: PE is best for small messages, a long
# warm-up for large ones.
SCHEDULES = (
    "pe",
    'one_f_one_b(warm_up="3A")',
    'one_f_one_b(warm_up="2A")',
    'one_f_one_b(warm_up="4A")',
    'one_f_one_b(warm_up="6A")',
    "eager_1f1b",
    "one_f_one_b",
    "gpipe",
)
# Where schedules may split backwards, also these; and by their layout, those of plans with several stages on a device.
SPLITTING = ("zb_h1",)
CHUNKED: dict[Layout, tuple[str, ...]] = {"loop": ("interleaved",), "wave": ("hanayo",)}
CHUNKED_SPLITTING: dict[Layout, tuple[str, ...]] = {"loop": ("interleaved_zb",), "wave": ("zb_v", "v_half")}
LARGE = 20_000  # tasks of a program that is worth a thread
FEW = 32  # microbatches; the time of more than twice as many is extrapolated from 32 and 64


def prices(  # noqa: PLR0917 - what prices depend on
    planner: Callable[..., Plan],
    costs: Costs,
    cluster: Cluster,
    host_memory: HostMemory = None,
    blocks: Blocks | None = None,
    objective: Objective | None = None,
) -> dict[str, Price]:
    """The functions that a planner has options for: an `estimate`, and the `exact` time; of plans of `blocks`.

    With an objective, both are that, and so is the `cost` of planners that otherwise simulate nothing.
    """
    parameters = inspect.signature(planner).parameters
    host_memory = limits.limit_of(host_memory)  # once, and not for each plan
    estimate = functools.partial(estimated_seconds, costs, cluster, host_memory=host_memory)
    exact = functools.partial(simulated_seconds, costs, cluster, host_memory=host_memory)
    beside = PricesBeside({"estimate": estimate, "exact": exact})
    known: dict[str, Price] = {name: RememberedPrice(name, beside, cluster, blocks) for name in beside.prices}
    if objective is not None:
        objective.check(costs)
        price = functools.partial(drawn_seconds, objective, costs, cluster, host_memory=host_memory)
        known = dict.fromkeys(("estimate", "exact", "cost"), price if blocks is None else _of_units(price, blocks))
    asked = {name: price for name, price in known.items() if name in parameters and parameters[name].default is None}
    if objective is not None and not asked:
        raise InputError(
            f"objective = {objective.name!r} has no effect on this planner, which is given no cost of plans; "
            "annealing, brute and spp_plus are"
        )
    if asked:
        compile_fair_sharing()
    return asked


def _of_units(price: Price, blocks: Blocks) -> Price:
    return lambda plan: price(blocks.expanded(plan))


def simulated_seconds(  # noqa: PLR0917 - what prices depend on
    costs: Costs,
    cluster: Cluster,
    plan: Plan,
    schedules: Sequence[str] = SCHEDULES,
    host_memory: HostMemory = None,
    below: float = inf,
    *,
    split: bool = False,
) -> float:
    """Seconds of an iteration on the contended network (fair sharing), with the best of these schedules.

    With those that suit its layout where devices have several stages; `split`: with those that split backwards, too.
    Infinite where they are more than `below`: a run is given up as soon as that is known. Large programs run while
    the next is made, on another core: then they are given up later, which does not change the least.
    """
    least, schedules = inf, _suited(plan, schedules, split=split)
    running: Future[float] | None = None
    for setup in _orders_of(costs, cluster, plan, schedules, host_memory):
        program, before = lower(setup), running
        run, threads = functools.partial(_run_by, program, min(below, least)), kernel_threads()
        running = threads.submit(run) if threads is not None and len(program) >= LARGE else None
        if running is None:
            least = min(least, run())
        if before is not None:
            least = min(least, before.result())
    return least if running is None else min(least, running.result())


def _suited(plan: Plan, schedules: Sequence[str], *, split: bool) -> Sequence[str]:
    if len(groups_of(plan)) == len(plan.stages):
        return (*schedules, *SPLITTING) if split else schedules
    layout = next((one for one in CHUNKED if has_layout(plan, one)), None)
    if layout is None:
        return ()
    return (*CHUNKED[layout], *CHUNKED_SPLITTING[layout]) if split else CHUNKED[layout]


def _orders_of(
    costs: Costs, cluster: Cluster, plan: Plan, schedules: Sequence[str], host_memory: HostMemory
) -> Iterator[Setup]:
    """The plan with each of these schedules that orders its replicas; each order once."""
    limits.check_tasks(host_memory, plan)
    seen = list[Schedule]()
    alone = len(groups_of(plan)) == len(plan.stages)
    for scheduler in map(_scheduler, schedules):
        if plan.replicas not in info_of(scheduler, SchedulerInfo).replicas:
            continue
        try:
            schedule = scheduler(plan, costs, cluster)
        except ScheduleError:
            if alone:
                raise
            continue  # some take only so many chunks, or microbatches
        if schedule not in seen:
            seen.append(schedule)
            yield Setup(plan, schedule, costs, cluster)


@functools.cache
def _scheduler(name: str) -> Callable[..., Schedule]:
    return lookup.resolve(name, SCHEDULERS, "scheduler")


def _best_order(
    costs: Costs, cluster: Cluster, plan: Plan, schedules: Sequence[str], host_memory: HostMemory
) -> tuple[float, int, Setup]:
    """The seconds of the best of these schedules, its number, and the plan with it."""
    made = _orders_of(costs, cluster, plan, schedules, host_memory)
    return min((_run(lower(setup)), number, setup) for number, setup in enumerate(made))


def _run_by(program: Program, below: float) -> float:
    """Seconds of an iteration; infinite where they are more than `below`."""
    if below == inf:
        return _run(program)
    end_by: Callable[[Program, int], int | None] = lookup.function_named(
        "pipesim.engines.compiled:end_by", ENGINES, "engine"
    )
    end = end_by(program, math.ceil(below * units.NS_PER_S) + 1)  # rounding must not refuse what takes just so long
    seconds = inf if end is None else units.to_s(end)
    return seconds if seconds <= below else inf


def _run(program: Program) -> float:
    engine = lookup.function_named("compiled", ENGINES, "engine")  # planners have imported numba already
    return metrics.iteration_time(engine(program))


def drawn_seconds(
    objective: Objective, costs: Costs, cluster: Cluster, plan: Plan, host_memory: HostMemory = None
) -> float:
    """The objective of a plan, with the schedule that is best for median times."""
    setup = _best_order(costs, cluster, plan, SCHEDULES, host_memory)[2]
    limits.check_draws(host_memory, plan.microbatches, len(costs.model))
    program, (draw, _) = lower(setup), draw_of(costs, objective.draw)
    seconds = [
        _run(redraw(program, setup, rng=np.random.default_rng(number), jitter=objective.jitter, draw=draw))
        for number in range(ITERATIONS)
    ]
    return OBJECTIVES[objective.name](np.array(seconds))


def estimated_seconds(
    costs: Costs,
    cluster: Cluster,
    plan: Plan,
    below: float = inf,
    host_memory: HostMemory = None,
    *,
    split: bool = False,
) -> float:
    """As `simulated_seconds` with two schedules; very many microbatches are extrapolated linearly."""
    price = functools.partial(
        simulated_seconds, costs, cluster, schedules=SCHEDULES[:2], host_memory=host_memory, split=split
    )
    if plan.microbatches <= 2 * FEW:
        return price(plan, below=below)
    short, longer = (price(replace(plan, microbatches=count)) for count in (FEW, 2 * FEW))
    return longer + (plan.microbatches - 2 * FEW) * (longer - short) / FEW
