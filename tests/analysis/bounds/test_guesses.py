"""The search for the greatest T that no plan reaches: what guesses leave to those after them, and where it ends."""

import functools

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from helpers.strategies import even_trace, jobs
from pipesim.analysis.bounds import guesses
from pipesim.analysis.bounds.forms import by_form, by_shape
from pipesim.analysis.bounds.guesses import SEARCHES, Guesses, projected
from pipesim.analysis.bounds.islands import Network, island_model
from pipesim.analysis.bounds.layer_sums import layer_sums
from pipesim.analysis.bounds.moves import by_island
from pipesim.analysis.bounds.tails import all_cells
from pipesim.core.costs import costs_of
from pipesim.studies.loading import load_cluster


def example(replicas="split", spec='servers(2, 2, intra="4GB/s", inter="1GB/s")'):
    """Sums of four layers, and how each description of two servers is built."""
    costs, cluster = costs_of(even_trace(4, output_bytes=4_000_000, parameter_bytes=2_000_000)), load_cluster(spec)
    label = np.arange(len(cluster.devices)) * 2 // len(cluster.devices)
    model = island_model(Network(cluster), label)
    builds = {one.__name__: functools.partial(one, model, replicas, 8) for one in (by_island, by_shape, by_form)}
    return layer_sums(costs, cluster, 8, replicas), builds


@pytest.mark.parametrize("replicas", ["split", "whole"])
def test_the_search_ends_between_what_is_not_reached_and_what_is(replicas):
    sums, builds = example(replicas)
    found = Guesses(sums, builds["by_island"]).least(1e-3, np.inf)
    afresh = Guesses(sums, builds["by_island"])
    assert not Guesses(sums, builds["by_island"]).reaches(found * (1 - 1e-3), 0.002)
    assert afresh.reaches(found * (1 + 1e-2), 0.002)


@pytest.mark.parametrize("coarse", ["by_shape", "by_form"])
def test_a_coarser_description_before_it_changes_no_more_than_the_precision(coarse):
    sums, builds = example()
    alone = Guesses(sums, builds["by_island"]).least(1e-3, np.inf)
    after = Guesses(sums, builds["by_island"], Guesses(sums, builds[coarse])).least(1e-3, np.inf)
    assert after == pytest.approx(alone, rel=2e-3)


def test_what_is_known_to_be_reached_is_where_the_search_ends():
    sums, builds = example()
    found = Guesses(sums, builds["by_island"]).least(1e-3, np.inf)
    assert Guesses(sums, builds["by_island"]).least(1e-3, 0.9 * found) == pytest.approx(0.9 * found, rel=1e-3)
    assert Guesses(sums, builds["by_island"]).least(2 * found, np.inf) == 2 * found, "a bound that is known is kept"


@settings(max_examples=25)
@given(jobs(calm=True), st.sampled_from(["split", "whole"]), st.data())
def test_guesses_leave_less_and_less_and_a_guess_of_its_own_reaches_what_they_do(job, replicas, data):
    count, devices = job.plan.microbatches, len(job.cluster.devices)
    label = np.array(data.draw(st.lists(st.integers(0, 1), min_size=devices, max_size=devices)))
    label = np.unique(label, return_inverse=True)[1]
    sums = layer_sums(job.costs, job.cluster, count, replicas)
    build = functools.partial(by_island, island_model(Network(job.cluster), label), replicas, count)
    tried, found = Guesses(sums, build), Guesses(sums, build).least(1e-6, np.inf)
    cells = all_cells(sums, tried.moves)
    for factor in (1.5, 1.2, 1.1, 1.05, 1.02, 1.02):
        grain = data.draw(st.sampled_from([2.0, 0.02]))
        if not tried.reaches(factor * found, grain):
            continue
        assert Guesses(sums, build).reaches(factor * found, grain)
        left = tried.left(factor * found)
        assert not any((one & ~before).any() for one, before in zip(left, cells, strict=True))
        cells = left


@settings(max_examples=15)
@given(jobs(calm=True), st.sampled_from(["split", "whole"]))
def test_all_cells_of_a_coarse_description_are_all_of_a_finer_one(job, replicas):
    """And none are none."""
    label = np.arange(len(job.cluster.devices)) % 2
    assume(len(job.cluster.devices) > 1)
    sums = layer_sums(job.costs, job.cluster, job.plan.microbatches, replicas)
    model = island_model(Network(job.cluster), label)
    fine, coarse = (build(model, replicas, job.plan.microbatches) for build in (by_island, by_form))
    everything, all_coarse = all_cells(sums, fine), all_cells(sums, coarse)
    assert all(map(np.array_equal, projected(all_coarse, coarse, fine, sums), everything))
    nothing = all_coarse._replace(place=np.zeros_like(all_coarse.place), state=np.zeros_like(all_coarse.state))
    assert not any(one.any() for one in projected(nothing, coarse, fine, sums))


def test_where_places_are_too_many_a_bound_that_is_known_is_kept(monkeypatch):
    sums, builds = example()
    monkeypatch.setattr(guesses, "MOST_CELLS", 1)
    assert Guesses(sums, builds["by_island"], Guesses(sums, builds["by_form"])).least(1e-3, np.inf) == 1e-3


def test_finer_grains_follow_with_no_less_precision():
    assert [one.grain for one in SEARCHES] == sorted((one.grain for one in SEARCHES), reverse=True)
    assert [one.precision for one in SEARCHES] == sorted((one.precision for one in SEARCHES), reverse=True)
