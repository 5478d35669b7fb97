"""How much faster or slower a machine has become since a trace was recorded on it."""

from dataclasses import dataclass

from pipesim.core.costs import costs_of
from pipesim.core.trace import Trace

MOST = 0.05  # by which layers may differ before predictions from the older trace are doubtful


@dataclass(frozen=True, slots=True)
class Drift:
    """Seconds of all layers, forward and backward, in an older trace and in a newer one."""

    before_s: float
    after_s: float

    @property
    def change(self) -> float:
        """How much longer the layers take now."""
        return self.after_s / self.before_s - 1

    @property
    def is_large(self) -> bool:
        """Whether predictions from the older trace are doubtful now."""
        return abs(self.change) > MOST

    def __str__(self) -> str:
        return f"layers took {self.before_s:.4g} s before and {self.after_s:.4g} s now, {self.change:+.1%}"


def drift_of(before: Trace, after: Trace) -> Drift | None:
    """The drift between two recordings; None if they are not of the same layers at the same microbatch size."""
    if before.microbatch_size != after.microbatch_size or _names(before) != _names(after):
        return None
    seconds = seconds_of(before), seconds_of(after)
    return Drift(*seconds) if all(seconds) else None


def _names(trace: Trace) -> list[str]:
    return [layer.name for layer in costs_of(trace).model.layers]


def seconds_of(trace: Trace) -> float:
    """Seconds of all layers, forward and backward."""
    costs, kind = costs_of(trace), trace.device_kinds[0]
    return float(costs.forward(kind).sum() + costs.backward(kind).sum())
