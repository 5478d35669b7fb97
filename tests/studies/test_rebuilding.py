"""Recorded pipelined iterations, rebuilt and replayed."""

import json
import random
from dataclasses import replace
from pathlib import Path

import click
import numpy as np
import pytest
from click.testing import CliRunner

from helpers import mutations, profiles
from helpers.profiles import Profile, pipelined
from pipesim.analysis.metrics import iteration_time
from pipesim.base import serialisation
from pipesim.base.errors import InputError, PipesimError, RefusedError, ScheduleError
from pipesim.cli import cli
from pipesim.core.cluster import Cluster
from pipesim.core.plan import DERIVED_KEYS, Plan
from pipesim.core.recording import Recording, on_one_clock
from pipesim.core.schedule import LETTERS, Schedule, parse
from pipesim.core.trace import Trace
from pipesim.importers.kineto.action_names import action_of
from pipesim.importers.kineto.pipelined import recording
from pipesim.lowering import Options
from pipesim.studies import loading, rebuilding, results

GPIPE = "0F0,0F1,0F2,0B0,0B1,0B2\n1F0,1F1,1F2,1B0,1B1,1B2"
ONE_F_ONE_B = "0F0,0F1,0B0,0F2,0B1,0B2\n1F0,1B0,1F1,1B1,1F2,1B2"
SPLIT = "0F0,0F1,0I0,0I1,0W0,0W1\n1F0,1I0,1F1,1I1,1W0,1W1"
CHUNKS = "0F0,0F1,2F0,2F1,2B0,2B1,0B0,0B1\n1F0,1F1,3F0,3B0,3F1,3B1,1B0,1B1"
WHOLE = "0F0,0F2,0B0,0B2\n0F1,0F3,0B1,0B3\n1F0,1F1,1B0,1B1,1F2,1F3,1B2,1B3"
SCHEDULES = {"gpipe": GPIPE, "1f1b": ONE_F_ONE_B, "split": SPLIT, "chunks": CHUNKS, "whole": WHOLE}


@pytest.fixture
def run(tmp_path):
    """Write the files of a run that obeys a schedule: (paths, microseconds that it takes)."""

    def make(schedule, **options):
        files, span = pipelined(schedule, **options)
        return [one.write(tmp_path / f"rank{at}.json") for at, one in enumerate(files)], span

    return make


def test_what_was_recorded_becomes_the_schedule_that_was_run(run):
    for schedule in SCHEDULES.values():
        made = rebuilding.rebuilt(recording(run(schedule)[0]))
        assert str(made.schedule) == schedule


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_run_that_keeps_to_the_rules_is_replayed_to_the_nanosecond(run, name):
    """Every action of the recording starts as early as it can; so does every action of the replay."""
    paths, span = run(SCHEDULES[name], transfer=10)
    made = rebuilding.rebuilt(recording(paths))
    compute = made.simulated.program.is_compute
    assert iteration_time(made.recorded) == iteration_time(made.simulated) == pytest.approx(span * 1e-6)
    assert np.array_equal(made.recorded.start[compute], made.simulated.start[compute])
    made.simulated.verify()


def test_every_action_lasts_as_long_as_it_was_recorded_to(tmp_path):
    """Microbatches differ; the replay does not take the median of them."""
    made = Profile()
    for at, (name, start, end) in enumerate([("0F0", 0, 10), ("0F1", 20, 50), ("0B0", 60, 65), ("0B1", 70, 110)]):
        made.range(name, start, start + 1)
        made.kernel(start, start + 0.5 * at, end + 0.5 * at)
    found = rebuilding.rebuilt(recording(made.write(tmp_path / "p.json")))
    assert (found.simulated.end - found.simulated.start).tolist() == [10000, 30000, 5000, 40000]
    assert found.recorded.start.tolist() == [0, 20500, 61000, 71500]


def test_phases_add_up_to_the_iteration_and_say_who_waited_for_what(run):
    paths, _ = run("0F0,0B0\n1F0,1B0", forward=100, backward=200, transfer=10)
    data = rebuilding.comparison(rebuilding.rebuilt(recording(paths)))
    first, second = ([row["recorded_s"], row["replayed_s"]] for row in data["ranks"])
    #   rank 0   FFFFF  . . . . . . . . . . . .  ~ BBBBBBBBBB       ~ waits for a gradient that has been made
    #   rank 1   . . .  ~ FFFFF BBBBBBBBBB  . . . . . . . . .
    us = {phase: seconds * 1e6 for phase, seconds in first[0].items()}
    assert us == pytest.approx({"forward": 100, "backward": 200, "weight": 0, "communication": 10, "idle": 310})
    us = {phase: seconds * 1e6 for phase, seconds in second[0].items()}
    assert us == pytest.approx({"forward": 100, "backward": 200, "weight": 0, "communication": 10, "idle": 310})
    assert first[0] == pytest.approx(first[1])
    assert second[0] == pytest.approx(second[1])
    assert sum(first[0].values()) == pytest.approx(data["recorded_s"])
    assert data["error"] == pytest.approx(0)


def test_input_and_weight_gradients_are_told_apart(run):
    found = recording(run(SPLIT, parts=(70, 30))[0])
    assert np.nanmax(found.trace.layers["backward_input_s"]) == pytest.approx(70e-6)
    assert np.nanmax(found.trace.layers["backward_weight_s"]) == pytest.approx(30e-6)
    assert np.isnan(found.trace.layers["backward_s"]).all()
    rank = rebuilding.comparison(rebuilding.rebuilt(found))["ranks"][0]["replayed_s"]
    assert (rank["backward"], rank["weight"]) == (pytest.approx(140e-6), pytest.approx(60e-6))


def test_a_stall_that_the_rules_do_not_know_shows_as_a_difference(tmp_path):
    """Rank 1 starts its second forward 300 us after it could: recorded as communication, and not replayed."""
    paths = []
    late = [[("0F0", 0, 100), ("0F1", 100, 200), ("0B0", 420, 620), ("0B1", 1020, 1220)]]
    late.append([("1F0", 110, 210), ("1B0", 210, 410), ("1F1", 710, 810), ("1B1", 810, 1010)])
    for rank, row in enumerate(late):
        made = Profile(rank, 2)
        for name, start, end in row:
            made.range(name, start, start + 1)
            made.kernel(start, start, end)
        paths.append(made.write(tmp_path / f"rank{rank}.json"))
    made = rebuilding.rebuilt(recording(paths))
    before, after = (
        rebuilding.spent(timeline)["rank1"]["communication"] for timeline in (made.recorded, made.simulated)
    )
    assert before == pytest.approx(310e-6)
    assert after < 20e-6
    assert made.simulated.makespan < made.recorded.makespan


# --- when an action is at work ---------------------------------------------------------------------------------------


def cpu_action(*, receives):
    """One action of which the first 400 us wait for a message, and the last 100 us send one."""
    made = Profile()
    made.range("0F0", 0, 1000)
    if receives:
        made.range("gloo:recv", -50, 400)
    made.op("aten::linear", 420, 700)
    made.op("aten::relu", 710, 880)
    made.op("c10d::send", 900, 990)
    made.range("0B0", 1000, 1300)
    made.op("aten::mm", 1010, 1200)
    for event in made.events:
        event["ts"] += 100
    return made


def test_on_a_cpu_an_action_lasts_from_the_last_receive_to_the_send(tmp_path):
    found = recording(cpu_action(receives=True).write(tmp_path / "p.json"))
    assert (found.end - found.start).tolist() == [500_000, 300_000]
    found = recording(cpu_action(receives=False).write(tmp_path / "p.json"))
    assert (found.end - found.start).tolist() == [480_000, 290_000]


def test_kernels_that_communicate_are_no_part_of_an_action(tmp_path):
    made = Profile()
    for name, t0 in (("PP:0F0", 0), ("PP:0B0", 1000)):
        made.range(name, t0, t0 + 20)
        made.kernel(t0 + 1, t0 + 100, t0 + 300, stream=84, name="ncclDevKernel_SendRecv")
        made.kernel(t0 + 5, t0 + 300, t0 + 340)
        made.kernel(t0 + 6, t0 + 350, t0 + 400)
    found = recording(made.write(tmp_path / "p.json"))
    assert (found.end - found.start).tolist() == [100_000, 100_000]


def test_work_of_other_threads_belongs_to_the_action_during_which_it_was_launched(tmp_path):
    """Autograd launches the kernels of a backward from a thread of its own."""
    made = Profile()
    made.range("0F0", 0, 20)
    made.kernel(1, 10, 50)
    made.range("0B0", 100, 200)
    made.kernel(110, 120, 180, profiles.AUTOGRAD)
    found = recording(made.write(tmp_path / "p.json"))
    assert (found.end - found.start).tolist() == [40_000, 60_000]


# --- names -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "action"),
    [
        ("PP:0F3", "0F3"),
        ("12W7", "12W7"),
        ("PP:2I1", "2I1"),
        ("Forward 3", "?F3"),
        ("Backward 0", "?B0"),
        ("forward stage 0 microbatch 3", "0F3"),
        ("bwd_stage1_mb2", "1B2"),
        ("stage0.F.mb3", "0F3"),
        ("mb 4: full backward of stage-2", "2B4"),
        ("input gradient, stage 3, micro-batch 0", "3I0"),
        ("backward_weight stage 1 microbatch 9", "1W9"),
        ("wgrad mb3 stage2", "2W3"),
        ("PP:1SEND_F2", None),
        ("PP:1RECV_B0", None),
        ("PP:1UNSHARD", None),
        ("PP:0REDUCE_GRAD", None),
        ("send forward stage 0 microbatch 3", None),
        ("layer 3", None),
        ("forward", None),
        ("ProfilerStep#3", None),
    ],
)
def test_ranges_are_actions_by_their_names(name, action):
    found = action_of(name)
    told = found and f"{'?' if found.stage is None else found.stage}{LETTERS[found.kind]}{found.microbatch}"
    assert told == action


@pytest.mark.parametrize(
    "style",
    ["PP:{0}{1}{2}", "{0}{1}{2}", "{1} stage {0} microbatch {2}", "stage{0}_{1}_mb{2}"],
)
def test_the_run_is_the_same_however_its_ranges_are_called(run, style):
    paths, _ = run(ONE_F_ONE_B, name=style.format)
    assert str(rebuilding.rebuilt(recording(paths)).schedule) == ONE_F_ONE_B


def test_gpipe_of_torch_names_no_stage_and_its_rank_is_the_stage(run):
    words = {"F": "Forward", "B": "Backward"}
    paths, _ = run(GPIPE, name=lambda stage, kind, microbatch: f"{words[kind]} {microbatch}")  # noqa: ARG005 - not named
    assert str(rebuilding.rebuilt(recording(paths)).schedule) == GPIPE


def test_a_users_own_names_are_read_by_a_regular_expression(run):
    words = {"F": "vor", "B": "bwd"}
    paths, _ = run(GPIPE, name=lambda s, k, m: f"<{m}|{words[k]}|{s}>".replace("vor", "forward"))
    with pytest.raises(InputError, match=r"rank0\.json: no range has the name of an action.*option actions") as caught:
        recording(paths)
    assert str(caught.value).count("rank0.json") == 1, "the path is named once"
    pattern = r"<(?P<microbatch>\d+)\|(?P<kind>\w+)\|(?P<stage>\d+)>"
    assert str(rebuilding.rebuilt(recording(paths, actions=pattern)).schedule) == GPIPE
    with pytest.raises(InputError, match=r"actions = .*: has no group kind; named groups"):
        recording(paths, actions=r"<(?P<microbatch>\d+)")
    with pytest.raises(InputError, match=r"actions: '0' in '<0\|.*' found; a kind was expected"):
        recording(paths, actions=r"<(?P<kind>\d+)\|\w+\|(?P<microbatch>\d)")
    with pytest.raises(InputError, match=r"actions: microbatch 'forward' in .* found; a number was expected"):
        recording(paths, actions=r"<\d\|(?P<microbatch>(?P<kind>forward|bwd))")


def test_a_forward_and_a_backward_in_one_range_are_refused(run):
    paths, _ = run(GPIPE, name=lambda s, k, m: f"PP:({s}{k}{m};{s}B0)OVERLAP_F_B")
    with pytest.raises(RefusedError, match=r"rank0\.json: 'PP:\(0F0;0B0\)OVERLAP_F_B': .* overlap cannot be separated"):
        recording(paths)


# --- clocks ----------------------------------------------------------------------------------------------------------


def test_clocks_that_make_the_impossible_are_set_right(run):
    """Rank 1 is 700 us ahead: it would send back what it has not received yet."""
    straight = recording(run(ONE_F_ONE_B)[0])
    crooked = recording(run(ONE_F_ONE_B, offsets=[0, 700])[0])
    assert crooked.shift.tolist() == [0, -700_000]
    assert np.array_equal(crooked.start, straight.start)
    assert not straight.shift.any()


def test_a_clock_is_set_into_the_middle_of_what_is_possible_and_says_how_far_it_may_be_off(run):
    """There and back take 10 us each: between -10 and +10 us nothing is impossible."""
    found = recording(run("0F0,0B0\n1F0,1B0", transfer=10, offsets=[0, 50])[0])
    assert (found.shift.tolist(), found.doubt.tolist()) == ([0, -50_000], [0, 10_000])
    kept = recording(run("0F0,0B0\n1F0,1B0", transfer=10, offsets=[0, 6])[0])
    assert kept.shift.tolist() == [0, 0]
    forced = recording(run("0F0,0B0\n1F0,1B0", transfer=10, offsets=[0, 6])[0], clocks="aligned")
    assert forced.shift.tolist() == [0, -6_000]
    raw = recording(run("0F0,0B0\n1F0,1B0", transfer=10, offsets=[0, 50])[0], clocks="recorded")
    assert raw.shift.tolist() == [0, 0]
    with pytest.raises(InputError, match="clocks = 'ntp' found; one of auto, recorded, aligned"):
        on_one_clock(found, "ntp")


def test_clocks_are_set_from_rank_to_rank(run):
    chain = "0F0,0B0\n1F0,1B0\n2F0,2B0\n3F0,3B0"
    found = recording(run(chain, offsets=[0, 300, -4000, 90_000])[0])
    assert found.shift.tolist() == [0, -300_000, 4_000_000, -90_000_000]
    assert np.array_equal(found.start, recording(run(chain)[0]).start)
    assert (np.diff(found.doubt) > 0).all()  # the further from the first rank, the less is known


# --- iterations ------------------------------------------------------------------------------------------------------


def several(tmp_path, lengths, *, steps=True):
    """One rank with iterations whose forwards take so many microseconds."""
    made = Profile()
    for at, length in enumerate(lengths):
        t0 = 1000 * at
        if steps:
            made.step(at, t0, t0 + 990)
        for name, start, lasting in (("0F0", t0 + 10, length), ("0B0", t0 + 10 + length + 50, 100)):
            made.range(name, start, start + 1)
            made.kernel(start, start, start + lasting)
    return made.write(tmp_path / "rank0.json")


def test_the_iteration_of_median_length_is_replayed_and_all_are_samples(tmp_path):
    for steps in (True, False):
        path = several(tmp_path, [90, 300, 10, 70, 120], steps=steps)
        found = recording(path)
        assert found.trace.layers["forward_s"].tolist() == pytest.approx([90e-6, 300e-6, 10e-6, 70e-6, 120e-6])
        assert found.source == "kineto, iteration 0"
        assert recording(path, number=3).source == "kineto, iteration 3"
        with pytest.raises(InputError, match="number = 5 found; 0 to 4 was expected"):
            recording(path, number=5)


def test_an_iteration_that_was_cut_off_is_not_chosen(run, tmp_path):
    paths, _ = run(GPIPE, steps=3)
    data = json.loads(paths[0].read_text())
    first = [e for e in data["traceEvents"] if e["ts"] > 200 or e["name"].startswith("Profiler")]
    (tmp_path / "rank0.json").write_text(json.dumps(data | {"traceEvents": first}))
    assert recording(paths).source in {"kineto, iteration 1", "kineto, iteration 2"}


# --- what comes of it ------------------------------------------------------------------------------------------------


def test_stages_are_layers_with_a_sample_for_every_microbatch(run):
    found = recording(run(CHUNKS, forward=100, backward=200)[0])
    trace = found.trace
    assert list(dict.fromkeys(trace.layers["name"])) == ["stage 0", "stage 1", "stage 2", "stage 3"]
    assert found.stops == (1, 2, 3, 4)
    assert (trace.layers["forward_s"] == 100e-6).all()
    assert (trace.layers["backward_s"] == 200e-6).all()
    assert len(trace.layers["layer"]) == 8


def with_layers(rank, *, split=False):
    """One rank whose stage runs two layers; operators of the forward have numbers, and the backward nodes them too."""
    made = Profile(rank, 2)
    t0 = 1000 * rank
    for microbatch in range(2):
        at = t0 + 200 * microbatch
        made.range(f"PP:{rank}F{microbatch}", at, at + 100)
        for layer in range(2):
            number = 10 * microbatch + layer
            made.range(f"block{2 * rank + layer}", at + 50 * layer + 1, at + 50 * layer + 40)
            made.op("aten::mm", at + 50 * layer + 2, at + 50 * layer + 30, number, shape=[16])
            made.kernel(at + 50 * layer + 3, at + 50 * layer + 5, at + 50 * layer + 15 + 10 * layer)
    for microbatch in range(2):
        at = 3000 - t0 + 400 * microbatch
        kinds = "IW" if split else "B"
        for part, kind in enumerate(kinds):
            start = at + 150 * part
            made.range(f"PP:{rank}{kind}{microbatch}", start, start + 140)
            for place, layer in enumerate((1, 0)):
                when = start + 60 * place
                made.node("MmBackward0", when + 2, when + 50, 10 * microbatch + layer)
                made.kernel(when + 3, when + 5, when + 25 + 10 * layer + part, profiles.AUTOGRAD)
    return made


def test_layers_inside_of_stages_can_be_planned_anew(tmp_path):
    paths = [with_layers(rank).write(tmp_path / f"rank{rank}.json") for rank in range(2)]
    found = recording(paths, layers="ranges")
    trace = found.trace
    assert list(dict.fromkeys(trace.layers["name"])) == ["block0", "block1", "block2", "block3"]
    assert (trace.layers["forward_s"] * 1e6).round(3).tolist() == [10, 10, 20, 20] * 2
    assert (trace.layers["backward_s"] * 1e6).round(3).tolist() == [20, 20, 30, 30] * 2
    assert found.stops == (2, 4)
    made = rebuilding.rebuilt(found)
    assert [(stage.start, stage.stop) for stage in made.plan.stages] == [(0, 2), (2, 4)]
    plan = results.make_plan(trace, 'flat(4, bandwidth="1GB/s")', "balanced", 4)
    assert plan.layers == 4


def test_layers_inside_of_split_backwards_have_both_gradients(tmp_path):
    paths = [with_layers(rank, split=True).write(tmp_path / f"rank{rank}.json") for rank in range(2)]
    layers = recording(paths, layers="ranges").trace.layers
    assert (layers["backward_input_s"] * 1e6).round(3).tolist() == [20, 20, 30, 30] * 2
    assert (layers["backward_weight_s"] * 1e6).round(3).tolist() == [21, 21, 31, 31] * 2


def test_bytes_at_a_cut_are_those_of_the_messages_between_its_ranks(run):
    paths, _ = run(GPIPE, transfer=10)
    for rank, path in enumerate(paths):
        data = json.loads(path.read_text())
        args = {"Collective name": "recv" if rank else "send", "dtype": "Float", "In msg nelems": 250}
        args |= {"Src Rank": 0, "Dst Rank": 1, "Group size": 2}
        kernel = {"ph": "X", "cat": "kernel", "name": "ncclDevKernel_SendRecv", "pid": 7, "tid": 84, "ts": 160}
        data["traceEvents"].append(kernel | {"dur": 10, "args": args})
        path.write_text(json.dumps(data))
    found = recording(paths)
    assert found.cut_bytes.tolist() == [1000]
    assert found.trace.layers["output_bytes"].tolist() == [1000] * 3 + [0] * 3
    (there, back) = rebuilding.cluster_of(found).links
    assert (there.bandwidth, there.latency) == (pytest.approx(1000 / 10e-6), 0)
    assert (there.source, back.source) == ("rank0", "rank1")


def test_on_another_cluster_the_same_run_takes_as_long_as_its_links_say(run):
    paths, _ = run("0F0,0B0\n1F0,1B0", forward=100, backward=200, transfer=10)
    found = recording(paths)
    slow = loading.load_cluster('flat(2, bandwidth="1GB/s", latency="500us")')
    made = rebuilding.rebuilt(found, slow)
    assert iteration_time(made.simulated) == pytest.approx(600e-6 + 2 * 1000e-6)
    assert iteration_time(made.recorded) == pytest.approx(620e-6)
    with pytest.raises(InputError, match="has 1 devices; 2 were expected, one for each recorded rank"):
        rebuilding.rebuilt(found, loading.load_cluster('flat(1, bandwidth="1GB/s")'))


def test_how_transfers_start_is_an_option(run):
    found = recording(run(GPIPE, transfer=50)[0])
    times = [iteration_time(rebuilding.rebuilt(found, None, Options("fair", how)).simulated)
             for how in ("eager", "rendezvous", "blocking")]  # fmt: skip
    assert times == sorted(times)
    assert times[0] < times[-1]


# --- what cannot be rebuilt ------------------------------------------------------------------------------------------


def test_a_missing_rank_a_copy_and_a_missing_backward_are_named(run):
    paths, _ = run(GPIPE)
    with pytest.raises(InputError, match=r"stage 0 has no forward .*files of all ranks of one pipeline"):
        recording(paths[1:])
    twice, _ = run(GPIPE.replace("1F", "0F").replace("1B", "0B"))
    with pytest.raises(InputError, match=r"0F0 was recorded 2 times, on rank 0 and rank 1; .*data-parallel copies"):
        recording(twice)
    forwards, _ = run("0F0,0F1\n1F0,1F1")
    with pytest.raises(ScheduleError, match=r"1 x 0F0 found; one 0F0 and one 0B0 .* were expected"):
        rebuilding.rebuilt(recording(forwards))


def test_microbatches_that_are_not_assigned_in_turn_make_no_plan(run):
    paths, _ = run("0F0,0F1,0B0,0B1\n0F2,0F3,0B2,0B3\n1F0,1F1,1F2,1F3,1B0,1B1,1B2,1B3")
    with pytest.raises(PipesimError, match=r"stage 0 ran on ranks 0, 1, but not with its microbatches assigned"):
        rebuilding.rebuilt(recording(paths))


def test_actions_that_end_before_they_start_are_no_recording(run):
    found = recording(run("0F0,0B0")[0])
    assert isinstance(found, Recording)
    with pytest.raises(InputError, match="0F0 ends 1 ns before it starts"):
        replace(found, end=found.start - 1)


# --- the command -----------------------------------------------------------------------------------------------------


def command(*words):
    return CliRunner().invoke(cli, ["rebuild", *map(str, words)], catch_exceptions=False)


def test_the_command_prints_recorded_against_replayed_per_rank_and_phase(run):
    paths, _ = run(ONE_F_ONE_B)
    shown = command(*paths)
    assert shown.exit_code == 0
    for word in ("recorded", "replayed", "forward", "backward", "weight", "communication", "idle", "rank 1"):
        assert word in shown.output
    assert "(+0.0 %)" in shown.output
    data = json.loads(command(paths[0].parent, "--json").output)
    assert data["schedule"] == ONE_F_ONE_B.split("\n")
    assert data["recorded_s"] == pytest.approx(data["replayed_s"])
    assert [row["rank"] for row in data["ranks"]] == [0, 1]


def test_the_command_saves_what_it_rebuilt_and_simulate_gives_the_same_time(run, tmp_path):
    paths, span = run(ONE_F_ONE_B)
    out = {name: tmp_path / name for name in ("trace", "plan.json", "schedule.csv", "cluster.toml", "gantt.png")}
    options = ["-o", out["trace"], "--save-plan", out["plan.json"], "--save-schedule", out["schedule.csv"]]
    options += ["--save-cluster", out["cluster.toml"], "--gantt", out["gantt.png"]]
    shown = command(*paths, *options)
    assert shown.output.count("written to") == 5
    assert out["gantt.png"].read_bytes().startswith(b"\x89PNG")
    assert Trace.load(out["trace"]).layer_count == 2
    assert Schedule.load(out["schedule.csv"]) == parse(ONE_F_ONE_B)
    plan = serialisation.load(Plan, out["plan.json"], DERIVED_KEYS)
    cluster = serialisation.load(Cluster, out["cluster.toml"])
    timeline = results.simulate(str(out["trace"]), cluster, plan, str(out["schedule.csv"])).timeline
    assert iteration_time(timeline) == pytest.approx(span * 1e-6)


def test_a_trace_that_is_there_is_replaced_only_by_force_and_a_file_whenever_it_is_named(run, tmp_path):
    """The one may be a recording that took hours; the other was asked for by its name."""
    paths, _ = run(ONE_F_ONE_B)
    plan, trace = tmp_path / "plan.json", tmp_path / "trace"
    command(*paths, "-o", trace, "--save-plan", plan)
    plan.write_text("old")
    with pytest.raises(InputError, match="trace: exists already; choose another name, or replace it with --force"):
        command(*paths, "-o", trace, "--save-plan", plan)
    assert plan.read_text() == "old", "nothing is written where not everything can be"
    command(*paths, "-o", trace, "--force", "--save-plan", plan)
    assert serialisation.load(Plan, plan, DERIVED_KEYS)
    with pytest.raises(InputError, match=r"plan\.json: exists and is not a folder with trace\.toml"):
        command(*paths, "-o", plan, "--force")


def test_names_that_nothing_can_be_written_to_are_refused_before_anything_is_read(tmp_path):
    for option in ("--save-plan", "--save-schedule", "--save-cluster", "--gantt"):
        with pytest.raises(InputError, match=r"x\.doc: cannot"):
            command(tmp_path / "nowhere.json", option, tmp_path / "x.doc")


def test_the_files_may_be_a_folder_and_compressed(tmp_path):
    files, _ = pipelined(GPIPE)
    folder = tmp_path / "run"
    folder.mkdir()
    for rank, one in enumerate(files):
        one.write(folder / f"rank{rank}.json.gz")
    assert "2 stages, 3 microbatches" in command(folder).output
    assert recording(Path(folder)).trace.model == "run"


def test_options_without_effect_are_refused(run):
    paths, _ = run(GPIPE)
    for words in (["--layers", "ranges"], ["--microbatch-size", "4"], ["--depth", "1", "-o", "x"], ["--step", "1"]):
        with pytest.raises(click.UsageError, match="has no effect"):
            CliRunner().invoke(
                cli, ["rebuild", *map(str, paths), *words], catch_exceptions=False, standalone_mode=False
            )


def test_a_spoilt_recording_is_replayed_or_refused_in_one_paragraph(run):
    """A recording of several ranks, one of them changed, is all or nothing: never another error."""
    rng = random.Random(5)
    paths, _ = run(CHUNKS)
    outcomes = []
    for _ in range(250):
        path = rng.choice(paths)
        data = path.read_bytes()
        what, changed = next(mutations.changed_events(json.loads(data), rng, 1))
        path.write_bytes(changed)
        outcomes.append(_replayed_or_refused(paths, what))
        path.write_bytes(data)
    assert 0 < sum(outcomes) < len(outcomes)


def _replayed_or_refused(paths, what):
    refusal = ""
    try:
        rebuilding.rebuilt(recording(paths)).simulated.verify()
    except PipesimError as error:
        refusal = str(error)
    assert len(refusal) < 3000, what
    assert "\n\n" not in refusal, what
    return bool(refusal)
