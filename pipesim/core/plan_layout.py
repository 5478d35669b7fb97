"""The layout of a plan in the sizes that people state: tensor, pipeline, interleave (virtual stages), data, ...

stages of one device, one after the other       TP 1, PP 4, DP 1
two replicas of five chunks on 4 x 8 GPUs       TP 8, PP 4, VPP 5, DP 2
"""

from collections.abc import Iterable
from dataclasses import dataclass

from pipesim.core.plan import Plan


@dataclass(frozen=True, slots=True)
class PlanLayout:
    """How a plan divides a model; None where stages differ in it."""

    tensor: int | None
    pipeline: int
    interleave: int
    data: int | None
    context: int = 1
    expert: int = 1

    @classmethod
    def of(cls, plan: Plan, expert: int = 1) -> "PlanLayout":
        """The layout of a plan. Its pipeline is the devices that a microbatch of the first replica passes through."""
        passed = len({stage.devices[0] for stage in plan.stages})
        side_by_side, rest = divmod(len(plan.devices), passed)  # two pipelines in opposite directions share devices
        widths = (plan.widths(n) for n in range(len(plan.stages)))
        return cls(
            tensor=_only(width.tensor for width in widths),
            pipeline=passed,
            interleave=-(-len(plan.stages) // passed),
            data=side_by_side if _only(plan.replication) and not rest else None,
            context=plan.context,
            expert=expert,
        )

    @property
    def by_name(self) -> dict[str, int | None]:
        """The sizes as fields of a simulation name them."""
        return {name: getattr(self, name) for name in ("tensor", "pipeline", "interleave", "data", "context", "expert")}

    def __str__(self) -> str:
        """As people write it: TP 8, PP 4, VPP 5, DP 2; what is one is left out, but for these three."""
        shown = [("TP", self.tensor, True), ("CP", self.context, False), ("EP", self.expert, False)]
        shown += [("PP", self.pipeline, True), ("VPP", self.interleave, False), ("DP", self.data, True)]
        return ", ".join(
            f"{name} {'varies' if size is None else size}" for name, size, always in shown if always or size != 1
        )


def _only(values: Iterable[int]) -> int | None:
    found = set(values)
    return found.pop() if len(found) == 1 else None
