"""The pages of the commands."""

import pytest

from helpers.networks import pipeline
from pipesim.analysis import metrics
from pipesim.display import pages
from pipesim.engines.event import run
from pipesim.studies import results


@pytest.fixture(scope="module")
def result():
    return results.simulate("bert-large", 'flat(2, bandwidth="1GB/s")', "balanced", microbatches=4)


def test_a_simulation_has_its_facts_notes_and_the_ledger_where_it_was_asked_for(result):
    plain = pages.simulation_page(result.as_data(), result.timeline)
    with_ledger = pages.simulation_page(result.as_data(ledger=True), result.timeline)
    assert plain.title == "bert-large on flat-2"
    assert dict(plain.facts)["memory"] == "fits"
    assert list(plain.notes) == list(result.notes)
    assert [t.title for t in with_ledger.tables] == ["What the iteration consists of", *(t.title for t in plain.tables)]


def test_a_recorded_run_shows_its_steps_and_charts():
    timeline = run(pipeline([10, 10], [20, 20], 3, "gpipe"))
    step = {"step": 3, "recorded_s": 1.0, "simulated_s": 0.99, "error": -0.01}
    page = pages.run_page({"steps": [step]}, {"recorded": timeline, "simulated": timeline}, "run")
    assert list(page.charts) == ["recorded", "simulated"]
    assert page.tables[0].rows == [["3", "1.000 s", "990.0 ms", "-1.00 %"]]
    assert pages.run_page({"steps": 5}, {"recorded": timeline}, "run").tables[0].title == "Critical path"


def test_layouts_are_listed_by_rank(result):
    sizes = {"tensor": 1, "pipeline": 2, "data": 1, "interleave": 1, "microbatch_size": 4, "scheduler": "zb_v"}
    row = sizes | {
        "recompute": "none",
        "iteration_time_s": 1.0,
        "peak_memory_bytes": 1024,
        "command": "pipesim simulate",
    }
    page = pages.tuning_page({"rows": [row, row], "origin": "of"}, {"1": result.timeline}, "layouts")
    assert page.tables[0].rows[1] == [
        "2",
        "1",
        "2",
        "1",
        "1",
        "4",
        "zb_v",
        "none",
        "1.000 s",
        "1.000 KiB",
        "pipesim simulate",
    ]
    assert dict(page.facts)["layouts simulated"] == "2"


def test_a_timeline_alone_and_gains_have_pages(result):
    data = {"by": 0.1, "gains": [{"what": "link", "name": "a - b", "iteration_time_s": 1.0, "gain": 0.25}]}
    page = pages.gains_page(data, result.timeline, "what would help", "a sentence")
    assert page.tables[0].rows == [["link", "a - b", "1.000 s", "25.0 %"]]
    alone = pages.timeline_page(result.timeline)
    assert dict(alone.facts)["tasks"] == f"{metrics.summary(result.timeline)['tasks']:,}"


def test_a_result_and_a_timeline_have_their_pages(result):
    assert pages.page_of(result) == pages.simulation_page(result.as_data(), result.timeline)
    assert pages.page_of(result.timeline, "mine").title == "mine"


def test_a_schedule_against_another_opens_with_both_and_what_differs(run, tmp_path):
    """The page of --against had the first schedule alone."""
    words = ["schedule", "zb_2p", "--stages", "2", "-m", "4", "--html", tmp_path / "page.html"]
    assert run(*words, "--against", "zb_h1")[0] == 0
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert text.count('id="columns') == 2
    assert "Against zb_h1" in text
    assert "makespan of zb_h1" in text
    assert run(*words)[0] == 0
    assert (tmp_path / "page.html").read_text(encoding="utf-8").count('id="columns') == 1


def test_several_jobs_have_a_page_with_what_each_takes(run, tmp_path):
    """It was called 'timeline' and had no word of jobs."""
    (tmp_path / "b.toml").write_text('trace = "bert-large"\nmicrobatches = 2\n')
    words = ["bert-large", 'servers(2, 2, intra="25GB/s", inter="1GB/s")', "-m", "2", "--devices", "*.gpu0"]
    assert run("simulate", *words, "--with", tmp_path / "b.toml", "--html", tmp_path / "page.html")[0] == 0
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<h1>first, b on servers-2x2</h1>" in text
    assert "iterations counted" in text


def test_a_comparison_shows_the_first_timeline_first(result):
    page = pages.comparison_page([], {"best": result.timeline, "other": result.timeline}, "title")
    assert dict(page.facts)["shown first"] == "best"
