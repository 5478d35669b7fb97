"""All ways of running a microbatch, one after the other, pass after pass, each in quiet windows.

pass 0    wait for quiet    w ref ref ref ...   w whole whole ...   w first ...   w split ...   w recompute ...
pass 1    wait for quiet    w ref ref ref ...   w whole whole ...

ref                the uninstrumented model, forward and backward
whole, first, ...  the ways of the method (`loop`, `hooks`), each filling columns of the trace
w                  warm-up microbatches. Each way needs its own, since the memory that the process holds, or must
                   allocate again, depends on what ran before. (With ways that alternate after each microbatch, a
                   small VGG differed by 12 % from the sum of its layers, only because of page faults.)
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from pipesim.base import lookup
from pipesim.base.arrays import Floats
from pipesim.base.checks import check_at_least, check_not_negative
from pipesim.base.errors import InputError, PipesimError, RefusedError
from pipesim.recorders import RECORDERS
from pipesim.recorders.clock import DeviceClock
from pipesim.recorders.loop import Columns, Way
from pipesim.recorders.quiet import Clocks, gather, not_quiet, wait_until_quiet
from pipesim.recorders.subjects import Subject, failed, run
from pipesim.recorders.values import start_of_backward

Watch = Callable[[int], None]

REFERENCE = "reference"
NEEDED = (REFERENCE, "whole")
# Columns of a trace that may stay empty, and the ways that fill them.
OPTIONAL = {
    "backward_first_s": "first",
    "backward_input_s": "split",
    "backward_weight_s": "split",
    "recompute_s": "recompute",
}
LEAST = {"microbatches": 8, "passes": 2, "warmup": 1, "threads": 1}


@dataclass(frozen=True, slots=True)
class Settings:
    """How to measure. `patience_s`: how long each way, in each pass, waits in total for a quiet machine."""

    method: str = "loop"
    microbatches: int = 8
    passes: int = 2
    warmup: int = 2
    threads: int = 1
    patience_s: float = 60.0
    tolerance: float = 0.05

    def __post_init__(self) -> None:
        for name, least in LEAST.items():
            check_at_least(name, getattr(self, name), least)
        check_not_negative("patience", self.patience_s)
        check_not_negative("tolerance", self.tolerance)


@dataclass(frozen=True, slots=True, eq=False)
class Measurements:
    """Columns as [sample, layer]; the reference's seconds; missing columns, and why; lost shares of windows."""

    columns: dict[str, Floats]
    reference: Floats
    missing: dict[str, str]
    lost: list[float]


def measure(
    subject: Subject, clock: DeviceClock, settings: Settings, clocks: Clocks | None, watch: Watch
) -> Measurements:
    """Run all ways. `clocks` are the gate's; None: no gate. `watch` gets the progress, in percent of a pass."""
    method = lookup.function_named(settings.method, RECORDERS, "method")
    ways: dict[str, Way] = {REFERENCE: partial(_reference, subject, clock), **method(subject, clock)}
    failures = dict.fromkeys(set(OPTIONAL.values()) - set(ways), f"not by the method {settings.method}") | _tried(ways)
    taken: dict[str, list[Columns | None]] = {name: [] for name in ways}
    lost: list[float] = []
    for _ in range(settings.passes):
        if clocks:
            wait_until_quiet(settings.patience_s, clocks)
        for place, (name, way) in enumerate(ways.items()):
            for _ in range(settings.warmup):
                way()
            gathered = gather([way] * settings.microbatches, settings.patience_s, clocks)
            taken[name] += gathered.results
            lost += gathered.lost
            if name in NEEDED and None in gathered.results:  # required: nothing later replaces it
                raise RefusedError(not_quiet(lost, settings.patience_s))
            watch(100 * (place + 1) // len(ways) - 100 * place // len(ways))
    return _arranged(taken, failures, lost)


def _arranged(taken: dict[str, list[Columns | None]], failures: dict[str, str], lost: list[float]) -> Measurements:
    """The times of each way as columns, if all of them were measured on a quiet machine."""
    columns = {
        column: np.array([one[column] for one in results if one])
        for name, results in taken.items()
        if name != REFERENCE and None not in results
        for column in (results[0] or {})
    }
    missing = {
        column: failures.get(way, "the machine was not quiet")
        for column, way in OPTIONAL.items()
        if column not in columns
    }
    reference = [one["forward_s"][0] + one["backward_s"][0] for one in taken[REFERENCE] if one]
    return Measurements(columns, np.array(reference), missing, lost)


def _tried(ways: dict[str, Way]) -> dict[str, str]:
    """Run each way once. Those that fail are dropped, with the reason, unless they are required."""
    failures = {}
    for name in list(ways):
        try:
            ways[name]()
        except Exception as error:  # anything may happen in a user's layer
            if name in NEEDED:
                raise error if isinstance(error, PipesimError) else failed("the model", error) from error
            failures[name] = str(error).strip().partition("\n")[0][:200]
            del ways[name]
    return failures


def _reference(subject: Subject, clock: DeviceClock) -> Columns:
    """A microbatch of the whole model, uninstrumented."""
    import torch

    begin = clock.mark()
    output = run(subject)
    middle = clock.mark()
    outputs, gradients = start_of_backward(output)
    if not outputs:
        raise InputError("the model's output has no gradient: no parameter that requires one leads to it")
    start = clock.mark()
    torch.autograd.backward(outputs, gradients)
    end = clock.mark()
    clock.settle()
    return {"forward_s": [clock.between(begin, middle)], "backward_s": [clock.between(start, end)]}
