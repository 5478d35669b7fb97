"""Costs of training a part of a model: frozen layers, and low-rank adapters (LoRA) beside frozen matrices.

    layer                                       forward   gradient of inputs   of weights    keeps, recomputes
    trained                                     yes       where any layer      yes           yes
    frozen, after a trained one                 yes       that it depends on   no            yes
    frozen, before the first trained one        yes       is trained: no       no            nothing

Frozen parameters have no gradient and no optimizer state, and replicas exchange nothing of them. LoRA freezes all, and
puts A (k to r values) and B (r to n) beside matrices of k x n: r(k + n) parameters, products of 2mr(k + n) FLOPs for m
rows, and in addition mr values that are kept. What a GPU of a team has of the matrix, it has of the adapter's wide
side. The exchange of the r values of a row within a team is left out.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cached_property
from typing import NamedTuple

import numpy as np

from pipesim.architectures import efficiency_names, operations
from pipesim.architectures.device_curves import DeviceCurve, Speed
from pipesim.base import lookup
from pipesim.base.arrays import Floats
from pipesim.base.errors import InputError, UnknownNameError, quoted
from pipesim.core.costs import Costs, Phase
from pipesim.core.devices import device_kind
from pipesim.core.model import Layer, Model
from pipesim.core.trace import Trace
from pipesim.core.work import Kernels, Operation, Product
from pipesim.studies.simulation import Simulation, defaults
from pipesim.studies.traced_models import builder

ALL = "all-linear"
DEFAULT_TARGETS = "q_proj;v_proj"  # of PEFT, for Llama
# The matrices of attention and mlp, as PEFT names those of Llama, and as Megatron-LM has them, in one product each.
SYNONYMS = {"c_attn": "linear_qkv", "query_key_value": "linear_qkv", "c_fc": "linear_fc1", "out_proj": "o_proj"}


class AdaptedMatrix(NamedTuple):
    """`copies` matrices of k x n values that each multiply m rows."""

    m: int
    n: int
    k: int
    copies: int = 1


def trained_part(costs: Costs, trace: Trace, simulation: Simulation) -> Costs:
    """The costs with what the simulation does not train left out, at all widths."""
    if simulation.frozen is None and simulation.lora_rank is None:
        return costs
    others = {widths: _trained_at(other, trace, simulation) for widths, other in costs.others.items()}
    return replace(_trained_at(costs, trace, simulation), others=others)


def _trained_at(costs: Costs, trace: Trace, simulation: Simulation) -> Costs:
    model = costs.model
    if simulation.lora_rank is not None:
        adapters = _Adapters(costs, trace, simulation)
        trained = [bool(found) for found in adapters.matrices(model.microbatch_size)]
        part = _Trained(model, trained, base=False)
        return adapters.added_to(replace(costs, model=part.model, samples=part.samples(costs)))
    frozen = _frozen(model, str(simulation.frozen))
    part = _Trained(model, [not one for one in frozen], base=True)
    note = f"{sum(frozen)} of {len(model)} layers are frozen; the first that is trained is {part.first}"
    return replace(costs, model=part.model, samples=part.samples(costs), notes=(*costs.notes, note))


def _frozen(model: Model, text: str) -> list[bool]:
    """Which layers names or globs mean, divided by semicolons; each must mean at least one, and not all together."""
    names = [layer.name for layer in model.layers]
    patterns = [pattern.strip() for pattern in text.split(";") if pattern.strip()]
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise UnknownNameError(
                f"frozen: {quoted(pattern)} is no layer of {model.name!r}; {lookup.suggest(pattern, names)}"
            )
    found = [any(fnmatchcase(name, pattern) for pattern in patterns) for name in names]
    if not patterns or all(found):
        raise InputError(f"frozen = {text!r} found; layers by name or glob were expected, but not all of them")
    return found


class _Trained:
    """What is computed and kept of each layer; `base`: whether a trained layer's own parameters are."""

    def __init__(self, model: Model, trained: Sequence[bool], *, base: bool) -> None:
        self._before, self._base = model, base
        has_parameters = model.parameter_bytes > 0
        known = bool(has_parameters.any())
        self._trained = [one and (not base or not known or bool(has_parameters[n])) for n, one in enumerate(trained)]
        needed: list[bool] = []
        for n, own in enumerate(self._trained):
            needed.append(own or any(needed[source] for source in model.inputs(n)))
        self._needed = needed
        if not any(needed):
            raise InputError("frozen: no layer that is trained has parameters")

    @property
    def first(self) -> str:
        """The name of the first trained layer."""
        return self._before.layers[self._trained.index(True)].name

    @cached_property
    def model(self) -> Model:
        """The model, in which frozen parameters are marked."""
        return replace(self._before, layers=tuple(map(self._layer, range(len(self._before)))))

    def _layer(self, n: int) -> Layer:
        layer, needed = self._before.layers[n], self._needed[n]
        backward = None if layer.forward_flops is None else layer.forward_flops * sum(self._parts(n))
        return replace(
            layer,
            frozen_bytes=0 if self._trained[n] and self._base else layer.parameter_bytes,
            stash_bytes=layer.stash_bytes * needed,
            core_stash_bytes=layer.core_stash_bytes * needed,
            has_gradient=needed,
            backward_flops=backward,
        )

    def _parts(self, n: int) -> tuple[bool, bool]:
        """Whether the gradients of a layer's inputs are computed, and those of its weights.

        A layer that reads data has no gradient of its inputs; what it does backward is for its weights.
        """
        weights, sources = self._trained[n] and self._base, self._before.inputs(n)
        return (any(self._needed[source] for source in sources) if sources else weights), weights

    def samples(self, costs: Costs) -> dict[Phase, Floats]:
        """Seconds of each phase, of what is computed."""
        layer = _layers_of_samples(costs)
        inputs, weights = np.array([self._parts(n) for n in range(len(self._before))], float)[layer].T
        needed = np.array(self._needed, float)[layer]
        found = dict(costs.samples)
        both = found["backward_input"] + found["backward_weight"]
        left = found["backward_input"] * inputs + found["backward_weight"] * weights
        ratio = np.divide(left, both, out=np.maximum(inputs, weights), where=both > 0)
        found |= {name: found[name] * ratio for name in ("backward", "backward_first")}
        found |= {"backward_input": found["backward_input"] * inputs}
        found |= {"backward_weight": found["backward_weight"] * weights}
        return found | {name: found[name] * needed for name in ("recompute", "core")}


def _layers_of_samples(costs: Costs) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    """The layer of each sample, group after group."""
    layers = np.tile(np.arange(len(costs.model)), len(costs.groups))
    return np.repeat(layers, costs.count.ravel())


# --- adapters --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Adapters:
    """Low-rank adapters of a model whose matrices are known."""

    costs: Costs
    trace: Trace
    simulation: Simulation

    @property
    def rank(self) -> int:
        """The values between A and B."""
        return self.simulation.lora_rank or 0

    @cached_property
    def _build(self) -> Callable[[int], Model]:
        """The model for a number of samples, with the work of its layers."""
        found = builder(self.trace, self.costs.widths)
        if found is None:
            raise InputError(
                f"lora_rank: the matrices of {self.trace.model!r} are not known; a trace of a model that `pipesim show "
                "architectures` lists was expected"
            )
        return found

    def matrices(self, samples: int) -> list[list[AdaptedMatrix]]:
        """The matrices of each layer that have an adapter, for so many samples."""
        made = self._build(samples)
        if [layer.name for layer in made.layers] != [layer.name for layer in self.costs.model.layers]:
            raise InputError(f"lora_rank: the trace of {made.name!r} has other layers than its model")
        named = [_named(layer) for layer in made.layers]
        known = list(dict.fromkeys(name for layer in named for name in layer))
        wanted = [SYNONYMS.get(one.strip(), one.strip()) for one in self._targets.split(";") if one.strip()]
        for one in wanted:
            if one != ALL and one not in known:
                raise UnknownNameError(f"lora_targets: {made.name!r} has no {quoted(one)}; it has {', '.join(known)}")
        return [_chosen(layer, wanted) for layer in named]

    @property
    def _targets(self) -> str:
        return self.simulation.lora_targets or DEFAULT_TARGETS

    def added_to(self, costs: Costs) -> Costs:
        """The costs of the frozen model with those of its adapters."""
        value, model = operations.value_bytes(costs.model.precision or "fp32"), costs.model
        matrices = self.matrices(model.microbatch_size)
        layers = tuple(self._layer(model, n, found, value) for n, found in enumerate(matrices))
        made = replace(model, layers=layers)
        number = sum(layer.parameter_bytes - layer.frozen_bytes for layer in layers) / value
        note = (
            f"adapters of rank {self.rank} on {self._targets.replace(';', ', ')}: {number:,.0f} parameters are trained"
        )
        note += " on each GPU of a team" if costs.widths.tensor > 1 else ""
        return replace(costs, model=made, samples=self._samples(costs), notes=(*costs.notes, note))

    def _layer(self, model: Model, n: int, matrices: Sequence[AdaptedMatrix], value: int) -> Layer:
        layer = model.layers[n]
        if not matrices:
            return layer
        values = sum(self.rank * (one.k + one.n) * one.copies for one in matrices)
        kept = sum(one.m * self.rank * one.copies for one in matrices)
        flops, back = (self._flops(matrices, all_of=one) for one in (True, _needs_inputs(model, n)))
        return replace(
            layer,
            parameter_bytes=layer.parameter_bytes + values * value,
            stash_bytes=layer.stash_bytes + kept * value,
            forward_flops=None if layer.forward_flops is None else layer.forward_flops + flops,
            backward_flops=None if layer.backward_flops is None else layer.backward_flops + flops + back,
        )

    def _flops(self, matrices: Sequence[AdaptedMatrix], *, all_of: bool) -> float:
        """FLOPs of the products with A and B; or only with B."""
        return float(sum(2 * one.m * self.rank * (one.k * all_of + one.n) * one.copies for one in matrices))

    def _samples(self, costs: Costs) -> dict[Phase, Floats]:
        """Seconds of each phase with those of adapters; of devices that are not known, in proportion to FLOPs."""
        found = {phase: values.copy() for phase, values in costs.samples.items()}
        for g, (kind, samples) in enumerate(costs.groups):
            speed = self._speed(kind)
            for n, matrices in enumerate(self.matrices(samples)):
                if not matrices:
                    continue
                here = slice(costs.first[g, n], costs.first[g, n] + costs.count[g, n])
                needs_inputs = _needs_inputs(costs.model, n)
                if speed:
                    seconds = self._with_speed(matrices, speed, needs_inputs=needs_inputs)
                else:
                    seconds = self._in_proportion(n, matrices, here, needs_inputs=needs_inputs)
                for phase, parts in _PHASES.items():
                    found[phase][here] += sum(seconds[part] for part in parts)
        return found

    def _speed(self, kind: str) -> Speed | None:
        """The curve of a kind of device; None where it is not known, or has no times by operation."""
        chosen, precision = self.simulation.efficiency, self.trace.precision
        text = chosen if isinstance(chosen, str) else str(defaults()["efficiency"])
        try:
            device = device_kind(kind)
            curve = efficiency_names.named(text).on(device.name, precision)
        except (InputError, UnknownNameError):
            return None
        if not isinstance(curve, DeviceCurve) or precision not in device.peak:
            return None
        return Speed.of(curve, device, precision, operations.value_bytes(precision))

    def _with_speed(self, matrices: Sequence[AdaptedMatrix], speed: Speed, *, needs_inputs: bool) -> dict[str, float]:
        """Seconds of each part; where no gradient of the inputs is needed, only that of the values between A and B."""
        made = [_operations(matrix, self.rank, speed.value) for matrix in matrices]
        every = [one for own in made for one in own]
        back = every if needs_inputs else [own[1] for own in made]
        return {
            "forward": sum(speed.seconds(one, "forward") for one in every),
            "backward_input": sum(speed.seconds(one, "backward_input") for one in back),
            "backward_weight": sum(speed.seconds(one, "backward_weight") for one in every),
        }

    def _in_proportion(
        self, n: int, matrices: Sequence[AdaptedMatrix], here: slice, *, needs_inputs: bool
    ) -> dict[str, float]:
        """As many seconds for a FLOP as the layer takes forward."""
        whole = self.costs.model.layers[n].forward_flops
        each = float(np.median(self.costs.samples["forward"][here])) / whole if whole else 0.0
        flops, back = (self._flops(matrices, all_of=one) for one in (True, needs_inputs))
        return {"forward": flops * each, "backward_input": back * each, "backward_weight": flops * each}


_BACK = ("backward_input", "backward_weight")
_PHASES: Mapping[Phase, tuple[str, ...]] = {
    "forward": ("forward",), "recompute": ("forward",), "backward": _BACK, "backward_first": _BACK,
    "backward_input": ("backward_input",), "backward_weight": ("backward_weight",),
}  # fmt: skip


def _operations(matrix: AdaptedMatrix, rank: int, value: int) -> list[Operation]:
    """Two narrow products, and their result added to that of the matrix; likewise the gradient of the inputs."""
    m, n, k, copies = matrix
    return [
        Product(m, rank, k, copies),
        Product(m, n, rank, copies),
        Kernels(3 * value * m * n * copies, 3 * value * m * k * copies),
    ]


def _needs_inputs(model: Model, n: int) -> bool:
    """Whether the gradient of a layer's inputs is needed."""
    return any(model.layers[source].has_gradient for source in model.inputs(n))


def _named(layer: Layer) -> dict[str, AdaptedMatrix]:
    """The matrices of a layer by the names of its modules; those of other layers than attention and mlp by number."""
    made = layer.work.operations if layer.work else ()
    products = [
        AdaptedMatrix(one.m, one.n, one.k, one.count) for one in made if isinstance(one, Product) and one.weights
    ]
    if "." not in layer.name:  # embedding, norm and head have none, as in PEFT
        return {}
    if layer.kind == "attention" and len(products) == 2:
        qkv, out = products
        keys = (qkv.n - out.k) // 2
        narrow = {"q_proj": out.k, "k_proj": keys, "v_proj": keys}
        return {name: qkv._replace(n=n) for name, n in narrow.items()} | {
            "o_proj": out, "linear_qkv": qkv, "linear_proj": out
        }  # fmt: skip
    if layer.kind == "mlp" and len(products) == 2:
        first, down = products
        halves = {"gate_proj": first._replace(n=down.k)} if first.n == 2 * down.k else {}
        return halves | {
            "up_proj": first._replace(n=down.k), "down_proj": down, "linear_fc1": first, "linear_fc2": down
        }  # fmt: skip
    return {f"{layer.kind}.linear{n}": one for n, one in enumerate(products)}


def _chosen(named: Mapping[str, AdaptedMatrix], wanted: Sequence[str]) -> list[AdaptedMatrix]:
    """The matrices that are wanted; of all, each once."""
    if ALL in wanted:
        return [one for name, one in named.items() if not name.startswith("linear_")]
    return [one for name, one in named.items() if name in wanted]
