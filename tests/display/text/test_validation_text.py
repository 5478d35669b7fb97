"""How far to trust it, as text: the page in docs/ is what the command prints."""

import pipesim as ps
from helpers.places import ROOT
from pipesim.display import text
from pipesim.studies.accuracy import MeasuredInterval, RunKind

KIND = RunKind("computed", "h100", "megatron", teams=True, gpus=64)


def line(shared, sources=2, seconds=None):
    return text.measured_interval(MeasuredInterval(0.9, 1.2, 180, sources, shared, KIND).as_data(seconds))


def test_the_page_is_what_validate_prints_as_markdown():
    """`pipesim validate --markdown > docs/how-far-to-trust-it.md` after a deliberate change."""
    page = (ROOT / "docs" / "how-far-to-trust-it.md").read_text(encoding="utf-8")
    assert page == text.trust_page(ps.trust_report().as_data())


def test_an_interval_states_its_runs():
    shared = ("basis", "device", "framework", "teams", "gpus")
    runs = "180 measured runs of this kind (h100, megatron, computed times)"
    assert line(shared, seconds=10.0) == f"9.000 s to 12.00 s by {runs}"
    assert line(shared) == f"0.90 to 1.20 of the simulated time by {runs}"
    assert line(shared, sources=1).endswith(f"{runs}, widened: all of one source")


def test_an_interval_states_that_nothing_like_it_was_measured():
    assert line(("basis",)).endswith("180 measured runs of computed times, widened: fewer than 20 on h100")
    assert line(()).endswith("180 measured runs of any kind, widened: fewer than 20 on h100")


def test_small_errors_keep_their_digits():
    page = text.trust_report(ps.trust_report().as_data())
    assert "0.0003 %" in page
    assert "published for simumax: 5.3 % (SimuMax)" in page
    assert "(e) live" in page
