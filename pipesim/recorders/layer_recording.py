"""Recording the layers of a model: samples in a Trace, with checks and a list of what could not be measured.

Unreliable numbers are not written. The columns of a way of running that was always disturbed are empty, as are those of
a layer whose samples scatter too much. Forwards and backwards are required: without them, or if the layers do not add
up to the uninstrumented model, there is no trace.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from pipesim.base.arrays import Floats
from pipesim.base.errors import InputError, RefusedError, within
from pipesim.core.trace import OptimizerStep, Trace
from pipesim.recorders import machine_info
from pipesim.recorders.clock import DeviceClock, clock_of
from pipesim.recorders.measuring import OPTIONAL, Measurements, Settings, Watch, measure
from pipesim.recorders.model_sizes import ModelSizes, sizes
from pipesim.recorders.noise import scatter
from pipesim.recorders.optimizers import optimizer_steps
from pipesim.recorders.quiet import LIMIT, REAL, Clocks, gather
from pipesim.recorders.steady import steady
from pipesim.recorders.subjects import Subject, device_of, make_subject
from pipesim.recorders.torch_extra import require_torch
from pipesim.recorders.values import nbytes, tensors

if TYPE_CHECKING:
    import torch

SOURCE = "recorded"
# In optional columns, layers whose samples scatter more than this (MAD by median) are empty.
MOST_SCATTER = 0.25
DEFAULTS = Settings()


@dataclass(frozen=True, slots=True)
class Check:
    """The median times of a microbatch: of the uninstrumented model, and of the sum of its layers."""

    microbatch_size: int
    reference_s: float
    layers_s: float
    split: float | None = None
    """Both parts of split backwards over whole ones, the search of the graph left out; None: not measured."""

    @property
    def difference(self) -> float:
        """How much longer the layers take, as a share."""
        return self.layers_s / self.reference_s - 1


@dataclass(frozen=True, slots=True)
class NotMeasured:
    """What is empty, and why. Without `layers`: for all of them."""

    what: str
    microbatch_size: int
    why: str
    layers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class LayerRecording:
    """A trace, the checks that it passed, what is missing, and for each window the share of time without a core."""

    trace: Trace
    checks: tuple[Check, ...]
    not_measured: tuple[NotMeasured, ...]
    lost: tuple[float, ...]

    @property
    def disturbed(self) -> int:
        """How many windows were discarded."""
        return sum(share > LIMIT for share in self.lost)


@dataclass(frozen=True, slots=True)
class TraceLabels:
    """What a trace states about its origin; by default the factory's name and the name of the device."""

    name: str = ""
    device_kind: str = ""
    command: str = ""


NO_LABELS = TraceLabels()


def record(
    factory: Callable[..., Any],
    microbatch_sizes: Sequence[int],
    settings: Settings = DEFAULTS,
    *,
    device: str = "auto",
    labels: TraceLabels = NO_LABELS,
    clocks: Clocks | None = REAL,
    watch: Watch = lambda _: None,
) -> LayerRecording:
    """Record the model that a factory makes, for each microbatch size; the first is the trace's own.

    The factory's contract is documented in `pipesim.recorders`. `clocks` are those of the gate on the CPU; None: no
    gate. `watch` is called with the progress, as percent of a pass; each size has the passes of the settings.
    """
    require_torch("recording")
    if not microbatch_sizes or len(set(microbatch_sizes)) < len(microbatch_sizes):
        raise InputError(f"microbatch sizes {list(microbatch_sizes)} found; at least one was expected, each once")
    where = device_of(device)
    clock, gate = clock_of(where), clocks if where.type == "cpu" else None
    run = partial(_part, factory, device=where, clock=clock, settings=settings, clocks=gate, watch=watch)
    parts: list[_Part] = []
    with steady(settings.threads if where.type == "cpu" else None):
        for size in microbatch_sizes:
            with within(f"microbatch size {size}"):
                parts.append(run(size, {part.example_bytes: part.size for part in parts}))
        steps, missing, lost = _optimizers(parts[0].subject, clock, settings, gate)
    trace = Trace(
        labels.name or _factory_name(factory),
        SOURCE,
        microbatch_sizes[0],
        _table(parts, labels.device_kind or machine_info.device_kind(where)),
        machine=machine_info.machine(where, settings.threads),
        command=labels.command,
        precision=parts[0].subject.precision,
        optimizers=tuple(steps),
    )
    not_measured = (*(one for part in parts for one in part.not_measured), *missing)
    all_lost = (*(share for part in parts for share in part.measured.lost), *lost)
    return LayerRecording(trace, tuple(part.check for part in parts), not_measured, all_lost)


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """The recording at one microbatch size."""

    size: int
    subject: Subject
    sizes: ModelSizes
    measured: Measurements
    check: Check
    not_measured: tuple[NotMeasured, ...]

    @property
    def example_bytes(self) -> int:
        """Bytes of the example, which show whether it has as many samples as at another size."""
        return _example_bytes(self.subject)


def _part(
    factory: Callable[..., Any],
    size: int,
    before: Mapping[int, int],
    *,
    device: "torch.device",
    clock: DeviceClock,
    settings: Settings,
    clocks: Clocks | None,
    watch: Watch,
) -> _Part:
    subject = make_subject(factory, size, device)
    if settings.method == "loop" and not subject.is_chain:
        raise InputError("the factory returned a model beside its layers; --method hooks runs it, the loop does not")
    if (other := before.get(_example_bytes(subject))) is not None:
        raise InputError(f"the example is as large as at {other}; factory(microbatch=n) must make one of n samples")
    found = sizes(subject)
    measured = measure(subject, clock, settings, clocks, watch)
    check = _checked(measured, size, settings.tolerance)
    scattered = _blank_scattered(subject, measured, size)
    absent = [NotMeasured(column, size, why) for column, why in measured.missing.items()]
    return _Part(size, subject, found, measured, check, (*absent, *scattered))


def _example_bytes(subject: Subject) -> int:
    return sum(map(nbytes, tensors(subject.example)))


def _checked(measured: Measurements, size: int, tolerance: float) -> Check:
    """Refuse layers that do not add up to the uninstrumented model."""
    sums = (measured.columns["forward_s"] + measured.columns["backward_s"]).sum(axis=1)
    reference, layers = float(np.median(measured.reference)), float(np.median(sums))
    check = Check(size, reference, layers, _split_share(measured))
    if abs(check.difference) > tolerance:
        raise RefusedError(
            f"the layers do not add up: the model takes {check.reference_s:.6g} s for a microbatch, forward and "
            f"backward, and its layers one by one {check.layers_s:.6g} s, {check.difference:+.1%}; within "
            f"{tolerance:.0%} was expected. Larger microbatches, fewer and larger layers, or --method hooks may help"
        )
    return check


def _split_share(measured: Measurements) -> float | None:
    """What gradients of inputs and of weights take one after the other, over whole backwards; medians of all layers."""
    both = [measured.columns.get(name) for name in ("backward_input_s", "backward_weight_s")]
    if both[0] is None or both[1] is None:
        return None
    whole = float(np.median(measured.columns["backward_s"].sum(axis=1)))
    share = float(np.median((both[0] + both[1]).sum(axis=1))) / whole if whole else np.nan
    return share if np.isfinite(share) else None


def _blank_scattered(subject: Subject, measured: Measurements, size: int) -> list[NotMeasured]:
    """Empty the optional columns of layers whose samples scatter too much; both parts of a split together."""
    found = []
    ways = {way: [c for c, w in OPTIONAL.items() if w == way and c in measured.columns] for way in OPTIONAL.values()}
    for columns in filter(None, ways.values()):
        bad = np.any([scatter(measured.columns[column]) > MOST_SCATTER for column in columns], axis=0)
        for column in columns if bad.any() else ():
            measured.columns[column][:, bad] = np.nan
            layers = tuple(name for name, is_bad in zip(subject.names, bad, strict=True) if is_bad)
            found.append(NotMeasured(column, size, f"samples scatter by more than {MOST_SCATTER:.0%}", layers))
    return found


def _optimizers(
    subject: Subject, clock: DeviceClock, settings: Settings, clocks: Clocks | None
) -> tuple[list[OptimizerStep], list[NotMeasured], list[float]]:
    lost: list[float] = []

    def in_quiet(units: list[Callable[[], float]]) -> list[float | None]:
        gathered = gather(units, settings.patience_s, clocks)
        lost.extend(gathered.lost)
        return gathered.results

    samples = settings.passes * settings.microbatches
    steps, missing = optimizer_steps(subject, clock, samples, in_quiet)
    return steps, [NotMeasured(f"optimizer {name}", 0, "the machine was not quiet") for name in missing], lost


def _table(parts: Sequence[_Part], kind: str) -> dict[str, Any]:
    """Rows of a trace: size after size, sample after sample, layer after layer."""
    tables = [_part_table(part, kind) for part in parts]
    return {name: np.concatenate([table[name] for table in tables]) for name in tables[0]}


def _part_table(part: _Part, kind: str) -> dict[str, Any]:
    samples, layers = part.measured.columns["forward_s"].shape
    classes = [type(layer).__name__ for layer in part.subject.layers]

    def repeated(values: Sequence[Any]) -> Any:  # noqa: ANN401 - a column
        return np.tile(np.array(values, object if isinstance(values[0], str) else None), samples)

    empty: Floats = np.full((samples, layers), np.nan)
    seconds = {name: part.measured.columns.get(name, empty) for name in ("forward_s", "backward_s", *OPTIONAL)}
    return {
        "layer": repeated(range(layers)),
        "name": repeated(part.subject.names),
        "kind": repeated(classes),
        "device_kind": np.array([kind] * (samples * layers), object),
        "microbatch_size": np.full(samples * layers, part.size),
        "sample": np.repeat(np.arange(samples), layers),
        **{name: values.ravel() for name, values in seconds.items()},
        "forward_flops": repeated(part.sizes.forward_flops),
        "output_bytes": repeated(part.sizes.output_bytes),
        "parameter_bytes": repeated(part.sizes.parameter_bytes),
        "stash_bytes": repeated(part.sizes.stash_bytes),
    }


def _factory_name(factory: Callable[..., Any]) -> str:
    """The factory's own name."""
    return str(getattr(factory.func if isinstance(factory, partial) else factory, "__name__", "model"))
