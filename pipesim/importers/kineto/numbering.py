"""The layer and the sample of each call: iterations repeat a sequence of calls, and so do microbatches.

    iteration 0    a b c | a b c       sequence (a, b, c), 2 microbatches: samples 0 and 1
    iteration 1    a b c | a b c       samples 2 and 3
    iteration 2    a b                 cut off: left out

A name that occurs again within the sequence is another layer: block, block #2, ...
"""

from bisect import bisect_right
from collections import Counter, defaultdict
from dataclasses import dataclass

import numpy as np

from pipesim.base.arrays import Bools, Ints
from pipesim.base.checks import check_at_least
from pipesim.base.errors import InputError
from pipesim.importers.kineto.layer_ranges import Calls

Sequence = tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class NumberedCalls:
    """Calls with their layers and samples; `again`: whether a call recomputes a forward for the backward."""

    calls: Calls
    layer: Ints
    sample: Ints
    again: Bools
    names: Sequence  # of layers
    samples: int
    microbatches: int
    iterations: Ints  # which are used
    left_out: int


def number_calls(calls: Calls, again: Bools, steps: tuple[Ints, Ints], microbatches: int | None) -> NumberedCalls:
    """Number the calls of all iterations that run the most common sequence of layers."""
    step = _step_of(calls.start, steps)
    forward = calls.chosen((step >= 0) & ~again)
    sequences = _sequences(forward, _step_of(forward.start, steps))
    if not sequences:
        raise InputError("no layer is called inside the iterations; define them with the options layers and iteration")
    common = Counter(sequences.values()).most_common(1)[0][0]
    used = [number for number in sequences if sequences[number] == common]
    times = _times(common, microbatches)
    period = len(common) // times
    forward = forward.chosen(np.isin(_step_of(forward.start, steps), used))
    place = np.tile(np.arange(len(common)), len(used))
    sample = np.repeat(np.arange(len(used)), len(common)) * times + place // period
    calls, layer, sample, is_again = _with_recomputed(
        forward, place % period, sample, calls.chosen(again & np.isin(step, used))
    )
    names = _distinct(common[:period])
    iterations = np.array(used, np.int64)
    return NumberedCalls(
        calls, layer, sample, is_again, names, len(used) * times, times, iterations, len(sequences) - len(used)
    )


def _step_of(time: Ints, steps: tuple[Ints, Ints]) -> Ints:
    """The iteration around each of these times, or -1."""
    number = np.searchsorted(steps[0], time, side="right") - 1
    return np.where((number >= 0) & (time < steps[1][np.maximum(number, 0)]), number, -1)


def _sequences(forward: Calls, step: Ints) -> dict[int, Sequence]:
    """Iteration -> the layers that it calls, in order."""
    names: dict[int, list[str]] = defaultdict(list)
    for number, name in zip(step.tolist(), forward.names, strict=True):
        names[number].append(name)
    return {number: tuple(found) for number, found in sorted(names.items())}


def _times(sequence: Sequence, microbatches: int | None) -> int:
    """How many microbatches run this sequence: as stated, or the repetitions of a sequence of distinct names."""
    if microbatches is None:
        count = sequence.count(sequence[0])
        period = len(sequence) // count
        repeats = period > 1 and sequence == sequence[:period] * count and len(set(sequence[:period])) == period
        return count if repeats else 1
    check_at_least("microbatches", microbatches)
    period, rest = divmod(len(sequence), microbatches)
    if rest or sequence != sequence[:period] * microbatches:
        raise InputError(
            f"microbatches = {microbatches}: an iteration calls {len(sequence)} layers, which are not the same "
            f"sequence {microbatches} times"
        )
    return microbatches


def _distinct(names: Sequence) -> Sequence:
    seen: Counter[str] = Counter()
    found: list[str] = []
    for name in names:
        seen[name] += 1
        found.append(name if seen[name] == 1 else f"{name} #{seen[name]}")
    return tuple(found)


def _with_recomputed(forward: Calls, layer: Ints, sample: Ints, again: Calls) -> tuple[Calls, Ints, Ints, Bools]:
    """Forwards, then recomputing calls, each with the layer and sample of the last call of the same name before it."""
    by_name: dict[str, list[int]] = defaultdict(list)
    for number, name in enumerate(forward.names):
        by_name[name].append(number)
    starts = forward.start.tolist()
    of: list[int] = []
    kept: list[int] = []
    for number, (name, start) in enumerate(zip(again.names, again.start.tolist(), strict=True)):
        before = bisect_right(by_name[name], start, key=lambda call: starts[call])
        if before:
            of.append(by_name[name][before - 1])
            kept.append(number)
    again, source = again.chosen(np.array(kept, np.int64)), np.array(of, np.int64)
    both = Calls(
        np.append(forward.row, again.row),
        np.append(forward.start, again.start),
        np.append(forward.end, again.end),
        forward.names + again.names,
    )
    mark = np.arange(len(both.row)) >= len(forward.row)
    return both, np.append(layer, layer[source]), np.append(sample, sample[source]), mark
