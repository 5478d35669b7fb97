"""Live runs kept in a folder, and compared with their simulations."""

from dataclasses import replace

import numpy as np
import pytest

import pipesim as ps
from pipesim.base.errors import RefusedError
from pipesim.core import legality
from pipesim.studies import live_validation
from pipesim.studies.live_validation import LiveRuns, cases, check_drift, compared, keep, plan_of

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
    check_drift(trace, slower(trace, 1.04))
    with pytest.raises(RefusedError, match=r"\+6.0%; within 5% was expected"):
        check_drift(trace, slower(trace, 1.06))


def slower(trace, factor):
    times = {name: trace.layers[name] * factor for name in ("forward_s", "backward_s")}
    return replace(trace, layers=trace.layers | {name: np.asarray(value) for name, value in times.items()})
