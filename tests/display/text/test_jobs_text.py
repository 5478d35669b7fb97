"""Several jobs as text."""

from pipesim.display import text

INTERVAL = {
    "low": 0.9, "high": 1.2, "low_s": 2.7, "high_s": 3.6, "rows": 30, "sources": 2, "widened": False,
    "shared": ["basis", "device", "framework"],
    "kind": {"basis": "recorded", "device": "a100", "framework": "", "teams": False, "gpus": 2},
}  # fmt: skip


def test_a_row_for_each_job_and_for_each_shared_link_and_how_many_more_there_are():
    row = {"model": "m", "devices": ["a", "b"], "start_s": 0.5, "alone_s": 2.0, "iteration_time_s": 3.0,
           "slowdown": 1.5, "iterations_s": [3.0, 3.0], "counted": [1], "measured_interval": INTERVAL}  # fmt: skip
    links = [{"link": f"l{n}", "bytes": [1024.0, 0.0]} for n in range(10)]
    shown = text.jobs({"jobs": [row | {"name": "a"}, row | {"name": "b"}], "shared_links": links})
    assert [line.split() for line in shown.splitlines()[2:4]] == [
        [name, "m", "2", "500.0", "ms", "2.000", "s", "3.000", "s", "50.0", "%", "1", "of", "2"] for name in "ab"
    ]
    assert "  b: 2.700 s to 3.600 s by 30 measured runs of this kind (a100, no framework, recorded times)" in shown
    assert "l7 " in shown
    assert "... and 2 more" in shown
    assert "l8" not in shown
