"""Results of simulations as text."""

import numpy as np
import pytest

from pipesim.analysis import metrics
from pipesim.display import text
from pipesim.studies import results


@pytest.fixture(scope="module")
def data():
    result = results.simulate("bert-large", 'servers(2, 2, intra="25GB/s", inter="1GB/s")', "gpipe", microbatches=4)
    return result.as_data(bound=True)


def test_a_simulation_shows_its_time_critical_path_devices_and_links(data):
    head, path, needs, devices, links = text.simulation(data).split("\n\n")
    assert head.startswith("global batch")
    assert head.splitlines()[1].split(maxsplit=2)[2].startswith("4 in TP 1, PP 4, DP 1")
    assert path.startswith("critical path")
    assert needs.startswith("path of the last microbatch")
    assert len(devices.splitlines()) == 2 + 4
    assert links.startswith("busiest links")


def test_devices_left_out_are_counted(data):
    devices = text.simulation(data, most=1).split("\n\n")[3]
    assert devices.endswith("... and 3 more devices")


def test_the_bounds_that_are_known_are_shown(data):
    assert "any plan of this kind, " in text.asked(data)
    assert "schedule of this plan" not in text.asked(data | {"schedule_bound_s": None})
    assert not text.asked({name: value for name, value in data.items() if name != "bound_s"})


def test_an_assumed_split_of_backwards_is_shown(data):
    assert "33.0 % of each" in text.asked(data | {"weight_share": 0.33})
    assert "split backwards" not in text.asked(data | {"weight_share": None})


def test_an_imported_run_has_neither_bounds_nor_stages(data):
    shown = text.imported_run(data, most=2)
    assert "bound" not in shown
    assert "... and 2 more devices" in shown
    assert "busiest links" in shown


def test_statistics_have_their_confidence_intervals_and_how_they_were_drawn():
    found = metrics.statistics(np.arange(1.0, 101.0), np.random.default_rng(0))
    assert text.statistics(found).splitlines()[0].split() == ["iterations", "100"]
    joint = {"shared_by_layers": 0.5, "p_of_layers": 0.005}
    lines = text.statistics(found | {"draw": "microbatch", "joint_samples": joint}).splitlines()
    assert lines[0].endswith(
        "one for each microbatch; in the samples layers share 50.0 % of their variance (p = 0.005)"
    )
    assert "50.50 s (41.00 s to 61.00 s)" in lines[2]
    assert lines[4].endswith("to ...)"), "a hundred iterations have no upper end for p99"


def test_a_summary_has_all_that_an_imported_run_shows():
    result = results.simulate("bert-large", 'flat(2, bandwidth="1GB/s")', "balanced", microbatches=2)
    assert "tasks" in text.imported_run(metrics.summary(result.timeline))


def test_what_is_not_known_of_training_is_left_out(data):
    head = text.simulation(data | {"tokens_per_s": None, "tokens_per_s_per_gpu": None}).split("\n\n")[0]
    assert "tokens" not in head
    assert "TFLOP/s/GPU" in head
    assert "HFU" not in head, "without recomputation it is the MFU"
    unknown = dict.fromkeys(("mfu", "hfu", "flops_per_s_per_gpu"))
    assert "compute  " not in text.simulation(data | unknown)


def test_tokens_hfu_and_the_days_of_training_are_shown(data):
    known = {"tokens_per_s": 5e4, "tokens_per_s_per_gpu": 1.25e4, "mfu": 0.4, "hfu": 0.45}
    known |= {"training": {"tokens": 15e12, "days": 3472.2, "gpu_hours": 333333.3}}
    assert "50,000 tokens/s" in text.simulation(data | known)
    assert "HFU 45.0 %" in text.simulation(data | known)
    assert "15T tokens: 3,472.2 days, 333,333 GPU-hours" in text.asked(data | known)


def test_the_memory_of_a_team_is_shown_for_each_of_its_gpus(data):
    assert "peak memory" in text.simulation(data)
    assert "peak per GPU" in text.simulation(data | {"gpus": 32})


def test_slack_is_shown_by_device_and_devices_left_out_are_counted():
    one = {"least_s": 0.0, "median_s": 0.5, "without": 2, "tasks": 6}
    shown = text.slack({"devices": {"gpu0": one, "gpu1": one}}, most=1)
    assert shown.splitlines()[2].split() == ["gpu0", "0", "s", "500.0", "ms", "2", "of", "6"]
    assert shown.endswith("... and 1 more devices")
