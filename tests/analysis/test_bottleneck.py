"""What an iteration loses most time to."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipesim.analysis import metrics
from pipesim.analysis.bottleneck import CAUSES, bottleneck
from pipesim.studies import results


def summary(devices, links=None):
    names = ("busy_share", "exposed_communication_s", "exposed_all_reduce_s")
    return {
        "iteration_time_s": 2.0,
        "devices": {f"gpu{n}": dict(zip(names, values, strict=True)) for n, values in enumerate(devices)},
        "links": {name: {"busy_share": share} for name, share in (links or {}).items()},
    }


@pytest.mark.parametrize(
    ("devices", "what"),
    [
        ([(0.95, 0.0, 0.0), (0.92, 0.1, 0.0)], "computing"),
        ([(0.6, 0.7, 0.0), (0.6, 0.7, 0.0)], "transfers"),
        ([(0.6, 0.0, 0.7), (0.6, 0.0, 0.7)], "all_reduce"),
        ([(0.9, 0.0, 0.0), (0.3, 0.0, 0.0)], "imbalance"),
        ([(0.4, 0.0, 0.0), (0.4, 0.1, 0.0)], "pipeline"),
    ],
)
def test_the_cause_that_takes_most_of_the_idle_time_is_the_bottleneck(devices, what):
    assert bottleneck(summary(devices)).what == what


share = st.floats(0.0, 1.0)


@given(st.lists(st.tuples(share, st.floats(0, 4), st.floats(0, 4)), min_size=1, max_size=5))
def test_the_shares_add_up_to_all_of_the_devices_time(devices):
    found = bottleneck(summary(devices)).shares
    assert sum(found.values()) == pytest.approx(1.0)
    assert set(found) == {"computing", *CAUSES}
    assert min(found.values()) >= -1e-12


def test_the_busiest_device_and_link_are_named():
    found = bottleneck(summary([(0.2, 0, 0), (0.6, 0, 0)], {"a->b": 0.1, "b->a": 0.4}))
    assert (found.device, found.link, found.link_busy_share) == ("gpu1", "b->a", 0.4)
    assert bottleneck(summary([(0.2, 0, 0)])).link is None


def test_a_slow_network_is_the_bottleneck_of_a_simulation_and_a_fast_one_is_not():
    slow, fast = (
        results.simulate("bert-large", f'flat(2, bandwidth="{rate}")', microbatches=32) for rate in ("100MB/s", "1TB/s")
    )
    assert slow.bottleneck.what == "transfers"
    assert fast.bottleneck.what == "computing"
    assert fast.bottleneck.shares["computing"] == pytest.approx(1 - metrics.bubble(fast.timeline)["idle_share"])
    assert fast.as_data()["bottleneck"] == fast.bottleneck.as_data()
