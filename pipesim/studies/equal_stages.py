"""Schedules without a trace: equal stages on a ring of devices, with given seconds."""

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from pipesim.analysis import metrics
from pipesim.analysis.schedule_diff import differences
from pipesim.base import lookup, moved, units
from pipesim.base.checks import check_at_least
from pipesim.base.errors import InputError, PipesimError, within
from pipesim.core import legality, limits
from pipesim.core import plan as plans
from pipesim.core.cluster import Cluster, Device, Link
from pipesim.core.costs import Costs
from pipesim.core.limits import HostMemory
from pipesim.core.members import SchedulerInfo, info_of
from pipesim.core.model import Layer, Model
from pipesim.core.plan import Plan, Stage
from pipesim.core.schedule import Schedule, text_of
from pipesim.core.timeline import Timeline
from pipesim.core.trace import ANY_KIND
from pipesim.engines import by_name
from pipesim.lowering import DEFAULTS, Options, Setup, lower
from pipesim.schedulers import SCHEDULERS
from pipesim.schedulers.layouts import laid_out
from pipesim.schedulers.table_layout import plan_of_table
from pipesim.studies.ordering import is_table, ordered_with

MOST_STAGES = 4096
WIDE = 1e15  # bytes per second; messages have no bytes and take the time of a hop
ONE_BYTE = 1.0  # activations of a microbatch on a stage, so that memory counts microbatches


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds of one microbatch on one stage, and of a message from device to device."""

    forward: float = 1.0
    backward: float = 2.0
    input_grad: float = 1.0
    weight_grad: float = 1.0
    hop: float = 0.0

    def __post_init__(self) -> None:
        for name in ("forward", "backward", "input_grad", "weight_grad", "hop"):
            value = getattr(self, name)
            if not 0 <= value <= units.to_s(units.LONGEST_NS):
                raise InputError(f"{name} = {value} s found; 0 s to 146 years was expected")

    def scaled(self, factor: float) -> "Times":
        """Stages that take so many times as long; messages do not."""
        names = ("forward", "backward", "input_grad", "weight_grad")
        return replace(self, **{name: getattr(self, name) * factor for name in names})

    @classmethod
    def of(
        cls,
        forward: float = 1.0,
        backward: float | None = None,
        input_grad: float | None = None,
        weight_grad: float | None = None,
        hop: float = 0.0,
    ) -> "Times":
        """All times, missing ones derived: a backward is the sum of its parts, and each part half of it."""
        if backward is None:
            backward = 2 * forward if input_grad is None and weight_grad is None else None
        if input_grad is None:
            whole = backward if backward is not None else 2 * (weight_grad or 0.0)
            input_grad = whole / 2 if weight_grad is None else max(whole - weight_grad, 0.0)
        if weight_grad is None:
            weight_grad = input_grad if backward is None else max(backward - input_grad, 0.0)
        return cls(forward, input_grad + weight_grad if backward is None else backward, input_grad, weight_grad, hop)


def setup(  # noqa: PLR0917 - what is explored, in the order in which one asks
    scheduler: str,
    stages: int,
    microbatches: int,
    times: Times,
    chunks: int | None = None,
    options: Options = DEFAULTS,
    host_memory: HostMemory = None,
) -> Setup:
    """A schedule for `stages` devices as a case to simulate; `chunks` stages on each where one may choose.

    A file with a table states its own size: 0 for `stages` and `microbatches` takes it, other numbers must be the same.
    """
    if is_table(scheduler):
        return _setup_of_table(scheduler, stages, microbatches, times, options, host_memory)
    check_at_least("stages", stages, 1)
    plans.check_microbatches(microbatches)
    scheduler, shape, count = chunked(scheduler, chunks)
    if stages * count > MOST_STAGES:
        raise InputError(f"{stages} x {count} stages found; {MOST_STAGES} at most were expected")
    costs, cluster = _costs(stages * count, times), _ring(stages, times.hop)
    parts = tuple(Stage(n * count, (n + 1) * count, (f"rank{n}",)) for n in range(stages))
    plan = Plan("equal stages", stages * count, microbatches, parts, planner="equal stages")
    if shape:
        plan = laid_out(plan, costs, cluster, "loop", count, scheduler)
    plan, schedule = ordered_with(scheduler, plan, costs, cluster, options, host_memory)
    return Setup(plan, schedule, costs, cluster, options)


def _setup_of_table(  # noqa: PLR0917 - as `setup`
    path: str, stages: int, microbatches: int, times: Times, options: Options, host_memory: HostMemory
) -> Setup:
    """The table of a file, with the stages on the ranks that it has them on."""
    plan, schedule = _read(path)
    with within(path):
        found = {"stages": (len(schedule), stages), "microbatches": (plan.microbatches, microbatches)}
        for name, (has, asked) in found.items():
            if asked and has != asked:
                unit = "ranks" if name == "stages" else name
                raise InputError(f"a table of {has} {unit} found; --{name} {asked} was expected")
        limits.check_tasks(host_memory, plan, parts=3)
        legality.check(schedule, plan)
    costs, cluster = _costs(plan.layers, times), _ring(len(schedule), times.hop)
    return Setup(plan, schedule, costs, cluster, options)


def size_of_table(path: str) -> tuple[int, int]:
    """The ranks and microbatches of a file's table."""
    plan, schedule = _read(path)
    return len(schedule), plan.microbatches


def _read(path: str) -> tuple[Plan, Schedule]:
    """The table of a file, and a plan for it."""
    table = Schedule.load(path)
    with within(path):
        return plan_of_table(table)


def _chunks_of(scheduler: str, chunks: int | None = None) -> int:
    """The stages on each device."""
    if is_table(scheduler):
        plan, schedule = _read(scheduler)
        return max(len(plan.stages) // len(schedule), 1)
    return chunked(scheduler, chunks)[2]


def stage_factor(scheduler: str, other: str, chunks: int | None = None) -> float:
    """How many times as long stages of the other schedule take, for the same work on each device."""
    return _chunks_of(scheduler, chunks) / _chunks_of(other, chunks)


def chunked(scheduler: str, chunks: int | None) -> tuple[str, bool, int]:
    """The scheduler with its number of chunks, whether the layout is made here, and the number of chunks."""
    name, _, keywords = lookup.parse_member(scheduler, SCHEDULERS, "scheduler")
    function = lookup.resolve(scheduler, SCHEDULERS, "scheduler")
    info = info_of(function, SchedulerInfo)
    if info.layout is None:
        check_at_least("chunks", 1 if chunks is None else chunks, 1)
        return scheduler, (chunks or 1) > 1, chunks or 1
    option, unit = info.chunks_option, info.chunks
    if chunks is not None and option and option not in keywords:
        if chunks % unit or chunks < 1:
            raise InputError(f"chunks = {chunks} found; {name} takes a multiple of {unit}")
        keywords[option] = chunks // unit
        scheduler = f"{name}({', '.join(f'{key}={value!r}' for key, value in keywords.items())})"
    count = unit * (lookup.defaults_of(function) | keywords)[option] if option else unit
    check_at_least(option or "chunks", count, 1)
    if chunks not in {None, count}:
        raise InputError(f"chunks = {chunks} found; {scheduler} has {count}")
    return scheduler, False, count


def _costs(layers: int, times: Times) -> Costs:
    one = np.ones(layers)
    seconds = {
        "forward": times.forward,
        "backward": times.backward,
        "backward_first": times.backward,
        "backward_input": times.input_grad,
        "backward_weight": times.weight_grad,
        "recompute": times.forward,
    }
    model = Model("equal stages", 1, tuple(Layer(f"stage {n}", 0, 0, ONE_BYTE) for n in range(layers)))
    samples: Any = {phase: one * value for phase, value in seconds.items()}
    return Costs(model, ((ANY_KIND, 1),), samples, np.arange(layers)[None], np.ones((1, layers), np.int64))


def _ring(devices: int, hop: float) -> Cluster:
    """A ring of devices."""
    names = [f"rank{n}" for n in range(devices)]
    pairs = dict.fromkeys(tuple(sorted((n, (n + 1) % devices))) for n in range(devices if devices > 1 else 0))
    links = tuple(Link(names[a], names[b], WIDE, hop) for a, b in pairs)
    return Cluster("ring", tuple(Device(name, "any", name, 0) for name in names), links)


def exploration(made: Setup, timeline: Timeline) -> dict[str, Any]:
    """A schedule as `pipesim schedule --json` prints it."""
    devices = timeline.program.devices
    return {
        "makespan": metrics.iteration_time(timeline),
        "longest_stage": units.to_s(metrics.longest_stage(timeline)),
        "bubble": metrics.bubble(timeline),
        "peak_in_flight": dict(zip(devices, metrics.in_flight(timeline).tolist(), strict=True)),
        "peak_memory": dict(zip(devices, metrics.peak_memory(timeline).tolist(), strict=True)),
        "stages": len(made.plan.stages),
        "microbatches": made.plan.microbatches,
        "transfers": int((timeline.program.lane < 0).sum()),
        "engine": timeline.engine,
        "table": str(made.schedule).split("\n"),
    }


def beside(made: Setup, other: Setup, name: str, timeline: Timeline, factor: float) -> dict[str, Any]:
    """What another schedule of the same size does otherwise, as `pipesim schedule --against` shows it."""
    return {
        "scheduler": name,
        "stage_factor": factor,
        "makespan": metrics.iteration_time(timeline),
        "bubble": metrics.bubble(timeline),
        "ranks": [asdict(one) for one in differences(made.schedule, other.schedule)],
    }


def with_messages(made: Setup) -> str:
    """The text form with sends and receives."""
    return text_of(legality.with_messages(made.schedule, made.plan))


def family() -> dict[str, str]:
    """Every scheduler with the first line of its documentation."""
    functions = {name: lookup.function_named(name, SCHEDULERS, "scheduler") for name in SCHEDULERS}
    return {name: (function.__doc__ or "").split("\n", 1)[0] for name, function in functions.items()}


def gallery_rows(found: dict[str, Timeline | str]) -> list[dict[str, Any]]:
    """The numbers of a gallery, or the reason for their absence."""
    rows: list[dict[str, Any]] = []
    for name, made in found.items():
        if isinstance(made, str):
            rows.append({"scheduler": name, "error": made})
            continue
        count = len(np.unique(made.program.stage)) / len(made.program.devices)
        rows.append(
            {
                "scheduler": name,
                "makespan": metrics.iteration_time(made),
                "longest_stage": units.to_s(metrics.longest_stage(made)),
                "bubble": metrics.bubble(made),
                "peak_memory": float(metrics.peak_memory(made).max() / count),
                "transfers": int((made.program.lane < 0).sum()),
            }
        )
    return rows


def gallery(  # noqa: PLR0917 - as `setup`
    stages: int,
    microbatches: int,
    times: Times,
    options: Options = DEFAULTS,
    schedulers: tuple[str, ...] = (),
    host_memory: HostMemory = None,
) -> dict[str, Timeline | str]:
    """Timelines of all schedulers (or these) for equal work per device, or the error.

    A device's work is the same for all: where it holds several stages, each takes its part of the stated seconds.
    """
    found: dict[str, Timeline | str] = {}
    for name in schedulers or tuple(SCHEDULERS):
        try:
            part = times.scaled(1 / _chunks_of(name))
            found[name] = by_name.run(lower(setup(name, stages, microbatches, part, None, options, host_memory)))
        except PipesimError as error:
            found[name] = str(error)
    return found


__getattr__ = moved.renamed(__name__, {"case": f"{__name__}:setup"})
