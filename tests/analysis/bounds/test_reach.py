"""The dynamic program: compiled and plain, fine and coarse, and what it can tell apart."""

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from helpers.strategies import even_trace, jobs
from pipesim.analysis import metrics
from pipesim.analysis.bounds import reach, total_work
from pipesim.analysis.bounds.forms import by_form, by_shape
from pipesim.analysis.bounds.frontier import frontier_of, with_room
from pipesim.analysis.bounds.guesses import Guesses
from pipesim.analysis.bounds.incoming import incoming_of
from pipesim.analysis.bounds.islands import Network, island_model
from pipesim.analysis.bounds.layer_sums import layer_sums
from pipesim.analysis.bounds.moves import by_island
from pipesim.analysis.bounds.reach import extended, reachable
from pipesim.analysis.bounds.tails import Cells, backwards, tails_of
from pipesim.base.kernels import compiled
from pipesim.core.costs import costs_of
from pipesim.core.plan import Plan, Stage
from pipesim.engines.event import run
from pipesim.lowering import Setup, lower
from pipesim.schedulers.one_f_one_b import one_f_one_b
from pipesim.studies.loading import load_cluster


def reaches(tables, moves, target, grain):
    """The answer to a first guess."""
    return Guesses(tables, lambda: moves).reaches(target, grain)


@settings(max_examples=40)
@given(jobs(calm=True), st.floats(0.1, 3), st.sampled_from(["split", "whole"]), st.data())
def test_the_compiled_kernel_is_its_plain_twin(job, share, replicas, data):
    count, devices = job.plan.microbatches, len(job.cluster.devices)
    label = np.array(data.draw(st.lists(st.integers(0, 1), min_size=devices, max_size=devices)))
    label = np.unique(label, return_inverse=True)[1]
    tables = layer_sums(job.costs, job.cluster, count, replicas)
    moves = by_island(island_model(Network(job.cluster), label), replicas, count)
    target = share * total_work(job.costs, job.cluster, count) + 1e-6
    incoming = incoming_of(moves)
    (plain, cells), (fast, same) = (
        tails_of(tables, moves, target, kernel) for kernel in (backwards, compiled(backwards))
    )
    assert all(map(np.array_equal, cells, same))
    assert all(np.array_equal(one[left], other[left]) for one, other, left in zip(plain, fast, cells, strict=True))
    for grain in (2.0, 0.02):
        left, also = (Cells(*(one.copy() for one in cells)) for _ in range(2))
        found = reachable(tables, moves, incoming, plain, left, target, grain, compiled(extended))
        assert found == reachable(tables, moves, incoming, plain, also, target, grain, extended)
        assert all(map(np.array_equal, left, also))


@settings(max_examples=25)
@given(jobs(calm=True), st.floats(0.3, 2), st.sampled_from(["split", "whole"]), st.data())
def test_a_coarser_description_allows_no_less(job, share, replicas, data):
    """A coarse grain beside a fine one, and islands beside their shapes, beside their forms."""
    count, devices = job.plan.microbatches, len(job.cluster.devices)
    label = np.array(data.draw(st.lists(st.integers(0, 1), min_size=devices, max_size=devices)))
    assume(len(set(label.tolist())) == 2)
    model = island_model(Network(job.cluster), label)
    tables = layer_sums(job.costs, job.cluster, count, replicas)
    target = share * total_work(job.costs, job.cluster, count) + 1e-6
    exact, shapes, forms = (made(model, replicas, count) for made in (by_island, by_shape, by_form))
    fine = reaches(tables, exact, target, 0.02)
    assert fine <= reaches(tables, exact, target, 2.0)
    assert fine <= reaches(tables, shapes, target, 0.02) <= reaches(tables, forms, target, 0.02)


def test_all_reduces_that_start_late_have_only_the_rest_of_the_time():
    """Two stages, each on both servers so that activations stay inside: their all-reduces share the NICs at the end."""
    costs = costs_of(even_trace(4, output_bytes=4_000_000, parameter_bytes=20_000_000))
    cluster = load_cluster('servers(2, 2, intra="4GB/s", inter="1GB/s", latency=0, network_latency=0)')
    model = island_model(Network(cluster), np.array([0, 0, 1, 1]))
    tables, moves = layer_sums(costs, cluster, 32, "whole"), by_island(model, "whole", 32)
    with_rest, without = (
        Guesses(one, lambda: moves).least(1e-3, np.inf) for one in (tables, tables._replace(late=np.zeros(1)))
    )
    stages = (Stage(0, 2, ("node0.gpu0", "node1.gpu0")), Stage(2, 4, ("node0.gpu1", "node1.gpu1")))
    plan = Plan("even", 4, 32, stages, "whole")
    both = metrics.iteration_time(run(lower(Setup(plan, one_f_one_b(plan, warm_up="3A"), costs, cluster))))
    assert 1.01 * without < with_rest <= both


def example(sharing="fair"):
    """Two servers of two devices, four layers: sums, moves, and the work over all devices."""
    costs = costs_of(even_trace(4, output_bytes=4_000_000, parameter_bytes=2_000_000))
    cluster = load_cluster('servers(2, 2, intra="4GB/s", inter="1GB/s")')
    model = island_model(Network(cluster), np.array([0, 0, 1, 1]), sharing)
    return layer_sums(costs, cluster, 8, "split"), by_island(model, "split", 8), total_work(costs, cluster, 8)


def test_no_plan_is_faster_than_the_work_over_all_devices_and_some_plan_has_ten_times_as_long():
    sums, moves, work = example()
    for factor, expected in [(0.99, False), (10.0, True)]:
        assert reaches(sums, moves, factor * work, 0.02) is expected


def test_a_table_without_room_grows_and_the_search_goes_on_where_it_was(monkeypatch):
    """From few rows on, as from many: the same answers, after several steps of growth."""
    sums, moves, work = example()
    guesses = [factor * work for factor in np.linspace(1.0, 4.0, 12)]
    plenty = [reaches(sums, moves, guess, 0.02) for guess in guesses]
    grown = []

    def counted(frontier):
        larger = with_room(frontier)
        grown.append(len(larger.table) > len(frontier.table))
        return larger

    monkeypatch.setattr(reach, "with_room", counted)
    monkeypatch.setattr(reach, "frontier_of", lambda lists, _, *rest: frontier_of(lists, 1, *rest))
    assert [reaches(sums, moves, guess, 0.02) for guess in guesses] == plenty
    assert sum(grown) > sum(plenty)
    assert len(set(plenty)) == 2
