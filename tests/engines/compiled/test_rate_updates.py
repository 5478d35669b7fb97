"""Rates after a change from those before it: equal to those that are computed for all flows together."""

from dataclasses import replace

import numpy as np
import pytest

from helpers.networks import network
from pipesim.base.kernels import compiled, variant
from pipesim.core.program import Folded
from pipesim.core.scenario import Speeds
from pipesim.engines import compiled as compiled_engine
from pipesim.engines import event
from pipesim.engines.compiled import flows, rate_updates
from pipesim.engines.compiled.simulation_state import arrays_of
from pipesim.engines.sharing_rules import fair

INFINITE = float("inf")


def many_flows(seed, between=(180, 260)):
    """Flows of which more are joined than MANY; links and flows are alike, or drawn, limited, weighted, changing."""
    rng = np.random.default_rng(seed)
    links, count = int(rng.integers(3, 40)), int(rng.integers(*between))
    alike = seed % 2 == 0
    capacity = rng.choice([1.0, 2.0, 3.0], links) if alike else rng.uniform(0.1, 10, links)
    begins = rng.choice([0, 100, 1000], count) if alike else rng.integers(0, 20_000, count)
    sizes = rng.choice([1_000, 3_000], count) if alike else rng.integers(1_000, 100_000, count)
    routes = [rng.permutation(links)[: rng.integers(1, 4)].tolist() for _ in range(count)]
    drawn = [(int(begin), int(size), route) for begin, size, route in zip(begins, sizes, routes, strict=True)]
    limits = np.where(rng.random(count) < 0.3, rng.choice([0.1, 0.25, 1 / 3], count), INFINITE) if seed % 3 else None
    program = network(capacity, drawn, "fair", limits)
    if seed % 4 == 0:
        speeds = Speeds((0, 500, 5_000, 9_000), (1.0, 0.5, 0.3, 1.0))
        program = replace(program, media_speeds=dict.fromkeys(rng.permutation(links)[:3].tolist(), speeds))
    if seed % 4 == 1:
        weights, one = rng.integers(1, 4, len(program.route.values)), np.ones(len(program), np.int64)
        program = replace(program, folded=Folded(one, weights, np.arange(count), np.arange(links)))
    return program


@pytest.mark.parametrize("seed", range(12))
def test_both_engines_give_the_same_bits_where_many_flows_hang_together(seed):
    program = many_flows(seed)
    timeline = event.run(program)
    assert compiled(fair.run_from_beginning)(arrays_of(program)).is_crowded
    assert timeline.same_as(compiled_engine.run(program))
    assert timeline.rates is not None


def under_way(program):
    """All transfers of a program at once, at no rate yet."""
    arrays = arrays_of(program)
    links = flows.initial_flows(arrays)
    for task in np.flatnonzero(~program.is_compute).tolist():
        flows.join(arrays, links, task, 0)
    return arrays, links


def as_plain_python(arrays, links):
    """The number of flows with other rates; their rates are set."""
    count = flows.updated_rates(arrays.routes, links)
    changed = links.search.found[:count]
    links.rate[changed] = links.search.rates[changed]
    links.is_touched[:] = False
    links.touched_count[0] = 0
    return count


by_groups_with_levels = variant(flows.joined_rates, "with_levels", rate_alone=flows.rate_and_levels_alone)


@pytest.mark.parametrize("seed", range(6))
def test_rates_and_levels_are_those_of_all_flows_together(seed):
    program = many_flows(seed, (60, 120))
    arrays, links = under_way(program)
    transfers = np.flatnonzero(~program.is_compute).tolist()
    assert as_plain_python(arrays, links) == len(transfers)
    for gone in (None, *transfers[:3]):
        if gone is not None:
            flows.leave(arrays, links, gone)
            as_plain_python(arrays, links)
            transfers.remove(gone)
        rates, levels = links.rate[transfers].copy(), links.levels.level.copy()
        for medium in range(len(arrays.capacity)):
            flows.touch(links, medium)
        assert by_groups_with_levels(arrays, links, len(arrays.lane)) == len(transfers)
        assert links.search.found[: len(transfers)].tolist() == transfers
        assert links.search.rates[transfers].tolist() == rates.tolist()
        assert links.levels.level.tolist() == levels.tolist()
        links.is_touched[:] = False
        links.touched_count[0] = 0


def test_flows_that_no_link_joins_are_computed_apart():
    program = network([4.0, 6.0, 9.0], [(0, 100, [0]), (0, 100, [0]), (0, 100, [1]), (0, 100, [2])], "fair")
    arrays, links = under_way(program)
    assert flows.joined_rates(arrays, links, 2) == 4
    assert links.search.found[:4].tolist() == [4, 5, 6, 7]
    assert links.search.rates[4:].tolist() == [2.0, 2.0, 6.0, 9.0]
    assert flows.joined_rates(arrays, links, 1) == -1  # two flows are joined


@pytest.mark.parametrize("seed", range(3))
def test_a_run_in_which_many_are_joined_begins_again_with_levels(seed, monkeypatch):
    """As plain Python, so that the few that count as many here are seen."""
    monkeypatch.setattr(flows, "MANY", 4)
    monkeypatch.setattr(fair, "compiled", lambda kernel: kernel)
    program = many_flows(seed)
    arrays = arrays_of(program)
    assert fair.run_from_beginning(arrays).is_crowded
    times = fair.event_loop(arrays)
    assert not times.is_crowded
    assert times.end.tolist() == event.run(program).end.tolist()


def test_what_a_change_does_not_reach_is_not_looked_at():
    """Flow 1 is held back by link 2, flow 0 by link 0: when flow 2 ends, which shares link 0, flow 1 keeps its rate."""
    program = network([2.0, 9.0, 3.0], [(0, 100, [0, 1]), (0, 100, [1, 2]), (0, 100, [0])], "fair")
    arrays, links = under_way(program)
    assert as_plain_python(arrays, links) == 3
    assert links.rate[3:].tolist() == [1.0, 3.0, 1.0]
    assert links.levels.level.tolist() == [1.0, INFINITE, 3.0]
    flows.leave(arrays, links, 5)
    assert as_plain_python(arrays, links) == 1
    assert links.rate[3:5].tolist() == [2.0, 3.0]


def test_a_search_that_takes_too_long_leaves_the_rates_before(monkeypatch):
    monkeypatch.setattr(flows, "MOST_LOOKS", 0)
    arrays, links = under_way(many_flows(1))
    assert flows.updated_rates(arrays.routes, links) == -1
    assert not links.rate.any()
    assert not links.levels.pending.any()
    assert (links.levels.before == -1).all()


def test_pending_links_come_by_their_levels_each_once():
    levels = rate_updates.initial_levels(1, 6)
    levels.level[:] = [3.0, 1.0, INFINITE, 2.0, 5.0, 4.0]
    for medium in (0, 1, 2, 3, 0, 4, 5, 2):
        rate_updates.add_pending(levels, medium)
    assert [rate_updates.next_pending(levels) for _ in range(6)] == [1, 3, 0, 5, 4, 2]
    assert levels.links[0] == 0
    assert not levels.pending.any()


@pytest.mark.parametrize("number", [0, 1, 5, 60])
def test_rates_are_sorted_with_their_weights(number):
    rng = np.random.default_rng(number)
    below, weights = rng.integers(0, 9, number).astype(float), np.arange(number)
    pairs = sorted(zip(below.tolist(), weights.tolist(), strict=True))
    compiled(rate_updates.sort_by_rate)(below, weights, number)
    assert sorted(zip(below.tolist(), weights.tolist(), strict=True)) == pairs
    assert below.tolist() == [rate for rate, _ in pairs]
