"""Layers that vary together are found to do so, and those that do not are not."""

import numpy as np
import pytest

from helpers.networks import pipeline_trace
from pipesim.analysis.joint_samples import SIGNIFICANT, correlated, joint_samples, shared
from pipesim.core.costs import costs_of
from pipesim.core.trace import Trace


def costs(forward, backward, samples="microbatch"):
    """Costs of layers with these seconds: [layer, sample]."""
    count = forward.shape[1]
    one = pipeline_trace([1] * len(forward), [1] * len(forward), [0] * (len(forward) - 1)).layers
    layers = {name: np.repeat(values, count) for name, values in one.items()}
    layers |= {"sample": np.tile(np.arange(count), len(forward))}
    layers |= {"forward_s": forward.ravel(), "backward_s": backward.ravel()}
    return costs_of(Trace("m", "test", 1, layers, samples=samples))


def drawn(seed, common, layers=4, count=60):
    """Times of mean 1 whose deviations have this part in common."""
    rng = np.random.default_rng(seed)
    alone, together = rng.normal(0, 0.1, (layers, count)), rng.normal(0, 0.1, count)
    return 1 + np.sqrt(1 - common) * alone + np.sqrt(common) * together


def test_the_share_is_the_part_of_variance_that_is_in_common():
    rng = np.random.default_rng(0)
    assert shared(drawn(1, 0.0, count=4000), rng).share == pytest.approx(0, abs=0.03)
    assert shared(drawn(1, 0.5, count=4000), rng).share == pytest.approx(0.5, abs=0.03)
    assert shared(drawn(1, 1.0, count=4000), rng).share == pytest.approx(1, abs=1e-9)
    assert correlated(drawn(1, 1.0), drawn(1, 1.0), rng).share == pytest.approx(1)


def test_the_draw_follows_from_what_is_shared():
    times = drawn(2, 0.9)
    assert joint_samples(costs(times, 2 * times)).draw == "microbatch"
    assert joint_samples(costs(times, 2 * times, "step")).draw == "step"
    alone = drawn(3, 0.0)
    assert joint_samples(costs(alone, 2 * alone)).draw == "layer"
    assert joint_samples(costs(alone, drawn(4, 0.0))).draw == "independent"


def test_layers_without_anything_in_common_are_rarely_found_to_share():
    """One in a hundred is expected; a test that always finds something would find forty."""
    found = [shared(drawn(seed, 0.0, count=20), np.random.default_rng(seed)).p < SIGNIFICANT for seed in range(40)]
    assert sum(found) <= 2


def test_samples_that_are_only_repetitions_are_not_asked():
    times = drawn(2, 0.9)
    assert joint_samples(costs(times, times, samples="")) is None
    assert joint_samples(costs(times[:, :1], times[:, :1])) is None


def test_where_only_one_layer_varies_nothing_is_shared():
    times = drawn(2, 0.9)
    times[1:] = 1.0
    assert joint_samples(costs(times, np.ones_like(times))).layers.p == 1.0
