"""Recorded runs from tables of operations and from dumps of pipelines."""

import functools
import json
import random
from collections import Counter
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from helpers.places import DATA, needs_data
from helpers.recorded_runs import pipelined
from helpers.spoiling import spoilt
from helpers.spoilt_files import judge
from pipesim.base import tables
from pipesim.base.errors import InputError
from pipesim.core.recorded_run import BACKWARD, COLLECTIVE, FORWARD, POINT_TO_POINT, RunLayout
from pipesim.importers.operations import column_mapping, pipeline_dumps
from pipesim.importers.operations.column_mapping import ColumnMapping, mapping_named, mapping_of
from pipesim.importers.operations.communication_matching import counted, group_numbers
from pipesim.importers.operations.operation_columns import OperationColumns, RunFacts
from pipesim.importers.operations.operation_table import operation_table, preset_for, table_of_run
from pipesim.importers.operations.run_assembly import run_of_operations
from pipesim.importers.run_opening import open_run, run_format

MEASURED = DATA / "measured"
PRODUCTION = {"forward": "forward-compute", "backward": "backward-compute", "send_activation": "forward-send",
              "receive_activation": "forward-recv", "send_gradient": "backward-send",
              "receive_gradient": "backward-recv", "collective": "grads-reduce-scatter",
              "optimizer": "optimizer"}  # fmt: skip


def production_table(path, run):
    """The run as production jobs are recorded: seconds, one order per kind, no microbatches of messages."""
    kinds = np.array(list(column_mapping.KINDS))[run.kind]
    lane = run.step * len(run.ranks) + run.rank
    frame = pd.DataFrame({
        "dp_rank": run.replica[run.rank], "stage": run.position[run.rank], "rank": np.array(run.ranks)[run.rank],
        "step": np.array(run.steps)[run.step], "optype": [PRODUCTION[kind] for kind in kinds],
        "start_ts": run.start / 1e9, "duration": (run.end - run.start) / 1e9,
        "seq_id": counted([run.kind, lane], run.start),
        "mc": np.where(run.is_computation, run.stage // run.layout.pp, -1),
        "mb_id": np.where(run.is_computation, run.microbatch, -1),
    })  # fmt: skip
    shuffled = frame.sample(frac=1, random_state=1)
    if path.suffix == ".parquet":
        shuffled.to_parquet(path, index=False)
    else:
        shuffled.to_csv(path, index=False)
    return path


def same(found, run):
    """Whether two runs have the same operations in the same places, whatever their names and the numbers of matches."""
    columns = ("step", "rank", "kind", "stage", "microbatch", "peer", "start", "end")
    equal = all(np.array_equal(getattr(found, name), getattr(run, name)) for name in columns)
    return equal and found.layout == run.layout and partners(found) == partners(run)


def partners(run):
    """Which operations have the same match."""
    rows = np.flatnonzero(run.match >= 0)
    groups = {}
    for row in rows.tolist():
        groups.setdefault(int(run.match[row]), []).append(row)
    return sorted(groups.values())


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".csv.gz"])
@pytest.mark.parametrize("layout", [RunLayout(3, 2), RunLayout(2, vpp=2)])
def test_a_production_table_gives_the_run_that_was_recorded(suffix, layout, tmp_path):
    run = pipelined(layout, microbatches=4, steps=2)
    path = production_table(tmp_path / f"job{suffix}", run)
    assert (preset_for(path), run_format(path)) == ("straggler_analysis", "table")
    found = open_run([path])
    assert same(found, run)
    assert found.clock.kind == "shared"
    assert not found.notes


def test_messages_have_the_place_of_the_computation_that_makes_or_reads_them(tmp_path):
    found = operation_table(production_table(tmp_path / "job.csv", pipelined(RunLayout(3), microbatches=2, steps=1)))
    messages = np.isin(found.kind, POINT_TO_POINT)
    assert (found.match[messages] >= 0).all()
    for rows in partners(found):
        if found.kind[rows[0]] == COLLECTIVE:
            continue
        assert len({int(found.microbatch[row]) for row in rows}) == 1
        assert abs(int(np.diff(found.stage[rows])[0])) == 1
        assert found.peer[rows].tolist() == found.rank[rows[::-1]].tolist()


def test_messages_of_a_rank_with_one_too_few_have_no_place_and_are_noted(tmp_path):
    run = pipelined(RunLayout(2), microbatches=3, steps=1)
    lost = int(np.flatnonzero(np.isin(run.kind, POINT_TO_POINT))[0])
    found = operation_table(production_table(tmp_path / "job.csv", run.select(np.arange(len(run)) != lost)))
    assert (found.microbatch[np.isin(found.kind, POINT_TO_POINT)] < 0).any()
    assert any("messages without stage and microbatch" in note for note in found.notes)


def test_the_table_that_pipesim_writes_is_read_as_the_same_run(tmp_path):
    run = pipelined(RunLayout(2, 2), microbatches=3, steps=2)
    for name in ("run.csv", "run.parquet"):
        tables.write(tmp_path / name, table_of_run(run))
        assert same(operation_table(tmp_path / name), run)


def test_a_mapping_file_states_columns_kinds_and_units(tmp_path):
    (tmp_path / "mine.toml").write_text(
        '[columns]\nstep = "it"\nrank = "gpu"\noperation = "what"\nstart = "from"\nend = "to"\n'
        '[operations]\nfwd = "forward"\nbwd = "backward"\nreduce = "collective all"\n[table]\ntime_unit = "us"\n'
    )
    (tmp_path / "ops.csv").write_text(
        "it,gpu,what,from,to,extra\n7,0,fwd,10,20,x\n7,0,bwd,20,40,x\n7,0,reduce,40,50,x\n7,0,sleep,50,51,x\n"
    )
    found = open_run([tmp_path / "ops.csv"], columns=str(tmp_path / "mine.toml"))
    assert found.steps == (7,)
    assert found.start.tolist() == [0, 10_000, 30_000, 40_000]
    assert found.end.tolist() == [10_000, 30_000, 40_000, 41_000]
    assert found.notes == ("operations without a stated kind count as other: sleep",)


def test_several_tables_are_one_run(tmp_path):
    run = pipelined(RunLayout(2), microbatches=2, steps=2)
    whole = pd.read_csv(production_table(tmp_path / "job.csv", run))
    for rank in range(2):
        whole[whole["rank"] == rank].to_csv(tmp_path / f"rank{rank}.csv", index=False)
    assert same(open_run([tmp_path / "rank0.csv", tmp_path / "rank1.csv"]), run)


def test_places_of_ranks_follow_from_their_numbers_where_nothing_else_states_them(tmp_path):
    frame = pd.DataFrame([
        {"step": 0, "rank": rank, "operation": "F", "start": rank // 2, "end": rank // 2 + 1} for rank in range(4)
    ])  # fmt: skip
    frame.to_csv(tmp_path / "ops.csv", index=False)
    mapping = ColumnMapping({name: name for name in frame.columns})
    found = operation_table(tmp_path / "ops.csv", columns=mapping, facts=RunFacts(dp=2))
    assert (found.position.tolist(), found.replica.tolist()) == ([0, 0, 1, 1], [0, 1, 0, 1])
    with pytest.raises(InputError, match="4 ranks found, which dp = 3 and tp = 1 do not divide"):
        operation_table(tmp_path / "ops.csv", columns=mapping, facts=RunFacts(dp=3))


def test_microbatches_numbered_through_all_replicas_are_numbered_in_each():
    count = 4
    columns = OperationColumns(
        step=np.zeros(count, np.int64), rank=np.array([0, 0, 1, 1]), kind=np.full(count, FORWARD),
        name=np.zeros(count, np.int64), names=("f",), members=("",), start=np.array([0, 5, 0, 5]),
        end=np.array([5, 9, 5, 9]), position=np.zeros(count, np.int64), replica=np.array([0, 0, 1, 1]),
        microbatch=np.array([0, 2, 1, 3]),
    )  # fmt: skip
    assert run_of_operations(columns, "x").microbatch.tolist() == [0, 1, 0, 1]


# --- clocks ----------------------------------------------------------------------------------------------------------


def shifted(run, ns):
    """The columns of a run whose rank r has a clock that is ahead by ns[r], in absolute time with 1 s per step."""
    off = np.asarray(ns)[run.rank] + run.step * 1_000_000_000
    return OperationColumns(
        step=np.array(run.steps)[run.step], rank=run.rank, kind=run.kind, name=run.name, names=run.names,
        members=("all",) * len(run.names), start=run.start + off, end=run.end + off,
        position=run.position[run.rank], replica=run.replica[run.rank], microbatch=run.microbatch, stage=run.stage,
    )  # fmt: skip


def test_clocks_are_set_by_what_was_sent_and_received():
    run = pipelined(RunLayout(4), microbatches=6, steps=3)
    off = np.array([0, 700_000_000, -300_000_000, 5_000_000])
    found = run_of_operations(shifted(run, off), "x")
    assert found.clock.kind == "aligned"
    assert found.clock.early > 0
    assert np.abs(found.start - run.start).max() <= 2 * found.clock.doubt.max()
    assert found.clock.doubt.max() < 10_000_000  # a message takes 2 ms
    assert np.abs(found.clock.drift).max() < 1e-6


def test_drift_of_clocks_is_estimated():
    run = pipelined(RunLayout(2), microbatches=6, steps=5)
    columns = shifted(run, [0, 0])
    seconds = columns.start / 1e9
    drifted = np.where(run.rank == 1, np.rint(seconds * 50_000).astype(np.int64), 0)  # 50 us per second fast
    columns = replace(
        columns, start=columns.start + drifted + 10**8 * run.rank, end=columns.end + drifted + 10**8 * run.rank
    )
    assert run_of_operations(columns, "x").clock.drift[1] == pytest.approx(50e-6, abs=2e-6)


def test_clocks_stay_as_recorded_if_asked_or_if_nothing_is_impossible():
    run = pipelined(RunLayout(2), microbatches=2, steps=1)
    for facts, kind in ((RunFacts(), "shared"), (RunFacts(clocks="recorded", separate_clocks=True), "separate")):
        found = run_of_operations(shifted(run, [0, 0]), "x", facts)
        assert np.array_equal(found.start, run.start)
        assert found.clock.kind == kind


def test_a_run_without_messages_is_aligned_by_what_reads_what():
    run = pipelined(RunLayout(3), microbatches=4, steps=2)
    computed = run.select(run.is_computation)
    found = run_of_operations(shifted(computed, [0, 10**9, 10**8]), "x")
    doubt = found.clock.doubt.max()
    assert np.abs(found.start - computed.start).max() <= 2 * doubt


# --- mappings --------------------------------------------------------------------------------------------------------


GOOD = {"columns": {"step": "a", "rank": "b", "operation": "c", "start": "d", "end": "e"}}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"columns": {"step": "a"}}, "columns: 'rank' is missing"),
        ({"columns": GOOD["columns"] | {"duration": "f"}}, "either 'end' or 'duration' was expected"),
        ({"columns": GOOD["columns"] | {"stages": "f"}}, "operations have no 'stages'; did you mean 'stage'"),
        ({"columns": GOOD["columns"] | {"stage": 3}}, "stage: 3 found; the heading of a column was expected"),
        ({"operations": {"x": "forwards"}}, "operations: 'forwards' found; one of forward, backward"),
        ({"operations": {"x": "forward data"}}, "a collective with who takes part in it"),
        ({"table": {"time_unit": "h"}}, "time_unit = 'h' found; one of s, ms, us, ns"),
        ({"table": {"clocks": "own"}}, "clocks = 'own' found; one of shared, separate"),
        ({"table": {"unit": "s"}}, "table: 'unit' found; time_unit and clocks"),
        ({"rows": {}}, "'rows' found; the tables columns, operations and table were expected"),
        ({"table": 3}, "table: 3 found; a table was expected"),
    ],
)
def test_wrong_mappings_are_refused(change, message):
    with pytest.raises(InputError, match=message):
        mapping_of(GOOD | change)


def test_an_unknown_preset_is_refused_with_those_that_are_known():
    with pytest.raises(
        InputError, match=r"columns = 'stragler' found; did you mean 'straggler_analysis'\? known are pipesim"
    ):
        mapping_named("stragler")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2\n", "no preset knows"),
        ("", "is no table"),
        ("step,rank,operation,start,end\n", "no operations found"),
        ("step,rank,operation,start,end\n0,0,F,x,1\n", "column 'start': row 0: 'x' found; a number was expected"),
        ("step,rank,operation,start,end\n0,0,F,0,1e300\n", "a finite one, below 146 years, was expected"),
        ("step,rank,operation,start,end\n0.5,0,F,0,1\n", "column 'step': row 0: 0.5 found; a whole number"),
        ("step,rank,operation,start,end\n0,0,,0,1\n", "column 'operation': row 0: nothing found"),
        ("step,rank,operation,start,end\n0,0,G,0,1\n", "'G' found; state in .operations. which of these are forward"),
        ("step,rank,operation,start,end\n0,0,F,3,1\n", "on rank 0 in step 0 ends 2000000000 ns before it starts"),
        ("step,rank,operation,start,end\n0,0,F,0,1\n0,0,F,0,1,2\n", "is not a readable table"),
    ],
)
def test_wrong_tables_are_refused(text, message, tmp_path):
    path = tmp_path / "ops.csv"
    path.write_text(text)
    columns = (
        None
        if "step" not in text
        else ColumnMapping({name: name for name in ("step", "rank", "operation", "start", "end")})
    )
    with pytest.raises(InputError, match=message) as caught:
        operation_table(path, columns=columns)
    assert str(path) in str(caught.value)


def test_of_a_table_with_several_runs_one_must_be_named(tmp_path):
    path = tmp_path / "dump.csv"
    path.write_text("run,rank,iteration,microbatch,chunk,phase,start_s,end_s\na,0,1,0,0,F,0,1\nb,0,1,0,0,F,0,2\n")
    with pytest.raises(InputError, match="run = None found; one of 'a, b' was expected"):
        open_run([path])
    assert open_run([path], run="b").step_ns.tolist() == [2_000_000_000]
    with pytest.raises(InputError, match="nothing: no such file"):
        open_run([tmp_path / "nothing"])


# --- dumps of pipelines ----------------------------------------------------------------------------------------------


def dumped(folder, run, *, named=True):
    """The computations of a run as a JSON file per rank, each on a clock of its own."""
    for rank in range(len(run.ranks)):
        iterations = {}
        for position, step in enumerate(run.steps):
            mine = (run.rank == rank) & (run.step == position) & run.is_computation
            first = run.start[mine].min()
            found = iterations[str(step)] = {"total": 1.0, "memory": 2.0}
            for phase, kind in (("fwd", FORWARD), ("bwd", BACKWARD)):
                rows = np.flatnonzero(mine & (run.kind == kind))
                found[f"{phase}_start"] = ((run.start[rows] - first) / 1e6).tolist()
                found[f"{phase}_end"] = ((run.end[rows] - first) / 1e6).tolist()
                if named:
                    found[f"{phase}_minibatch"] = run.microbatch[rows].tolist()
                    found[f"{phase}_chunk"] = (run.stage[rows] // run.layout.pp).tolist()
        (folder / f"pp_rank_{rank}.json").write_text(json.dumps(iterations))
    (folder / "config.json").write_text(json.dumps({"pp_size": run.layout.pp, "vp_size": run.layout.vpp}))
    return folder


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("layout", [RunLayout(3), RunLayout(2, vpp=2)])
def test_dumps_give_the_computations_on_one_clock(named, layout, tmp_path):
    run = pipelined(layout, microbatches=4, steps=2)
    run = run.select(run.is_computation)
    assert run_format(dumped(tmp_path, run, named=named)) == "pipeline_dump"
    found = open_run([tmp_path])
    assert found.layout == layout
    lists = [sorted(zip(r.rank, r.step, r.kind, r.stage, r.microbatch, strict=True)) for r in (found, run)]
    assert lists[0] == lists[1]
    assert found.clock.kind == "aligned"
    assert np.abs(np.sort(found.start) - np.sort(run.start)).max() <= 4 * found.clock.doubt.max() + 10
    assert any("Megatron's order" in note for note in found.notes) != named


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "iterations by their number were expected"),
        ('{"1": {"fwd_start": [1], "fwd_end": []}}', "fwd: 1 starts and 0 ends found"),
        ('{"x": {}}', "an iteration by its number was expected"),
        ('{"1": {"fwd_start": ["1"], "fwd_end": [2]}}', "fwd_start: '1' found; numbers from"),
        ('{"1": {"fwd_start": [1], "fwd_end": [2], "fwd_minibatch": [1, 2]}}', "1 times, 2 microbatches"),
        ("{", "is not JSON"),
        ("{}", "no forwards and backwards found"),
    ],
)
def test_wrong_dumps_are_refused(text, message, tmp_path):
    (tmp_path / "pp_rank_0.json").write_text(text)
    with pytest.raises(InputError, match=message):
        pipeline_dumps.pipeline_dump(tmp_path / "pp_rank_0.json")


# --- spoilt files, recorded files ------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["production.csv", "production.parquet", "own.csv", "dump"])
def test_spoilt_runs_are_read_or_refused(form, tmp_path):
    run = pipelined(RunLayout(2, vpp=2), microbatches=2, steps=2)
    if form == "dump":
        paths = [dumped(tmp_path, run) / f"pp_rank_{rank}.json" for rank in range(2)]
    elif form == "own.csv":
        tables.write(tmp_path / form, table_of_run(run))
        paths = [tmp_path / form]
    else:
        paths = [production_table(tmp_path / form, run)]
    name = {"dump": None, "own.csv": "pipesim"}.get(form, "straggler_analysis")
    read = functools.partial(open_run, paths, "table" if name else "pipeline_dump", columns=name)
    read()
    rng, tally = random.Random(form), Counter()
    whole = {path: path.read_bytes() for path in paths}
    for turn in range(40):
        path = rng.choice(paths)
        data = spoilt(whole[path], rng)
        path.write_bytes(data)
        tally[judge(read, paths[0] if form != "dump" else tmp_path, data, f"{form} {turn}", 2**21)] += 1
        path.write_bytes(whole[path])
    assert tally["refused"] > 10
    assert tally["read"] > 0 or form.endswith("parquet")


@pytest.mark.parametrize(
    ("file", "layout", "operations", "steps"),
    [
        ("straggler/trace-ST.parquet", RunLayout(4, 2), 6784, 32),
        ("straggler/trace-SE.parquet", RunLayout(2, 32), 107_328, 43),
        ("primus/pp_vis_ops.csv.gz", RunLayout(8), 5120, 20),
    ],
)
def test_recorded_jobs_are_read_whole(file, layout, operations, steps):
    found = open_run([needs_data(MEASURED / file)])
    assert (found.layout, len(found), len(found.steps)) == (layout, operations, steps)
    messages = np.isin(found.kind, POINT_TO_POINT)
    assert (found.match[messages] >= 0).all()


def test_steps_of_recorded_jobs_last_as_published():
    for job in ("ST", "SE"):
        published = pd.read_csv(needs_data(MEASURED / "straggler" / "steps.csv")).query("job == @job")
        found = open_run([MEASURED / "straggler" / f"trace-{job}.parquet"])
        assert list(found.steps) == published["step"].tolist()
        np.testing.assert_allclose(found.step_ns / 1e9, published["actual_s"], atol=2e-6)


def test_groups_and_places_in_groups_are_counted():
    groups = [np.array([1, 0, 1, 1]), np.array([5, 5, 5, 6])]
    number = group_numbers(groups)
    assert number[0] == number[2]
    assert len(set(number.tolist())) == 3
    assert counted(groups, np.array([9, 1, 3, 4])).tolist() == [1, 0, 0, 0]
