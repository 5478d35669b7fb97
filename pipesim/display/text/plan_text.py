"""Plans as text, stage by stage."""

from collections.abc import Mapping, Sequence

from pipesim.core.plan import Plan
from pipesim.display.text.formatting import facts, seconds, table
from pipesim.display.text.scaling_text import ASSUMPTIONS


def plan(plan: Plan, planning_s: float | None = None) -> str:
    """A plan, stage by stage."""
    rows = [
        [str(n), f"{s.start} to {s.stop - 1}", str(s.stop - s.start), _first_and_last(s.devices)]
        for n, s in enumerate(plan.stages)
    ]
    head = [
        ("model", f"{plan.model} ({plan.layers} layers)"),
        ("planner", plan.planner or "-"),
        ("microbatches", str(plan.microbatches)),
    ]
    if plan.objective_s is not None:
        head.append(("objective", seconds(plan.objective_s)))
    if planning_s is not None:
        head.append(("planned in", seconds(planning_s)))
    return f"{facts(head)}\n\n{table(['stage', 'layers', 'count', 'devices'], rows, left=1)}"


def plan_against(bound_s: float, times_by_scaling: Mapping[str, float] | None = None) -> str:
    """What a plan is measured against: the certified bound, and its simulated time under each scaling."""
    head = [("lower bound", f"{seconds(bound_s)} (no plan of this kind is faster)")]
    if times_by_scaling is not None:
        both = (f"{seconds(value)} ({ASSUMPTIONS[scaling]})" for scaling, value in times_by_scaling.items())
        head.append(("simulated", ", ".join(both)))
    return facts(head)


def _first_and_last(names: Sequence[str], most: int = 4) -> str:
    """A few names, and how many there are."""
    return ", ".join(names) if len(names) <= most else f"{names[0]} ... {names[-1]} ({len(names)})"
