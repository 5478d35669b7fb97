import numpy as np
import pandas as pd
import pytest

from helpers.places import DATA, needs_data
from helpers.recorded_runs import pipelined
from pipesim.base.errors import InputError
from pipesim.core.recorded_run import OPTIMIZER, RunLayout
from pipesim.importers.run_opening import open_run
from pipesim.studies import equal_stages, run_replay

MEASURED = DATA / "measured"


@pytest.mark.parametrize("engine", ["event", "compiled"])
def test_a_replay_with_launch_gaps_is_the_record_again(engine):
    made = run_replay.replayed(pipelined(RunLayout(3, 2), 5, 2), engine)
    for step in made.steps:
        assert step.simulated == step.recorded
        assert step.without_gaps < step.recorded  # the reduction of gradients is posted 3 ms late
        assert np.array_equal(step.simulated_phases, step.recorded_phases)


def test_phases_of_a_rank_add_up_to_the_step():
    run = pipelined(RunLayout(2, 2), 4, 2)
    for at, step in enumerate(run_replay.replayed(run).steps):
        assert (step.recorded_phases.sum(axis=1) == run.step_ns[at]).all()
        assert (step.recorded_phases >= 0).all()


@pytest.mark.parametrize("name", ["gpipe", "one_f_one_b", "interleaved", "zb_h1", "zb_v"])
def test_the_schedule_is_found_from_the_order_of_computations(name):
    chunks = 2 if name in {"interleaved", "zb_v"} else 1
    run = pipelined(RunLayout(3, vpp=chunks), 6, 1)
    order = equal_stages.setup(name, 3, 6, equal_stages.Times.of(), chunks if chunks > 1 else None).schedule
    assert run_replay.schedule_name(run, order) == name


def test_another_order_is_as_recorded():
    run = pipelined(RunLayout(2), 4, 1)
    order = run_replay.order_of(run)
    assert run_replay.schedule_name(run, order) == "one_f_one_b"
    changed = run_replay.order_of(run.select(~((run.stage == 1) & (run.microbatch == 3) & run.is_computation)))
    assert run_replay.schedule_name(run, changed) == run_replay.AS_RECORDED


def test_a_run_without_computations_has_no_order():
    run = pipelined(RunLayout(2), 2, 1)
    with pytest.raises(InputError, match="has no forwards and backwards"):
        run_replay.order_of(run.select(run.kind == OPTIMIZER))


def test_the_comparison_has_recorded_and_simulated_seconds_of_every_step_and_rank():
    data = run_replay.comparison(run_replay.replayed(pipelined(RunLayout(3, 2), 4, 3)))
    assert [step["step"] for step in data["steps"]] == [1, 2, 3]
    for step in data["steps"]:
        assert step["recorded_s"] == step["simulated_s"] > step["without_gaps_s"]
    assert data["errors"]["error"] == {"mean": 0, "mean_absolute": 0, "worst": 0}
    assert data["errors"]["error_without_gaps"]["worst"] < 0
    assert [row["rank"] for row in data["per_rank"]] == [0, 1, 2, 3, 4, 5]
    assert set(data["per_rank"][0]["recorded_s"]) == set(run_replay.PHASES)


def test_drawn_timelines_have_operations_where_they_were_recorded():
    run = pipelined(RunLayout(2), 4, 2)
    for timeline in (*run_replay.timelines(run, 1).values(), run_replay.recorded_timeline(run, 1)):
        rows = run.step == 1
        assert timeline.makespan == run.step_ns[1]
        assert np.array_equal(timeline.start[: rows.sum()], run.start[rows])


@pytest.mark.parametrize(("job", "worst_without"), [("ST", 0.0189), ("SE", 0.0051)])
def test_recorded_jobs_are_replayed_within_the_error_of_the_authors_replay(job, worst_without):
    """The authors' own replay misses these jobs by 1.89 and 0.51 % (mean), without launch gaps."""
    run = open_run([needs_data(MEASURED / "straggler" / f"trace-{job}.parquet")])
    run = run.of_steps(np.arange(6))
    errors = run_replay.comparison(run_replay.replayed(run))["errors"]
    assert errors["error"]["mean_absolute"] < 0.0001
    assert errors["error_without_gaps"]["mean_absolute"] < worst_without
    published = pd.read_csv(MEASURED / "straggler" / "steps.csv").query("job == @job")["actual_s"].to_numpy()[:6]
    np.testing.assert_allclose([step.recorded / 1e9 for step in run_replay.replayed(run).steps], published, atol=2e-6)


def test_a_dump_without_messages_is_replayed():
    run = open_run([needs_data(MEASURED / "primus" / "pp_vis_ops.csv.gz")])
    made = run_replay.replayed(run.of_steps(np.arange(2, 5)))
    errors = run_replay.comparison(made)["errors"]
    assert made.schedule == "one_f_one_b"
    assert errors["error"]["mean_absolute"] < 0.0001
    assert errors["error_without_gaps"]["mean_absolute"] < 0.011
