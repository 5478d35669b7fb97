"""Plans as text."""

from pipesim.core.plan import Plan, Stage
from pipesim.display import text

PLAN = Plan("bert", 8, 4, (Stage(0, 3, ("g0",)), Stage(3, 8, tuple(f"g{i}" for i in range(1, 7)))))


def test_a_plan_is_shown_stage_by_stage():
    lines = text.plan(PLAN).splitlines()
    assert lines[0].split() == ["model", "bert", "(8", "layers)"]
    assert [line.split() for line in lines[-2:]] == [
        ["0", "0", "to", "2", "3", "g0"],
        ["1", "3", "to", "7", "5", "g1", "...", "g6", "(6)"],
    ]


def test_times_are_shown_where_they_are_known():
    shown = text.plan(PLAN, planning_s=2.0).split("\n\n")[0]
    assert "planner       -, planned in 2.000 s" in shown
    assert "objective" not in shown
    against = text.plan_against(0.5, {"recorded": 0.6, "linear": 0.7})
    facts = {line[:12].strip(): line[12:].strip() for line in against.splitlines()}
    assert facts["lower bound"].startswith("500.0 ms")
    assert "600.0 ms (as recorded for smaller" in facts["simulated"]
    assert "700.0 ms (" in facts["simulated"]


def test_the_gpus_of_a_team_are_shown_as_people_write_them():
    stages = (Stage(0, 4, ("n0.gpu0",)), Stage(4, 8, ("n0.gpu2",)))
    plan = Plan("bert", 8, 4, stages, teams=(("n0.gpu0", "n0.gpu1"), ("n0.gpu2", "n0.gpu3")))
    lines = text.plan(plan).splitlines()
    assert "layout        TP 2, PP 2, DP 1 (4 GPUs)" in lines
    assert [line.split()[-1] for line in lines[-2:]] == ["n0.gpu0-1", "n0.gpu2-3"]
