"""Times of layers: seconds by phase, device kind and share of a microbatch.

    phases      forward, backward (whole), backward_input + backward_weight (split), backward_first, recompute, and
                core: what selective recomputation does again, the core of attention
    widths      of the team that works on a layer; one Costs is for one of them, `at` gives those of another
    share       the part of a microbatch that one replica works on: 1 alone, 1/k when k replicas split it

Seconds are linear in the share if a trace has one microbatch size, and interpolated between the recorded sizes if it
has several (outside them, in proportion to the nearest). With scaling `linear` they are always linear in the share, as
the SPP paper assumes: half of a microbatch takes half the recorded time of the whole.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np

from pipesim.base.arrays import Floats, Ints
from pipesim.base.checks import check_one_of
from pipesim.base.errors import InputError
from pipesim.core.model import Model, model_of
from pipesim.core.teams import Widths
from pipesim.core.trace import ANY_KIND, Trace

Phase = Literal["forward", "backward", "backward_first", "backward_input", "backward_weight", "recompute", "core"]
Statistic = Literal["median", "mean", "min", "max"]
Scaling = Literal["recorded", "linear"]
Basis = Literal["recorded", "computed", "stated"]

PHASES: tuple[Phase, ...] = (
    "forward",
    "backward",
    "backward_first",
    "backward_input",
    "backward_weight",
    "recompute",
    "core",
)
SCALINGS: tuple[Scaling, ...] = ("recorded", "linear")
STATISTICS: dict[Statistic, Callable[..., Floats]] = {
    "median": np.median,
    "mean": np.mean,
    "min": np.min,
    "max": np.max,
}

# In floating point, a share of 1/49 of 49 samples is not exactly one sample.
_ROUNDING = 1e-12


class Origin(NamedTuple):
    """Where times are from: what a headline has before the kinds of device, and after them."""

    before: str = "times of "
    after: str = ""
    computed: bool = False  # at the widths that are used, which are named before `after`
    timed_at: Widths | None = None  # where times at other widths are scaled from these; they are named at the end


@dataclass(frozen=True, eq=False)
class Costs:
    """Seconds of every layer of a model. Samples are in one column per phase, grouped by (recorded size, layer).

    `groups` lists the recorded (device kind, microbatch size); samples of group g and layer l are
    `samples[phase][first[g, l] : first[g, l] + count[g, l]]`.
    """

    model: Model
    groups: tuple[tuple[str, int], ...]
    samples: dict[Phase, Floats]
    first: Ints
    count: Ints
    statistic: Statistic = "median"
    weight_share: float | None = None
    """The part of a backward that is assumed to be the gradient of the weights; None if both parts were recorded."""
    scaling: Scaling = "recorded"
    others: Mapping[Widths, "Costs"] = field(default_factory=dict)
    """The costs at the other widths that the trace has."""
    notes: tuple[str, ...] = ()
    joint: str = ""
    """What samples of the same number have in common in all layers, as in `Trace.samples`."""
    origin: Origin = field(default_factory=Origin)
    """Where times are from."""
    basis: Basis = "recorded"
    """How times were found: recorded, computed with constants of the kind of device, or at a speed that was stated."""

    @property
    def widths(self) -> Widths:
        """The widths of the teams that these times are for."""
        return self.model.widths

    def at(self, widths: Widths) -> "Costs":
        """The costs at these widths, which the trace must have."""
        if widths == self.widths:
            return self
        if widths in self.others:
            return self.others[widths]
        known = "; ".join(map(str, (self.widths, *self.others)))
        raise InputError(_no_widths(self.model.name, widths, known))

    def among(self, widths: Iterable[Widths]) -> "Costs":
        """The costs for the first of these widths, with the others of them."""
        first, *others = dict.fromkeys(widths)
        if first == self.widths and set(others) == set(self.others):
            return self
        others_at = {each: self.at(each) for each in others}
        return replace(self.at(first), others=others_at, origin=self.origin, basis=self.basis, notes=self.notes)

    @cached_property
    def kinds(self) -> tuple[str, ...]:
        """The device kinds that have times."""
        return tuple(dict.fromkeys(kind for kind, _ in self.groups))

    @cached_property
    def _table(self) -> dict[Phase, Floats]:
        """The statistic of every group and layer: phase -> [group, layer]."""
        return {phase: self._summary(values) for phase, values in self.samples.items()}

    def _summary(self, values: Floats) -> Floats:
        function = STATISTICS[self.statistic]
        per_layer = int(self.count.flat[0])
        if (self.count == per_layer).all():
            return np.asarray(function(values.reshape(*self.count.shape, per_layer), axis=2), np.float64)
        rows = zip(self.first.flat, self.count.flat, strict=True)
        return np.array([function(values[a : a + n]) for a, n in rows]).reshape(self.count.shape)

    def forward(self, kind: str, share: float = 1.0) -> Floats:
        """Seconds of each layer's forward."""
        return self.seconds("forward", kind, share)

    def backward(self, kind: str, share: float = 1.0) -> Floats:
        """Seconds of each layer's whole backward."""
        return self.seconds("backward", kind, share)

    def seconds(self, phase: Phase, kind: str, share: float = 1.0) -> Floats:
        """Seconds of each layer in a phase, for this share of a microbatch on this kind of device."""
        (group, weight), *more = self._mix(kind, share)
        table = self._table[phase]
        found: Floats = table[group] * weight
        for other, part in more:
            found = found + table[other] * part
        return found

    def seconds_of(self, kind: str, share: float, start: int, stop: int) -> dict[Phase, float]:
        """Seconds of the layers start to stop - 1 in every phase; kept, since plans have most stages in common."""
        key = kind, share, start, stop
        if key not in self._sums:
            self._sums[key] = {
                phase: float(self.seconds(phase, kind, share)[start:stop].sum()) for phase in self.samples
            }
        return self._sums[key]

    @cached_property
    def _sums(self) -> dict[tuple[str, float, int, int], dict[Phase, float]]:
        return {}

    def draw(self, phase: Phase, kind: str, share: float, times: int, rng: np.random.Generator) -> Floats:
        """As `seconds`, with the time of each layer drawn from its samples: [draw, layer]."""
        drawn: Floats = np.zeros((times, len(self.model)))
        for group, weight in self._mix(kind, share):
            chosen = rng.integers(0, self.count[group], (times, len(self.model)))
            drawn += self.samples[phase][self.first[group] + chosen] * weight
        return drawn

    def draw_at(self, phase: Phase, kind: str, share: float, place: Floats) -> Floats:
        """As `seconds`, with the sample of each layer at a place of its samples, from 0 to below 1: [draw, layer]."""
        drawn: Floats = np.zeros(place.shape)
        for group, weight in self._mix(kind, share):
            chosen = (place * self.count[group]).astype(np.int64)
            drawn += self.samples[phase][self.first[group] + chosen] * weight
        return drawn

    def merged(self, model: Model, starts: Ints) -> "Costs":
        """The costs of a model whose layer n is the layers from starts[n] to before starts[n + 1] of this one."""
        samples = {phase: np.add.reduceat(table, starts, axis=1).ravel() for phase, table in self._table.items()}
        shape = (len(self.groups), len(starts))
        first = np.arange(shape[0] * shape[1], dtype=np.int64).reshape(shape)
        return replace(self, model=model, samples=samples, first=first, count=np.ones(shape, np.int64))

    def _mix(self, kind: str, share: float) -> list[tuple[int, float]]:
        """The recorded groups, with their weights, whose sum is the time of this share of a microbatch."""
        if self.scaling == "linear":
            return [(group, weight * share) for group, weight in self._mix_of(kind, self.model.microbatch_size)]
        return self._mix_of(kind, share * self.model.microbatch_size)

    def _mix_of(self, kind: str, samples: float) -> list[tuple[int, float]]:
        """As `_mix`, for a number of samples: the group of that size, or of the sizes below and above."""
        if (kind, samples) not in self._mixes:
            self._mixes[kind, samples] = self._new_mix(kind, samples)
        return self._mixes[kind, samples]

    @cached_property
    def _mixes(self) -> dict[tuple[str, float], list[tuple[int, float]]]:
        return {}

    def _new_mix(self, kind: str, samples: float) -> list[tuple[int, float]]:
        name = self.recorded_kind(kind)
        groups = [(size, g) for g, (recorded, size) in enumerate(self.groups) if recorded == name]
        whole = round(samples)
        wanted = whole if abs(samples - whole) < _ROUNDING * samples else samples
        below = max((pair for pair in groups if pair[0] <= wanted), default=None)
        above = min((pair for pair in groups if pair[0] >= wanted), default=None)
        if below is None or above is None or below == above:
            size, group = below or above or groups[0]
            return [(group, wanted / size)]
        part = (wanted - below[0]) / (above[0] - below[0])
        return [(below[1], 1 - part), (above[1], part)]

    def has_kind(self, kind: str) -> bool:
        """Whether there are times for devices of this kind."""
        return kind in self.kinds or ANY_KIND in self.kinds

    def recorded_kind(self, kind: str) -> str:
        """The recorded kind that applies to devices of this kind."""
        if kind in self.kinds:
            return kind
        if ANY_KIND in self.kinds:
            return ANY_KIND
        raise InputError(
            f"the cluster has devices of kind {kind!r}; the trace of {self.model.name!r} has times for "
            f"{', '.join(self.kinds)} (name the cluster's kind with device=..., or use a trace for {kind})"
        )

    @cached_property
    def is_curved(self) -> bool:
        """Whether any kind was timed at several sizes, so that times may not be linear in the share."""
        return len(self.groups) > len(self.kinds)

    @property
    def is_random(self) -> bool:
        """Whether any layer has more than one sample to draw from."""
        return bool((self.count > 1).any())


def costs_of(
    trace: Trace,
    microbatch_size: int | None = None,
    statistic: Statistic = "median",
    weight_share: float = 0.5,
    scaling: Scaling = "recorded",
    *,
    widths: Widths | None = None,
) -> Costs:
    """The costs in a trace, for microbatches of the given size and widths of teams (default: the trace's own).

    Where only whole backwards were recorded, `weight_share` of each is assumed to be the gradient of the weights.
    `scaling` is how the time of a share of a microbatch is derived: as `recorded`, or as that share of the whole
    (`linear`).

    >>> costs = ps.costs_of(ps.load_trace("bert-large"))
    >>> print(f"{costs.forward('v100-16gb').sum() * 1e3:.2f} ms")
    23.58 ms
    """
    check_one_of("scaling", scaling, SCALINGS)
    check_one_of("statistic", statistic, STATISTICS)
    if not 0 <= weight_share <= 1:
        raise InputError(f"weight_share {weight_share} found; 0 to 1 was expected")
    known = trace.widths
    wanted = known[0] if widths is None else widths
    if wanted not in known:
        raise InputError(_no_widths(trace.model, wanted, "; ".join(map(str, known))))
    every = {each: _costs_at(trace, microbatch_size, statistic, weight_share, scaling, each) for each in known}
    return replace(every.pop(wanted), others=every)


def _no_widths(model: str, widths: Widths, known: str) -> str:
    typed = "".join(f" --{name}-parallel {width}" for name, width in widths.by_name.items() if width > 1)
    ways = f"record it at those widths and state them: `pipesim record MODULE:FACTORY{typed}`"
    if widths.context == widths.expert == 1:  # models are computed at tensor widths only
        ways += f"; compute it: `pipesim trace NAME --device KIND{typed} -o FOLDER`; or name a model: model:NAME"
    if widths.expert == 1:
        ways += "; or scale the times that there are: --scale-widths (scale_widths=True)"
    return f"the trace of {model!r} was timed at: {known}; {widths} found ({ways})"


def _costs_at(  # noqa: PLR0917 - as costs_of
    trace: Trace,
    microbatch_size: int | None,
    statistic: Statistic,
    weight_share: float,
    scaling: Scaling,
    widths: Widths,
) -> Costs:
    model, at = model_of(trace, microbatch_size, widths), trace.rows_at(widths)
    table = {name: column[at] for name, column in trace.layers.items()}
    names = list(zip(table["device_kind"].tolist(), table["microbatch_size"].tolist(), strict=True))
    groups = tuple(dict.fromkeys(names))
    number = {name: g for g, name in enumerate(groups)}
    slot = np.array([number[name] for name in names]) * len(model) + table["layer"]
    order = np.lexsort((table["sample"], slot))
    count = np.bincount(slot, minlength=len(groups) * len(model)).astype(np.int64)
    first = np.concatenate([[0], np.cumsum(count)[:-1]]).astype(np.int64)
    samples, split = _phases({name: table[name][order] for name in table if name.endswith("_s")}, weight_share)
    shape = (len(groups), len(model))
    weights = None if split else weight_share
    return Costs(
        model, groups, samples, first.reshape(shape), count.reshape(shape), statistic, weights, scaling,
        notes=(*trace.notes, *trace.lacking), joint=trace.samples,
    )  # fmt: skip


def _phases(recorded: dict[str, Floats], weight_share: float) -> tuple[dict[Phase, Floats], bool]:
    """The samples of every phase, and whether all backwards were recorded in two parts."""
    whole, inputs, weights = (recorded[f"{name}_s"] for name in ("backward", "backward_input", "backward_weight"))
    split = bool(not np.isnan(inputs).any())
    backward = np.where(np.isnan(whole), inputs + weights, whole)
    weights = np.where(np.isnan(weights), backward * weight_share, weights)
    inputs = np.where(np.isnan(inputs), backward - weights, inputs)
    first, again, core = recorded["backward_first_s"], recorded["recompute_s"], recorded["core_recompute_s"]
    return {
        "forward": recorded["forward_s"],
        "backward": backward,
        "backward_first": np.where(np.isnan(first), backward, first),
        "backward_input": inputs,
        "backward_weight": weights,
        "recompute": np.where(np.isnan(again), recorded["forward_s"], again),
        "core": np.where(np.isnan(core), 0.0, core),
    }, split
