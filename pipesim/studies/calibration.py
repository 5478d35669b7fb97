"""Measured iterations or profiles of a user's own devices -> constants of that kind of device.

    CSV        a line per iteration: fields of a simulation, iteration_s      simulated, with the plan of the start
    trace      recorded seconds of the layers of a model that is named        computed layer by layer

Each run is computed with the constants that are tried, from those of the kind's own or nearest generation on; those
with the least mean error without sign are kept. Few measurements determine few constants: `CONSTANTS` states how many.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pipesim.analysis import metrics
from pipesim.architectures import described
from pipesim.architectures.device_curves import DeviceCurve, curve_of
from pipesim.architectures.roofline import roofline
from pipesim.base import lookup, settings
from pipesim.base.arrays import Floats
from pipesim.base.errors import InputError, UnknownNameError, quoted, within
from pipesim.base.minimise import nelder_mead
from pipesim.core.calibrations import Calibration
from pipesim.core.costs import costs_of
from pipesim.core.devices import DEVICE_KINDS, device_kind
from pipesim.core.trace import Trace
from pipesim.engines import by_name
from pipesim.lowering import Setup, lower
from pipesim.studies import loading, setups, sources
from pipesim.studies.measured_table import MeasuredLine, measured_lines, table_text
from pipesim.studies.simulation import Simulation, simulation_of

# Least number of different layers measured -> the constants that are fitted; recorded layers count as many.
CONSTANTS: tuple[tuple[int, tuple[str, ...]], ...] = (
    (6, ("product", "memory", "launch_s")),
    (3, ("product", "memory")),
    (1, ("product",)),
)
ALL = ("product", "attention", "memory", "launch_s", "unaligned")
_EVALUATIONS = 40  # per constant


class Residual(NamedTuple):
    """One measurement: what it is, and its seconds, measured and computed."""

    label: str
    measured_s: float
    computed_s: float

    @property
    def error(self) -> float:
        """The relative error of what is computed."""
        return self.computed_s / self.measured_s - 1


@dataclass(frozen=True, slots=True)
class MeasuredRun:
    """MeasuredRun that one set of constants describes: of which kind, in which precision, how many are different."""

    source: str
    kind: str
    precision: str
    different: int
    computed: Callable[[DeviceCurve], list[Residual]]


@dataclass(frozen=True, slots=True)
class Calibrated:
    """The constants that were found, which of them were fitted, and all residuals with them and before."""

    calibration: Calibration
    fitted: tuple[str, ...]
    residuals: tuple[Residual, ...]
    before: tuple[Residual, ...]

    @property
    def mean_error(self) -> float:
        """Of all measurements, without sign."""
        return _mean(self.residuals)

    @property
    def mean_error_before(self) -> float:
        """With the constants that the kind has otherwise."""
        return _mean(self.before)


def calibrate(
    sources: Sequence[str],
    *,
    name: str | None = None,
    device: str | None = None,
    architecture: str | None = None,
    constants: Sequence[str] = (),
) -> Calibrated:
    """The constants of the kind of device that these runs were measured on.

    `device` is the kind whose data sheet counts where a trace names none that is known, `architecture` the model that a
    trace recorded, `constants` those to fit, by default as many as the measurements determine.
    """
    settings.check_names(constants, list(ALL), "constant")
    runs = [run for source in sources for run in _runs(source, device, architecture)]
    kind, precision = _common(runs)
    start = curve_of(kind, precision)
    if start is None:
        raise InputError(f"precision {precision!r}: operations are not timed apart; {', '.join(_timed(kind))} are")
    different = sum(run.different for run in runs)
    free = tuple(constants) or next(names for least, names in CONSTANTS if different >= least)
    curve = _fit(runs, start, free)
    before, after = (tuple(one for run in runs for one in run.computed(tried)) for tried in (start, curve))
    stated = f"{', '.join(free)} fitted on {len(after)} measurements of {', '.join(sources)}"
    source = f"{stated}; mean error {100 * _mean(after):.1f}%, worst {100 * max(abs(one.error) for one in after):.1f}%"
    values = {constant: float(f"{getattr(curve, constant):.4g}") for constant in ALL}
    made = Calibration(name or kind, kind, precision, **values, source=source)
    return Calibrated(made, free, after, before)


def _fit(runs: Sequence[MeasuredRun], start: DeviceCurve, free: Sequence[str]) -> DeviceCurve:
    def curve(logarithms: Floats) -> DeviceCurve:
        found = {name: math.exp(value) for name, value in zip(free, logarithms, strict=True)}
        return replace(start, **found)  # type: ignore[arg-type]  # its constants are numbers

    def cost(logarithms: Floats) -> float:
        tried = curve(logarithms)
        return math.fsum(_mean(run.computed(tried)) for run in runs) / len(runs)

    first = [math.log(max(getattr(start, name), 1e-9)) for name in free]
    return curve(nelder_mead(cost, first, evaluations=_EVALUATIONS * len(free))[0])


def _mean(residuals: Sequence[Residual]) -> float:
    return float(np.mean([abs(one.error) for one in residuals]))


def _common(runs: Sequence[MeasuredRun]) -> tuple[str, str]:
    """The kind and precision of all runs."""
    if not runs:
        raise InputError("no measurements found; a CSV file with iterations, or a recorded trace, was expected")
    found = sorted({(run.kind, run.precision) for run in runs})
    if len(found) > 1:
        listed = ", ".join(f"{kind} in {precision}" for kind, precision in found)
        raise InputError(f"{listed} found; one kind of device in one precision was expected")
    return found[0]


def _timed(kind: str) -> list[str]:
    return [precision for precision in device_kind(kind).peak if curve_of(kind, precision)]


def _runs(source: str, device: str | None, architecture: str | None) -> list[MeasuredRun]:
    """What a source holds: iterations in a CSV file with that column, else a trace."""
    with within(source):
        text = table_text(Path(source))
        if text is not None:
            return _iterations(source, text)
    return [_profile(source, loading.load_trace(source), device, architecture)]


# --- iterations ------------------------------------------------------------------------------------------------------


def _iterations(source: str, text: str) -> list[MeasuredRun]:
    """A run for each different kind and precision in a table."""
    groups: dict[tuple[str, str], list[_Iteration]] = {}
    for line in measured_lines(text):
        with within(f"line {line.number}"):
            one = _iteration(line)
        groups.setdefault((one.kind, one.precision), []).append(one)
    return [
        MeasuredRun(source, kind, precision, len({one.layers for one in rows}), partial(_residuals, rows))
        for (kind, precision), rows in groups.items()
    ]


def _residuals(rows: "list[_Iteration]", curve: DeviceCurve) -> list[Residual]:
    return [Residual(one.label, one.measured_s, one.seconds(curve)) for one in rows]


@dataclass(frozen=True)
class _Iteration:
    """A measured iteration: its simulation, set up once, and what its times depend on."""

    label: str
    measured_s: float
    simulation: Simulation
    setup: Setup
    kind: str
    precision: str

    @property
    def layers(self) -> str:
        """What its layers depend on: the model and its sizes."""
        model = self.setup.costs.model
        return f"{self.simulation.architecture or self.simulation.trace} {model.microbatch_size} {model.layers}"

    def seconds(self, curve: DeviceCurve) -> float:
        """The iteration with these constants, in the order and on the plan of the start."""
        simulation = replace(self.simulation, efficiency=_text(curve))
        trace = sources.trace_of(simulation, self.setup.cluster)
        costs = setups.costs_in(simulation, trace)
        setup = replace(self.setup, costs=costs, options=setups.options_of(simulation, trace))
        return metrics.iteration_time(by_name.run(lower(setup), simulation.engine))


def _text(curve: DeviceCurve) -> str:
    return f"device({', '.join(f'{name}={getattr(curve, name)!r}' for name in ALL)})"


def _iteration(line: MeasuredLine) -> _Iteration:
    simulation = simulation_of(**line.fields)
    setup = setups.setup_of(simulation)
    trace, slower = (
        sources.trace_of(replace(simulation, efficiency=efficiency), setup.cluster)
        for efficiency in ("device", "device(product=0.01)")
    )
    kinds = {device.kind for device in setup.cluster.devices}
    if len(kinds) > 1 or trace.same_as(slower):
        raise InputError("a model whose times are computed, on one kind of device, was expected")
    return _Iteration(line.label, line.measured_s, simulation, setup, kinds.pop(), trace.precision)


# --- recorded layers -------------------------------------------------------------------------------------------------


def _profile(source: str, trace: Trace, device: str | None, architecture: str | None) -> MeasuredRun:
    """Forward and backward of every layer of a recorded trace."""
    with within(source):
        if architecture is None:
            raise InputError("a recorded trace has no operations; name its model with architecture=..., as gpt2-xl")
        kind = _kind_of(trace, device)
        sizes = {"microbatch": trace.microbatch_size} | ({"precision": trace.precision} if trace.precision else {})
        model = described.model_called(architecture, sizes)
        costs = costs_of(trace)
        names = [layer.name for layer in costs.model.layers]
        _check_layers(names, [layer.name for layer in model.layers], architecture)
    recorded = trace.device_kinds[0]
    measured = (costs.forward(recorded), costs.backward(recorded))

    def computed(curve: DeviceCurve) -> list[Residual]:
        made = costs_of(roofline(model, [kind], efficiency=curve))
        ours = (made.forward(kind), made.backward(kind))
        return [
            Residual(f"{name} {phase}", float(theirs[n]), float(seconds[n]))
            for phase, theirs, seconds in zip(("forward", "backward"), measured, ours, strict=True)
            for n, name in enumerate(names)
            if theirs[n] > 0
        ]

    return MeasuredRun(source, kind, model.precision, CONSTANTS[0][0], computed)


def _check_layers(found: Sequence[str], expected: Sequence[str], architecture: str) -> None:
    for number, (one, other) in enumerate(zip_longest(found, expected, fillvalue="none")):
        if one != other:
            raise InputError(
                f"layer {number}: {one!r} found, where {quoted(architecture)} has {other!r}; "
                "a trace of the same layers was expected"
            )


def _kind_of(trace: Trace, device: str | None) -> str:
    """The kind with a data sheet on which a trace was recorded."""
    if device is not None:
        return device_kind(device).name
    try:
        return device_kind(trace.device_kinds[0]).name
    except UnknownNameError:
        known = lookup.suggest(trace.device_kinds[0], DEVICE_KINDS)
        raise UnknownNameError(
            f"recorded on {trace.device_kinds[0]!r}, which has no data sheet; name one with device=...; {known}"
        ) from None
