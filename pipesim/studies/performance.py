"""What an iteration comes to in the words of training: layout, tokens per second, MFU and HFU, days and GPU-hours.

    model FLOPs     3 x forward of every layer: what the gradients of a batch take, recomputation left out
    MFU             model FLOPs over what the GPUs could do at their peak in the model's precision
    HFU             the same with the FLOPs of recomputation

FLOPs are those of the layers' teams: what each GPU of a team does again (norms, without sequence parallelism) counts
for each. In Llama 3 70B at tensor width 8 that is three millionths more. Full scores of attention count, as a causal
mask saves none.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from pipesim.analysis import metrics
from pipesim.base import units
from pipesim.base.errors import InputError
from pipesim.core.plan_layout import PlanLayout
from pipesim.core.timeline import Timeline
from pipesim.lowering import Setup
from pipesim.lowering.recompute import recomputation_of

HOUR, DAY = 3600.0, 86400.0  # seconds


@dataclass(frozen=True, slots=True)
class Performance:
    """One iteration in the words of training; None where it is not known."""

    gpus: int
    layout: PlanLayout
    global_batch: int
    samples_per_s: float
    tokens_per_s: float | None
    flops_per_s_per_gpu: float | None
    mfu: float | None
    hfu: float | None

    @property
    def tokens_per_s_per_gpu(self) -> float | None:
        """Tokens per second of each GPU."""
        return None if self.tokens_per_s is None else self.tokens_per_s / self.gpus

    def days(self, tokens: float) -> float | None:
        """Days that so many tokens take."""
        return tokens / self.tokens_per_s / DAY if self.tokens_per_s else None

    def gpu_hours(self, tokens: float) -> float | None:
        """Hours of one GPU that so many tokens take."""
        return tokens / self.tokens_per_s / HOUR * self.gpus if self.tokens_per_s else None

    def as_data(self, tokens: float | None = None) -> dict[str, Any]:
        """Plain numbers; `tokens` of a whole training run."""
        return {
            "gpus": self.gpus,
            "layout": self.layout.by_name,
            "global_batch": self.global_batch,
            "tokens_per_s": self.tokens_per_s,
            "tokens_per_s_per_gpu": self.tokens_per_s_per_gpu,
            "flops_per_s_per_gpu": self.flops_per_s_per_gpu,
            "mfu": self.mfu,
            "hfu": self.hfu,
            "training": None
            if tokens is None
            else {"tokens": tokens, "days": self.days(tokens), "gpu_hours": self.gpu_hours(tokens)},
        }


def performance_of(setup: Setup, timeline: Timeline) -> Performance:
    """The performance of a setup, of which this is the timeline.

    >>> result = ps.simulate("bert-large", 'flat(4, bandwidth="1GB/s")', microbatches=8)
    >>> str(result.performance.layout), result.performance.global_batch
    ('TP 1, PP 4, DP 1', 256)
    """
    gpus, model = len(setup.plan.gpus), setup.costs.model
    samples_per_s, program, seconds = metrics.throughput(timeline), timeline.program, metrics.iteration_time(timeline)
    mfu, again = metrics.flops_utilisation(timeline), recomputed_flops(setup)
    known = program.flops is not None and seconds > 0
    return Performance(
        gpus=gpus,
        layout=PlanLayout.of(setup.plan, model.widths.expert),
        global_batch=program.samples,
        samples_per_s=samples_per_s,
        tokens_per_s=samples_per_s * model.sequence if model.sequence else None,
        flops_per_s_per_gpu=(program.flops or 0.0) / seconds / gpus if known else None,
        mfu=mfu,
        hfu=None if mfu is None or again is None or not program.flops else mfu * (1 + again / program.flops),
    )


def recomputed_flops(setup: Setup) -> float | None:
    """FLOPs of an iteration that recomputation does again, on all GPUs; None where they are not known.

    The core of attention is what its FLOPs are beyond those of products with its parameters: two for each token and
    parameter.
    """
    found = 0.0
    for n, stage in enumerate(setup.plan.stages):
        model, what = setup.costs_at(n).model, recomputation_of(setup, n)
        here = np.arange(stage.start, stage.stop)
        for index in here[(what.whole | what.core)[here]].tolist():
            layer = model.layers[index]
            if layer.forward_flops is None:
                return None
            again = layer.forward_flops
            if not what.whole[index]:
                bytes_each = _BYTES.get(model.precision)
                if bytes_each is None or not model.sequence:
                    return None
                tokens = model.microbatch_size * model.sequence
                again = max(again - 2.0 * tokens * layer.parameter_bytes / bytes_each, 0.0)
            found += again * setup.plan.widths(n).gpus
    return found * setup.plan.microbatches


_BYTES = {"fp32": 4, "tf32": 4, "fp16": 2, "bf16": 2, "fp8": 1}


def tokens_of(value: float | str | None, sequence: int) -> float | None:
    """The tokens of a training run, from a number or text such as 15T; refused where a sample has no tokens."""
    if value is None:
        return None
    if not sequence:
        found = value if isinstance(value, str) else f"{value:g}"
        raise InputError(
            f"tokens = {found} found, and the trace does not say how many tokens a sample has; write sequence = ... "
            "in its trace.toml"
        )
    return units.count(value)
