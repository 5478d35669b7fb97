"""From the measurements of all ranks to one Trace, with a sentence about how much of the work it covers."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from pipesim.base import units
from pipesim.base.arrays import Floats, Ints
from pipesim.base.checks import check_not_negative, check_whole
from pipesim.base.errors import InputError
from pipesim.base.tables import Table
from pipesim.core.trace import Trace
from pipesim.importers.kineto.layer_measurements import LayerMeasurements
from pipesim.importers.kineto.layer_ranges import WAYS, kind_of, ranges_there
from pipesim.importers.kineto.work_pieces import AGAIN, BACKWARD, FORWARD

_FEW = 3


@dataclass(frozen=True, slots=True)
class Attribution:
    """How much of the recorded work belongs to layers; seconds over all iterations and ranks."""

    share: float
    layers_s: float
    all_s: float
    optimizer_s: float
    aside_s: float
    aside: tuple[str, ...]
    outside_s: float
    how: tuple[str, ...]
    ranks: int
    iterations: int
    left_out: int
    microbatches: int

    def __str__(self) -> str:
        several = f" of {self.microbatches} microbatches" if self.microbatches > 1 else ""
        left = f" ({self.left_out} left out, which call other layers)" if self.left_out else ""
        ways = " and ".join(dict.fromkeys(self.how))
        plural = "" if self.iterations == 1 else "s"
        ranks = f" of {self.ranks} ranks" if self.ranks > 1 else ""
        iterations = f"{self.iterations} iteration{plural}{ranks}{several}{left}"
        return f"{100 * self.share:.1f} % of the work is that of layers ({ways}); {iterations}{self._not_counted()}"

    def _not_counted(self) -> str:
        """Work that is neither that of layers nor missing from them."""
        found = []
        if self.aside_s:
            names = ", ".join(self.aside[:_FEW]) + (", ..." if len(self.aside) > _FEW else "")
            found.append(f"{self.aside_s:.3g} s of data moved or made around the model ({names}; option moves)")
        if self.outside_s:
            found.append(f"{self.outside_s:.3g} s outside of iterations (option iteration)")
        return f"; not counted: {' and '.join(found)}" if found else ""


@dataclass(frozen=True, slots=True)
class TraceOptions:
    """The options for the trace itself; `kineto` describes them."""

    samples: int
    backward_factor: float | None
    device: str
    at_least: float

    def __post_init__(self) -> None:
        check_whole("samples", self.samples)
        if self.backward_factor is not None:
            check_not_negative("backward_factor", self.backward_factor)
        if not 0 <= self.at_least <= 1:
            raise InputError(f"at_least = {self.at_least} found; a share from 0 to 1 was expected")


def attribution_of(found: Sequence[LayerMeasurements]) -> Attribution:
    """The attribution over all ranks."""
    layers, every, optimizer, aside, outside = (
        units.to_s(sum(getattr(one, f"{name}_ns") for one in found))
        for name in ("layers", "all", "optimizer", "aside", "outside")
    )
    return Attribution(
        share=layers / every if every else 0.0,
        layers_s=layers,
        all_s=every,
        optimizer_s=optimizer,
        aside_s=aside,
        aside=tuple(dict.fromkeys(name for one in found for name in one.aside)),
        outside_s=outside,
        how=tuple(one.how if one.how in WAYS else "by name" for one in found),
        ranks=len(found),
        iterations=sum(one.samples // one.microbatches for one in found),
        left_out=sum(one.left_out for one in found),
        microbatches=found[0].microbatches,
    )


def trace_of(name: str, found: Sequence[LayerMeasurements], transfers: Table, terms: TraceOptions) -> Trace:
    """One trace from the layers of all ranks."""
    attribution = attribution_of(found)
    _check_share(attribution, found, terms.at_least)
    backward, note = _backward(found, terms.backward_factor)
    alike = all(one.names == found[0].names for one in found)
    if not alike:
        _check_apart(found)
    parts, first, sample = [], 0, 0
    for one, backward_s in zip(found, backward, strict=True):
        parts.append(_rows(one, backward_s, first, sample, terms.device))
        first, sample = (0, sample + one.samples) if alike else (first + len(one.names), 0)
    layers = {column: np.concatenate([part[column] for part in parts]) for column in parts[0]}
    for column in ("output_bytes", "stash_bytes", "parameter_bytes"):
        layers[column] = _most(layers["layer"], layers[column])
    machine = ", ".join(dict.fromkeys(text for one in found for text in (one.events.device, one.events.host) if text))
    return Trace(name, f"kineto: {attribution}{note}", terms.samples, layers, transfers, machine)


def _check_share(attribution: Attribution, found: Sequence[LayerMeasurements], at_least: float) -> None:
    if attribution.all_s == 0:
        raise InputError(
            f"{found[0].events.path}: its iterations contain no work; define them with the option iteration"
        )
    if attribution.share < at_least:
        raise InputError(
            f"{found[0].events.path}: {attribution}; at least {100 * at_least:g} % was expected. Define layers "
            "(layers, depth) and iterations (iteration), or accept less (at_least), as in --format "
            f"'kineto(at_least={int(100 * attribution.share) / 100:g})'; {ranges_there(found[0].events)}"
        )


def _check_apart(found: Sequence[LayerMeasurements]) -> None:
    """Refuse ranks with some layers in common, but not the same ones."""
    for one, other in combinations(found, 2):
        common = [name for name in one.names if name in set(other.names)]
        if common:
            apart = [name for name in (*one.names, *other.names) if name not in common]
            differ = f"{apart[0]!r} ({len(apart)} in all) not" if apart else "not in the same order"
            raise InputError(
                f"{one.events.path} and {other.events.path} have layers in common, such as {common[0]!r} "
                f"({len(common)} in all), and {differ}; ranks with the same layers (more samples), or with different "
                f"ones (parts of one model), were expected. Define layers so that it is either, such as "
                f'--format "kineto(layers={"|".join(map(re.escape, common[:2]))!r})", or import each file by itself'
            )


def _backward(found: Sequence[LayerMeasurements], factor: float | None) -> tuple[list[Floats], str]:
    """Seconds of the backward of each rank, [layer, sample], with recomputed forwards; and a note on its origin."""
    if any(one.ns[[BACKWARD, AGAIN]].any() for one in found):
        return [(one.ns[BACKWARD] + one.ns[AGAIN]) / units.NS_PER_S for one in found], _again(found)
    times = factor or 0.0
    note = (
        f"backward not recorded, taken as {times:g} x forward"
        if factor
        else "no backward was recorded (option backward_factor)"
    )
    return [one.ns[FORWARD] / units.NS_PER_S * times for one in found], f"; {note}"


def _again(found: Sequence[LayerMeasurements]) -> str:
    return "; recomputed forwards are part of the backward" if any(one.ns[AGAIN].any() for one in found) else ""


def _rows(one: LayerMeasurements, backward_s: Floats, first: int, sample: int, device: str) -> Table:
    """One row for each layer and sample of a rank."""
    layer, number = (axis.ravel() for axis in np.indices((len(one.names), one.samples)))
    kinds = [kind_of(name) for name in one.names]
    sizes = one.sizes
    return {
        "layer": layer + first,
        "name": np.array(one.names, object)[layer],
        "kind": np.array(kinds, object)[layer],
        "device_kind": np.full(len(layer), device, object),
        "sample": number + sample,
        "forward_s": one.ns[FORWARD].ravel() / units.NS_PER_S,
        "backward_s": backward_s.ravel(),
        "output_bytes": sizes.output[layer],
        "parameter_bytes": sizes.parameters[layer],
        "stash_bytes": sizes.stash[layer],
    }


def _most(layer: Ints, values: Ints) -> Ints:
    """For each row the most that any row of its layer has."""
    most = np.zeros(int(layer.max()) + 1, np.int64)
    np.maximum.at(most, layer, values)
    return most[layer]
