"""Live runs kept in a folder, and compared with their simulations."""

from dataclasses import replace

import numpy as np
import pytest

import pipesim as ps
from pipesim.base.errors import RefusedError
from pipesim.core import legality
from pipesim.core.costs import costs_of
from pipesim.studies import live_validation
from pipesim.studies.live_validation import LiveRuns, cases, check_drift, compared, joined, keep, largest_timed, plan_of

CLUSTER = 'flat(2, bandwidth="1GB/s", device="cpu", memory="8GiB")'


@pytest.fixture(scope="module")
def trace():
    return ps.load_trace("gpt-small-cpu")


@pytest.fixture(scope="module")
def cluster():
    return ps.load_cluster(CLUSTER)


def test_there_are_twenty_configurations_of_five_schedules_and_many_cuts():
    found = cases(12)
    assert len({case.name for case in found}) == len(found) == 22
    assert {case.schedule for case in found} == set(live_validation._SCHEDULES)
    assert len({case.cuts for case in found if case.schedule == "1F1B" and case.microbatches == 8}) == 7
    assert len(cases(8)) >= 20
    assert all(0 < cut < 2 for case in cases(2) for cut in case.cuts)


def test_every_plan_can_be_ordered_as_it_was_run(trace, cluster):
    for case in cases(trace.layer_count):
        plan = plan_of(case, trace, cluster)
        scheduler, transfers = live_validation._SCHEDULES[case.schedule]
        setup = ps.make_setup(trace, cluster, plan=plan, scheduler=scheduler, transfers=transfers)
        legality.check(setup.schedule, setup.plan)
        assert [len(chunks) for chunks in setup.plan.chunks] == [len(case.ranks_of_stages) // 2] * 2


def test_what_is_kept_is_compared_row_by_row(trace, cluster, tmp_path):
    chosen = cases(trace.layer_count)
    wanted = [chosen[0], chosen[-1]]
    found = LiveRuns(trace, cluster, dict.fromkeys(wanted, 2.0), ("another",))
    report = keep(found, tmp_path)
    assert [row.id for row in report.rows] == [case.name for case in wanted]
    assert {row.tier for row in report.rows} == {"e"}
    for row, case in zip(report.rows, wanted, strict=True):
        scheduler, transfers = live_validation._SCHEDULES[case.schedule]
        plan = plan_of(case, trace, cluster)
        expected = ps.simulate(trace, cluster, plan=plan, scheduler=scheduler, transfers=transfers)
        assert row.simulated_s == expected.iteration_time
    assert compared(tmp_path) == report
    again = ps.validate(tmp_path / "runs.csv")
    assert [row.simulated_s for row in again.rows] == [row.simulated_s for row in report.rows]


def test_a_machine_that_changed_meanwhile_is_refused(trace):
    check_drift([trace, slower(trace, 1.04), trace])
    with pytest.raises(RefusedError, match=r"within 5% of .* was expected"):
        check_drift([trace, slower(trace, 1.06), trace])
    with pytest.raises(RefusedError, match="not measured"):
        check_drift([trace, slower(trace, 0.94), trace])


def test_recordings_are_joined_sample_by_sample(trace):
    both = joined([trace, slower(trace, 1.04), slower(trace, 1.02)])
    first = costs_of(trace).forward("cpu")
    assert costs_of(both).forward("cpu") == pytest.approx(1.02 * first, rel=0.02)
    count = len(trace.layers["layer"])
    assert len(both.layers["layer"]) == 3 * count
    pairs = set(zip(both.layers["layer"].tolist(), both.layers["sample"].tolist(), strict=True))
    sizes = len(set(trace.layers["microbatch_size"].tolist()))
    assert len(pairs) * sizes == 3 * count


def test_links_are_timed_for_messages_a_few_times_as_large_as_those_sent(trace):
    sent = costs_of(trace).model.cut_bytes[:-1].max()
    assert max(2**20, 2 * sent) <= largest_timed(trace) <= max(2**20, 8 * sent)


def slower(trace, factor):
    times = {name: trace.layers[name] * factor for name in ("forward_s", "backward_s")}
    return replace(trace, layers=trace.layers | {name: np.asarray(value) for name, value in times.items()})
