"""Seconds that an optimizer's step takes per byte of parameters, and the state that it keeps.

    sgd            torch.optim.SGD, plain
    sgd_momentum   the same with momentum: one value kept per parameter
    adamw          torch.optim.AdamW: two

One step updates all parameters of the model, in the implementation that torch chooses. The learning rate is 0, so that
the work is done and the parameters are unchanged.
"""

from collections.abc import Callable
from functools import partial
from statistics import median
from typing import TYPE_CHECKING

from pipesim.core.trace import OptimizerStep
from pipesim.recorders.clock import DeviceClock
from pipesim.recorders.subjects import Subject
from pipesim.recorders.values import nbytes

if TYPE_CHECKING:
    import torch

Gather = Callable[[list[Callable[[], float]]], list[float | None]]


def optimizer_steps(
    subject: Subject, clock: DeviceClock, samples: int, gather: Gather
) -> tuple[list[OptimizerStep], list[str]]:
    """The time of each optimizer's step, and the names of those that were disturbed.

    Parameters without gradients are not updated: run a backward before. `gather` runs the measurements.
    """
    taking_part = [p for p in subject.parameters if p.grad is not None]
    held = sum(map(nbytes, taking_part))
    steps: list[OptimizerStep] = []
    missing: list[str] = []
    for name, optimizer in _optimizers(taking_part).items() if held else ():
        optimizer.step()  # creates the state
        optimizer.step()
        taken = [seconds for seconds in gather([partial(_step, optimizer, clock)] * samples) if seconds is not None]
        if len(taken) < samples:
            missing.append(name)
        else:
            steps.append(OptimizerStep(name, median(taken) / held, _state(optimizer, taking_part) / held))
    return steps, missing


def _optimizers(parameters: "list[torch.nn.Parameter]") -> "dict[str, torch.optim.Optimizer]":
    import torch

    return {
        "sgd": torch.optim.SGD(parameters, lr=0.0),
        "sgd_momentum": torch.optim.SGD(parameters, lr=0.0, momentum=0.9),
        "adamw": torch.optim.AdamW(parameters, lr=0.0),
    }


def _step(optimizer: "torch.optim.Optimizer", clock: DeviceClock) -> float:
    begin = clock.mark()
    optimizer.step()
    end = clock.mark()
    clock.settle()
    return clock.between(begin, end)


def _state(optimizer: "torch.optim.Optimizer", parameters: "list[torch.nn.Parameter]") -> int:
    """Bytes of state; the count of steps, one number for each parameter, is left out."""
    import torch

    kept = [value for p in parameters for key, value in optimizer.state[p].items() if key != "step"]
    return sum(nbytes(value) for value in kept if isinstance(value, torch.Tensor))
