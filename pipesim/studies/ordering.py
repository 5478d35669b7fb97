"""Schedulers by name: the stages of a plan in the layout of a scheduler, and its schedule."""

import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import suppress
from math import inf
from typing import Any

from pipesim.analysis import metrics
from pipesim.base import lookup
from pipesim.base.checks import check_whole
from pipesim.base.errors import DeadlockError, InputError, ScheduleError, within
from pipesim.core import legality, limits
from pipesim.core.cluster import Cluster
from pipesim.core.costs import Costs
from pipesim.core.granularity import Blocks
from pipesim.core.limits import HostMemory
from pipesim.core.members import Layout, SchedulerInfo, info_of
from pipesim.core.plan import Plan
from pipesim.core.schedule import Schedule
from pipesim.engines import ENGINES
from pipesim.lowering import DEFAULTS, Options, Setup, lower
from pipesim.schedulers import SCHEDULERS
from pipesim.schedulers.layouts import groups_of, has_layout, laid_out
from pipesim.schedulers.side_by_side import one_by_one
from pipesim.schedulers.table_layout import layout_of

Scheduler = Callable[..., Schedule]

LARGE = 20_000  # tasks; many schedules are compared, so the compiled engine pays earlier
FILES = (".csv", ".json", ".toml")
# Layouts, and stages per device, in addition to the plan itself, for schedulers that try every layout.
EVERY: tuple[tuple[Layout, int], ...] = (("loop", 2), ("wave", 2), ("both", 1))


def ordered_with(  # noqa: PLR0917 - the parameters are those of planners and schedulers
    scheduler: Scheduler | Schedule | str,
    plan: Plan,
    costs: Costs,
    cluster: Cluster,
    options: Options = DEFAULTS,
    host_memory: HostMemory = None,
    blocks: Blocks | None = None,
) -> tuple[Plan, Schedule]:
    """The plan in the layout of a scheduler, and the schedule; of several layouts the best.

    Where layers are cut again, it is between `blocks`, unless the plan cuts one. Refused in advance if it and its
    simulation would need more than `host_memory`, as estimated by `limits`.
    """
    found: list[tuple[tuple[float, float], int, Plan, Schedule]] = []
    info = _called(scheduler)[1]
    plans = list(layouts(scheduler, plan, costs, cluster, host_memory, blocks))
    for made in plans:
        parts = 3 if info.splits_backward else 2
        limits.check_tasks(host_memory, made, parts=parts, every_schedule=info.every_layout)
    for made in plans:
        schedule = schedule_with(scheduler, made, costs, cluster, options)
        if isinstance(scheduler, str) and (is_table(scheduler) or ":" in scheduler.partition("(")[0]):
            with named("scheduler", scheduler):  # so that the error names the file or function
                legality.check(schedule, made)
        if len(plans) == 1:
            return made, schedule
        found.append((judged(made, costs, cluster, options, schedule), len(found), made, schedule))
    _, _, plan, schedule = min(found, key=lambda it: it[:2])
    return plan, schedule


def layouts(  # noqa: PLR0917 - as above
    scheduler: Scheduler | Schedule | str,
    plan: Plan,
    costs: Costs,
    cluster: Cluster,
    host_memory: HostMemory = None,
    blocks: Blocks | None = None,
) -> Iterator[Plan]:
    """The plans that a scheduler orders in place of this one: itself, if it declares no layout.

    A function, in place of a name, is also given a plan in its layout with another number of chunks; so is a name that
    does not state its number, if the plan has several chunks on each device. A table gets the stages as it has them.
    """
    if is_table(scheduler):
        table = schedule_with(scheduler, plan, costs, cluster)
        found = layout_of(table) if len(table) == len(groups_of(plan)) else None
        with named("scheduler", scheduler):
            yield plan if found is None else _laid_out(plan, costs, cluster, *found, "the table", blocks)
        return
    name, info, keywords = _called(scheduler)
    if info.layout is not None and not (_is_free(scheduler, info, plan) and has_layout(plan, info.layout)):
        with named("scheduler", scheduler):
            chunks = info.chunks * _chunk_units(info.chunks_option, keywords)
            limits.check_chunks(host_memory, min(chunks * len(plan.devices), plan.layers), plan.layers)
            yield _laid_out(plan, costs, cluster, info.layout, chunks, name, blocks)
        return
    yield plan
    if info.every_layout and not keywords.get("among"):
        for other, chunks in EVERY:
            with suppress(ScheduleError):
                made = _laid_out(plan, costs, cluster, other, chunks, name, blocks)
                if made is not plan:
                    yield made


def _laid_out(  # noqa: PLR0917 - as `laid_out`
    plan: Plan, costs: Costs, cluster: Cluster, layout: Layout, chunks: int, name: str, blocks: Blocks | None
) -> Plan:
    """The plan itself, or one in this layout that cuts no block."""
    units = None if blocks is None else blocks.contracted(plan)
    if blocks is None or units is None:
        return laid_out(plan, costs, cluster, layout, chunks, name)
    with blocks.explained():
        made = laid_out(units, blocks.costs, cluster, layout, chunks, name)
    return plan if made is units else blocks.expanded(made)


def _is_free(scheduler: Scheduler | Schedule | str, info: SchedulerInfo, plan: Plan) -> bool:
    """Whether the number of chunks is that of the plan."""
    if not isinstance(scheduler, str):
        return callable(scheduler)
    stated = info.chunks_option in lookup.parse_member(scheduler, SCHEDULERS, "scheduler")[2]
    return bool(info.chunks_option) and not stated and len(plan.stages) > len(groups_of(plan))


def is_table(scheduler: Scheduler | Schedule | str) -> bool:
    """Whether it is a schedule or a file with one, and no function that makes one."""
    return isinstance(scheduler, Schedule) or (isinstance(scheduler, str) and scheduler.endswith(FILES))


def _called(scheduler: Scheduler | Schedule | str) -> tuple[str, SchedulerInfo, dict[str, Any]]:
    """The name of a scheduler, its declaration, and its options; a schedule and a file declare nothing."""
    if isinstance(scheduler, Schedule) or is_table(scheduler):
        return "", SchedulerInfo(), {}
    if isinstance(scheduler, str):
        name, _, keywords = lookup.parse_member(scheduler, SCHEDULERS, "scheduler")
        function = lookup.function_named(name, SCHEDULERS, "scheduler")
    else:
        function, keywords = getattr(scheduler, "func", scheduler), getattr(scheduler, "keywords", {})
        name = getattr(function, "__name__", "the scheduler")
    info = info_of(function, SchedulerInfo)
    return name, info, (lookup.defaults_of(function) if info.chunks_option else {}) | keywords


def takes_options(scheduler: str) -> bool:
    """Whether the schedule of a scheduler depends on options: it simulates, or several layouts are simulated for it."""
    name, info, _ = _called(scheduler)
    function = lookup.function_named(name, SCHEDULERS, "scheduler")
    return info.every_layout or "exact" in inspect.signature(function).parameters


def _chunk_units(option: str, keywords: dict[str, Any]) -> int:
    """The value of the option for the chunks of a device; 1 without such an option."""
    return check_whole(option, keywords[option]) if option else 1


def schedule_with(
    scheduler: Scheduler | Schedule | str, plan: Plan, costs: Costs, cluster: Cluster, options: Options = DEFAULTS
) -> Schedule:
    """The schedule of a scheduler, which may be a name, a function, a schedule, or a file."""
    if isinstance(scheduler, Schedule):
        return scheduler
    if isinstance(scheduler, str) and scheduler.endswith(FILES):
        return Schedule.load(scheduler)
    function: Scheduler = (
        lookup.resolve(scheduler, SCHEDULERS, "scheduler") if isinstance(scheduler, str) else scheduler
    )

    def made(plan: Plan, costs: Costs, cluster: Cluster, **judge: Any) -> Schedule:  # noqa: ANN401 - as the function
        schedule = function(plan, costs, cluster, **judge)
        if not isinstance(schedule, Schedule):
            raise InputError(f"returned a {type(schedule).__name__}; a Schedule was expected")
        return schedule

    with named("scheduler", scheduler):
        lookup.check_takes(function, "plan, costs, cluster")
        judge = _judge(function, plan, costs, cluster, options)
        # What is judged is the schedule of the whole plan: pipelines side by side share its links.
        return made(plan, costs, cluster, **judge) if judge else one_by_one(made, plan, costs, cluster)


def _judge(function: Scheduler, plan: Plan, costs: Costs, cluster: Cluster, options: Options) -> dict[str, Any]:
    """A scheduler with the option `exact` gets a function that simulates a schedule."""
    asked = inspect.signature(function).parameters.get("exact")
    if asked is None or asked.kind is not asked.KEYWORD_ONLY:
        return {}
    return {"exact": functools.partial(judged, plan, costs, cluster, options)}


def judged(plan: Plan, costs: Costs, cluster: Cluster, options: Options, schedule: Schedule) -> tuple[float, float]:
    """The most bytes by which a schedule exceeds the memory of a device, and the seconds of an iteration.

    One that never ends, as some do whose transfers block, is worse than any that does.
    """
    engine = lookup.function_named("auto", ENGINES, "engine")
    try:
        timeline = engine(lower(Setup(plan, schedule, costs, cluster, options)), large=LARGE)
    except DeadlockError:
        return inf, inf
    return float(metrics.memory_excess(timeline)), metrics.iteration_time(timeline)


def named(noun: str, member: object) -> Any:  # noqa: ANN401 - a context manager
    """Add the name of a member of a family to errors raised inside."""
    return lookup.calling(member, noun) if isinstance(member, str) else within(noun)
