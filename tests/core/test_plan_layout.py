"""The layout of a plan is said in the sizes that people state."""

import pytest

from pipesim.core.plan import Plan, Stage
from pipesim.core.plan_layout import PlanLayout


def plan_on(*devices: tuple[str, ...], width: int = 1, context: int = 1, replicas: str = "whole") -> Plan:
    stages = tuple(Stage(n, n + 1, names) for n, names in enumerate(devices))
    leaders = dict.fromkeys(name for names in devices for name in names)
    teams = tuple((name, *(f"{name}.{n}" for n in range(1, width))) for name in leaders) if width > 1 else ()
    return Plan("m", len(stages), 4, stages, replicas, teams=teams, context=context)


@pytest.mark.parametrize(
    ("plan", "shown"),
    [
        (plan_on(("a",), ("b",)), "TP 1, PP 2, DP 1"),
        (plan_on(("a", "b"), replicas="split"), "TP 1, PP 1, DP 2"),
        (plan_on(("a", "c"), ("b", "d"), ("a", "c"), ("b", "d"), width=8), "TP 8, PP 2, VPP 2, DP 2"),
        (plan_on(("a",), ("b",), ("b",), ("a",)), "TP 1, PP 2, VPP 2, DP 1"),  # a V
        (plan_on(("a", "b"), ("b", "a")), "TP 1, PP 2, DP 1"),  # two pipelines in opposite directions
        (plan_on(("a",), ("b", "c"), replicas="split"), "TP 1, PP 2, DP varies"),
        (plan_on(("a",), ("b",), width=8, context=2), "TP 4, CP 2, PP 2, DP 1"),
    ],
)
def test_a_layout_is_said_as_people_write_it(plan, shown):
    assert str(PlanLayout.of(plan)) == shown


def test_an_expert_width_is_said_where_there_is_one():
    assert str(PlanLayout.of(plan_on(("a",)), expert=8)) == "TP 1, EP 8, PP 1, DP 1"


def test_sizes_have_the_names_of_fields_and_are_none_where_stages_differ():
    sizes = PlanLayout.of(plan_on(("a",), ("b", "c"), replicas="split")).by_name
    assert sizes == {"tensor": 1, "pipeline": 2, "interleave": 1, "data": None, "context": 1, "expert": 1}
