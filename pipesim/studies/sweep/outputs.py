"""The numbers that a sweep keeps of each point, by name."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

from pipesim.analysis import metrics
from pipesim.base import lookup, units
from pipesim.base.errors import InputError, shown, within
from pipesim.core.timeline import Timeline
from pipesim.lowering import Setup
from pipesim.studies.results import SimulationResult
from pipesim.studies.sweep.functions import check_form, is_own

Value = int | float | str | bool | None

_MOST_BITS = 63  # of a whole number in a store


@dataclass(frozen=True, eq=False)
class PointResult:
    """The result of a point, with what several metrics are computed from."""

    of: SimulationResult

    @property
    def setup(self) -> Setup:
        """What was lowered."""
        return self.of.setup

    @property
    def timeline(self) -> Timeline:
        """What the engine computed, perhaps of what represents others."""
        return self.of.played

    @cached_property
    def bubble(self) -> dict[str, float]:
        """Idle time under its three definitions."""
        return metrics.bubble(self.timeline)

    @cached_property
    def spent(self) -> dict[str, int]:
        """Nanoseconds of the path of the last microbatch by what they are spent on."""
        return metrics.last_microbatch_path(self.timeline).spent

    def statistic(self, name: str) -> float:
        """A number of the iterations with drawn times."""
        if self.of.replay is None:
            raise InputError("needs iterations with drawn times, and iterations are not given")
        value: float = self.of.replay[name]
        return value


def _gap(result: PointResult) -> float | None:
    bound = result.of.bound
    return result.of.iteration_time / bound - 1 if bound else None


def _replicas(result: PointResult) -> str:
    """How many devices each stage has: "4", or "2,2,1", equal neighbours as "2x4" (two devices, four times)."""
    runs = [(count, len(list(stages))) for count, stages in groupby(result.setup.plan.replication)]
    return ",".join(f"{count}x{times}" if times > 1 else str(count) for count, times in runs)


def _least_headroom(result: PointResult) -> int | None:
    program = result.timeline.program
    room = program.memory - metrics.peak_memory(result.timeline)
    return int(room[program.memory > 0].min()) if (program.memory > 0).any() else None


def _training(result: PointResult, name: str) -> float | None:
    """The days or GPU-hours of the tokens of a point; None where it has none, or samples have unknown ones."""
    found: dict[str, float | None] = result.of.as_performance()["training"] or {}
    return found.get(name)


def _busiest_link(result: PointResult) -> float:
    busy = metrics.link_busy(result.timeline)
    return float(busy.max(initial=0)) / max(result.timeline.makespan, 1)


METRICS: dict[str, Callable[[PointResult], Value]] = {
    "iteration_time_s": lambda r: r.of.iteration_time,
    "measured_low_s": lambda r: r.of.interval.low * r.of.iteration_time,
    "measured_high_s": lambda r: r.of.interval.high * r.of.iteration_time,
    "throughput_samples_per_s": lambda r: metrics.throughput(r.timeline),
    "throughput_per_device": lambda r: metrics.throughput(r.timeline) / len(r.setup.cluster.devices),
    "bubble_idle_share": lambda r: r.bubble["idle_share"],
    "bubble_longest_stage": lambda r: r.bubble["longest_stage"],
    "bubble_actual_over_ideal": lambda r: r.bubble["actual_over_ideal"],
    "global_batch": lambda r: r.of.performance.global_batch,
    "tokens_per_s": lambda r: r.of.performance.tokens_per_s,
    "tokens_per_s_per_gpu": lambda r: r.of.performance.tokens_per_s_per_gpu,
    "flops_per_s_per_gpu": lambda r: r.of.performance.flops_per_s_per_gpu,
    "mfu": lambda r: r.of.performance.mfu,
    "hfu": lambda r: r.of.performance.hfu,
    "training_days": lambda r: _training(r, "days"),
    "training_gpu_hours": lambda r: _training(r, "gpu_hours"),
    "layout": lambda r: str(r.of.performance.layout),
    "flops_utilisation": lambda r: metrics.flops_utilisation(r.timeline),
    "peak_memory_bytes": lambda r: int(metrics.peak_memory(r.timeline).max()),
    "memory_headroom_bytes": _least_headroom,
    "fits_memory": lambda r: r.of.fits_memory,
    "plan_stages": lambda r: len(r.setup.plan.stages),
    "plan_replicas": _replicas,
    "plan_objective_s": lambda r: r.setup.plan.objective_s,
    "devices_in_cluster": lambda r: len(r.setup.cluster.devices),
    "devices_in_plan": lambda r: len(r.setup.plan.gpus),
    "parameters_bytes": lambda r: int(r.setup.costs.model.parameter_bytes.sum()),
    "tasks": lambda r: r.timeline.program.represented,
    "bound_s": lambda r: r.of.bound,
    "layout_bound_s": lambda r: r.of.layout_bound,
    "schedule_bound_s": lambda r: r.of.schedule_bound,
    "gap_to_bound": _gap,
    "channel_time_s": lambda r: r.of.channel_time,
    "exposed_communication_s": lambda r: units.to_s(metrics.exposed_communication(r.timeline).max()),
    "exposed_all_reduce_s": lambda r: units.to_s(metrics.exposed_all_reduce(r.timeline).max()),
    "busiest_link_share": _busiest_link,
    "moved_bytes": lambda r: float(r.timeline.moved.sum()),
    "bytes_out_of_nodes": lambda r: metrics.bytes_out_of_nodes(r.timeline, r.setup.cluster),
    **{
        f"critical_{name}_s": lambda r, name=name: units.to_s(r.spent[name])  # type: ignore[misc]  # a default that binds
        for name in metrics.CATEGORIES
    },
    **{
        f"replay_{name}": lambda r, name=name: r.statistic(name)  # type: ignore[misc]  # as above
        for name in "mean_s ci95_low_s ci95_high_s p50_s p95_s p99_s min_s max_s".split()  # noqa: SIM905 - names read best in one line
    },
}
USUAL = [
    "iteration_time_s",
    "measured_low_s",
    "measured_high_s",
    "throughput_samples_per_s",
    "throughput_per_device",
    "bubble_idle_share",
    "peak_memory_bytes",
    "fits_memory",
    "plan_stages",
    "plan_replicas",
]
USUAL_OF_REPLAYS = ["replay_mean_s", "replay_ci95_low_s", "replay_ci95_high_s", "replay_p50_s", "replay_p99_s"]


def column(name: str) -> str:
    """The column of a metric: its name, or that of a user's function."""
    return name.rpartition(":")[2]


def check(names: Sequence[str], *, replays: bool) -> None:
    """Refuse metrics that are unknown, given twice, or need iterations where there are none."""
    for index, name in enumerate(names):
        with within(f"[{index}]"):
            if ":" not in name and name not in METRICS:
                raise InputError(f"unknown metric {shown(name)}; {lookup.suggest(name, list(METRICS))}")
            if is_own(name):
                check_form(name)
            if name.startswith("replay_") and not replays:
                raise InputError(f"{name!r} needs iterations, and neither [simulate] nor [grid] has iterations")
            if column(name) in [column(other) for other in names[:index]]:
                raise InputError(f"duplicate {column(name)!r}")


def measured(names: Sequence[str], result: PointResult) -> list[Value]:
    """The metrics of a result; a user's function is given the setup and the timeline."""
    found: list[Value] = []
    for name in names:
        if name in METRICS:
            value = METRICS[name](result)
        else:
            value = lookup.function_named(name, {}, "metric")(result.setup, result.timeline)
        found.append(_plain(name, value))
    return found


def _plain(name: str, value: object) -> Value:
    """A number as Python has it, or text: what a store keeps exactly."""
    item = getattr(value, "item", None)
    plain = item() if item is not None else value
    if plain is not None and not isinstance(plain, bool | int | float | str):
        raise InputError(f"metric {name!r} gave {shown(plain)}; a number, text or None was expected")
    if isinstance(plain, int) and plain.bit_length() > _MOST_BITS:
        raise InputError(f"metric {name!r} gave {shown(plain)}; a number of at most {_MOST_BITS} bits was expected")
    return writable(plain) if isinstance(plain, str) else plain


def writable(text: str) -> str:
    """Text that a file can hold: what is no character is written as its number."""
    return text.encode("utf-8", "backslashreplace").decode()
