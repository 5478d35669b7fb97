"""Values that show themselves."""

from pipesim.base.shown_values import Displayed
from pipesim.core.plan import Plan, Stage


def test_a_value_shows_what_display_writes_of_it():
    plan = Plan("bert", 4, 2, (Stage(0, 4, ("gpu0",)),))
    assert isinstance(plan, Displayed)
    assert repr(plan) == "Plan of bert: TP 1, PP 1, DP 1 (1 GPUs), 2 microbatches"
    assert plan._repr_html_().startswith(f"<p>{plan!r}</p><table>")
