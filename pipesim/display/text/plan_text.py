"""Plans as text, stage by stage."""

from collections.abc import Mapping, Sequence
from typing import Any

from pipesim.core.plan import Plan
from pipesim.core.plan_layout import PlanLayout
from pipesim.core.teams import label
from pipesim.display.text.columns import TextColumn, TextTable
from pipesim.display.text.formatting import facts, no_layout_faster, seconds
from pipesim.display.text.scaling_text import ASSUMPTIONS
from pipesim.display.text.terminal import PLAIN, Terminal
from pipesim.display.text.validation_text import measured_interval


def plan(plan: Plan, planning_s: float | None = None, expert: int = 1, on: Terminal = PLAIN) -> str:
    """A plan: its layout in a few lines, then stage by stage."""
    return f"{plan_head(plan, planning_s, expert, on)}\n\n{stages(plan, on)}"


def plan_head(plan: Plan, planning_s: float | None = None, expert: int = 1, on: Terminal = PLAIN) -> str:
    """What was planned for what, and how; `expert` is the width of its costs."""
    timed = "" if planning_s is None else f", planned in {seconds(planning_s)}"
    head = [
        ("model", f"{plan.model} ({plan.layers} layers)"),
        ("layout", f"{PlanLayout.of(plan, expert)} ({_gpus(plan)})"),
        ("planner", f"{plan.planner or '-'}{timed}"),
        ("microbatches", str(plan.microbatches)),
    ]
    if plan.objective_s is not None:
        head.append(("objective", f"{seconds(plan.objective_s)}, as the planner estimates an iteration"))
    return facts(head, on)


def stages(plan: Plan, on: Terminal = PLAIN) -> str:
    """A plan, stage by stage, each replica with the GPUs of its team."""
    return plan_stages(plan).text(on)


def plan_stages(plan: Plan) -> TextTable:
    """A plan, stage by stage, as a table."""
    records = [
        {
            "stage": n, "layers": f"{s.start} to {s.stop - 1}", "count": s.stop - s.start,
            "devices": ", ".join(_teams(plan, s.devices)),
        }
        for n, s in enumerate(plan.stages)
    ]  # fmt: skip
    return TextTable(_STAGES, records)


_STAGES = (
    TextColumn("stage", "stage", on_left=True), TextColumn("layers", "layers"), TextColumn("count", "count"),
    TextColumn("devices", "devices", lambda names: _first_and_last(names.split(", "))),
)  # fmt: skip


def plan_against(
    bound_s: float,
    times_by_scaling: Mapping[str, float] | None = None,
    interval: Mapping[str, Any] | None = None,
    layout_bound_s: float | None = None,
    on: Terminal = PLAIN,
) -> str:
    """What a plan is measured against: certified bounds, its simulated time under each scaling, measured runs."""
    head = [("lower bound", f"{seconds(bound_s)} (no plan of this kind is faster)")]
    if layout_bound_s is not None:
        head.append(("any layout", no_layout_faster(layout_bound_s)))
    if times_by_scaling is not None:
        both = (f"{seconds(value)} ({ASSUMPTIONS[scaling]})" for scaling, value in times_by_scaling.items())
        head.append(("simulated", ", ".join(both)))
    if interval is not None:
        head.append(("measured runs", measured_interval(interval)))
    return facts(head, on)


def _gpus(plan: Plan) -> str:
    count = len(plan.gpus)
    return f"{count} GPU{'s' if count > 1 else ''}"


def _teams(plan: Plan, devices: Sequence[str]) -> list[str]:
    return [label(plan.team(device)) for device in devices]


def _first_and_last(names: Sequence[str], most: int = 4) -> str:
    """A few names, and how many there are."""
    return ", ".join(names) if len(names) <= most else f"{names[0]} ... {names[-1]} ({len(names)})"
