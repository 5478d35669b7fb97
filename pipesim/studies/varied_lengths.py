"""Times of a computed model for microbatches whose sequences differ in length.

Each layer is computed at a whole, a half and a quarter of the longest sequence; a parabola through the three gives
its time at any length x, as a part of the longest:

    t(x) = constant + linear x + quadratic x^2                       attention is the quadratic part

    padded   all samples of a microbatch are as long as its longest: t(longest)
    packed   sequences fill samples of full length: constant + linear + quadratic times the mean of the sums of x^2
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from pipesim.base.arrays import Floats
from pipesim.base.errors import InputError
from pipesim.core.sequence_lengths import SequenceLengths, packed
from pipesim.core.trace import Trace

MICROBATCHES = 200  # samples of the trace
_PARTS = (1, 2, 4)
_TIMES = (
    "forward_s", "backward_s", "backward_first_s", "backward_input_s", "backward_weight_s", "recompute_s",
    "core_recompute_s",
)  # fmt: skip


def varied(compute: Callable[[int | None], Trace], lengths: SequenceLengths, *, pack: bool) -> Trace:
    """The trace of a model with a sample for each of many drawn microbatches; `compute` gives that of one length."""
    whole = compute(None)
    longest = whole.sequence
    if longest < _PARTS[-1]:
        raise InputError(f"lengths: sequences of {longest} tokens found; a model of at least {_PARTS[-1]} was expected")
    traces = [whole, *(compute(longest // part) for part in _PARTS[1:])]
    at = np.array([trace.sequence / longest for trace in traces])
    powers = _powers(lengths, longest, whole.microbatch_size, pack=pack)
    columns = {name: np.repeat(values, MICROBATCHES) for name, values in whole.layers.items()}
    for name in _TIMES:
        times = np.stack([trace.layers[name] for trace in traces])
        parabola = np.linalg.solve(np.vander(at, 3, increasing=True), times)
        columns[name] = np.maximum(parabola.T @ powers, 0.0).ravel()
    columns["sample"] = np.tile(np.arange(MICROBATCHES), len(whole.layers["layer"]))
    how = f"packed into samples of {longest}" if pack else f"padded to the longest of a microbatch, at most {longest}"
    note = (
        f"times are those of {MICROBATCHES} microbatches with sequences from {lengths.name}, {how} tokens; messages "
        "and memory are those of full samples"
    )
    return replace(whole, layers=columns, samples="microbatch", notes=(*whole.notes, note))


def _powers(lengths: SequenceLengths, longest: int, samples: int, *, pack: bool) -> Floats:
    """What the constant, the linear and the quadratic part are multiplied by: [part, microbatch]."""
    rng = np.random.default_rng(0)  # a trace is the same whatever is drawn from it
    if not pack:
        drawn = lengths.draw(rng, MICROBATCHES * samples, longest).reshape(MICROBATCHES, samples)
        part = drawn.max(axis=1) / longest
        return np.stack([np.ones(MICROBATCHES), part, part**2])
    drawn = lengths.draw(rng, MICROBATCHES * samples * 8, longest)
    filled = packed(drawn, longest, MICROBATCHES * samples)
    squares = np.array([float(((parts / longest) ** 2).sum()) for parts in filled])
    return np.stack([np.ones(MICROBATCHES), np.ones(MICROBATCHES), squares.reshape(MICROBATCHES, samples).mean(axis=1)])
