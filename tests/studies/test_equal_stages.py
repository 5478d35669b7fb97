"""Schedules without a trace: what one states is what is simulated."""

import json

import pytest

from pipesim.analysis import metrics
from pipesim.base.errors import InputError
from pipesim.core.schedule import Schedule, parse
from pipesim.core.timeline import Timeline
from pipesim.engines import by_name
from pipesim.lowering import lower
from pipesim.schedulers import SCHEDULERS
from pipesim.studies import equal_stages
from pipesim.studies.equal_stages import Times


@pytest.mark.parametrize(
    ("given", "times"),
    [
        ({}, (1, 2, 1, 1)),
        ({"forward": 3}, (3, 6, 3, 3)),
        ({"backward": 5}, (1, 5, 2.5, 2.5)),
        ({"backward": 5, "input_grad": 2}, (1, 5, 2, 3)),
        ({"backward": 5, "weight_grad": 2}, (1, 5, 3, 2)),
        ({"input_grad": 2}, (1, 4, 2, 2)),
        ({"weight_grad": 2}, (1, 4, 2, 2)),
        ({"input_grad": 2, "weight_grad": 3}, (1, 5, 2, 3)),
    ],
)
def test_times_that_are_not_given_follow_from_those_that_are(given, times):
    made = Times.of(**given)
    assert (made.forward, made.backward, made.input_grad, made.weight_grad) == times


@pytest.mark.parametrize("given", [{"forward": -1}, {"hop": float("nan")}, {"backward": float("inf")}])
def test_times_that_are_none_are_refused(given):
    with pytest.raises(InputError, match="0 s to 146 years was expected"):
        Times.of(**given)


def test_a_hop_is_the_time_of_a_message():
    """Two stages, one microbatch: F, hop, F B, hop, B."""
    timeline = by_name.run(lower(equal_stages.setup("gpipe", 2, 1, Times.of(1, 2, hop=0.25))))
    assert timeline.makespan == (1 + 0.25 + 1 + 2 + 0.25 + 2) * 10**9


@pytest.mark.parametrize(
    ("scheduler", "chunks", "stages"),
    [
        ("interleaved", None, 8),
        ("interleaved", 3, 12),
        ("hanayo", 4, 16),
        ("zb_v", 2, 8),
        ("gpipe", 2, 8),
        ("gpipe", 1, 4),
    ],
)
def test_chunks_are_stages_on_each_device(scheduler, chunks, stages):
    assert len(equal_stages.setup(scheduler, 4, 8, Times(), chunks).plan.stages) == stages


@pytest.mark.parametrize(
    ("scheduler", "chunks", "message"),
    [
        ("hanayo", 3, "chunks = 3 found; hanayo takes a multiple of 2"),
        ("zb_v", 4, "chunks = 4 found; zb_v has 2"),
        ("interleaved(chunks=2)", 3, "chunks = 3 found"),
        ("gpipe", 0, "chunks = 0 found; at least 1"),
        ("gpipe", 2000, "4 x 2000 stages found; 4096 at most"),
        ("one_f_one_b", 2, "holds several stages"),
    ],
)
def test_chunks_that_a_scheduler_does_not_take_are_refused(scheduler, chunks, message):
    with pytest.raises(InputError, match=message):
        equal_stages.setup(scheduler, 4, 8, Times(), chunks)


def test_every_scheduler_says_in_a_line_what_it_does():
    family = equal_stages.family()
    assert list(family) == list(SCHEDULERS)
    assert all(line.endswith((".", ":", ",", "`.")) or len(line) > 40 for line in family.values())


def test_in_a_gallery_every_device_has_the_same_work():
    found = equal_stages.gallery(
        4, 8, Times(), schedulers=("one_f_one_b", "interleaved", "zb_v", "dualpipe_v", "chimera")
    )
    work = {name: [int(ns) for ns in metrics.busy(made)] for name, made in found.items()}
    assert all(isinstance(made, Timeline) for made in found.values())
    assert set(map(tuple, work.values())) == {(24 * 10**9,) * 4}


def test_a_gallery_says_what_has_no_schedule():
    (row,) = equal_stages.gallery_rows(equal_stages.gallery(3, 8, Times(), schedulers=("chimera",)))
    assert "an even number of stages" in row["error"]


# --- the command line ------------------------------------------------------------------------------------------------


def test_schedule_prints_what_it_promises(run):
    code, out, _ = run("schedule", "zb_v", "-p", "2", "-m", "3", "--json")
    data = json.loads(out)
    assert code == 0
    assert data["makespan"] == 6 * 3 + 2 - 1
    assert set(data["bubble"]) == {"idle_share", "longest_stage", "actual_over_ideal"}
    assert data["peak_in_flight"] == {"rank0": 4, "rank1": 4}
    assert len(parse("\n".join(data["table"]))) == 2


def test_schedule_draws_its_table_in_the_terminal(run):
    _, out, _ = run("schedule", "one_f_one_b", "-p", "2", "-m", "2")
    assert "rank0  F0 F1 .  .  B0 B0 .  B1 B1" in out
    assert "rank1  .  F0 B0 B0 F1 B1 B1 .  ." in out
    assert "0: 0F0 0F1 0B0 0B1" in out


def test_schedule_writes_a_file_that_simulate_reads(run, tmp_path):
    path = tmp_path / "s.csv"
    assert run("schedule", "one_f_one_b", "-p", "2", "-m", "4", "-o", path)[0] == 0
    code, out, _ = run(
        "simulate", "bert-large", 'flat(2, bandwidth="1GB/s")', "-p", "balanced", "-s", path, "-m", "4", "--json"
    )
    assert code == 0
    by_name = run("simulate", "bert-large", 'flat(2, bandwidth="1GB/s")', "-p", "balanced", "-m", "4", "--json")[1]
    assert json.loads(out)["iteration_time_s"] == json.loads(by_name)["iteration_time_s"]


def test_the_form_with_messages_is_the_same_schedule(run, tmp_path):
    plain, full = tmp_path / "plain.csv", tmp_path / "full.csv"
    for path, more in ((plain, []), (full, ["--messages"])):
        assert run("schedule", "interleaved", "-p", "2", "-m", "4", "-o", path, *more)[0] == 0
    assert "SEND_F" in full.read_text()
    assert Schedule.load(full) == Schedule.load(plain)


def test_schedules_lists_the_family(run):
    found = json.loads(run("schedules", "--json")[1])
    assert {name: value for name, value in found.items() if name not in {"format", "version"}} == equal_stages.family()
    assert "zb_v" in run("schedules")[1]


def test_gallery_draws_and_tells(run, tmp_path):
    path = tmp_path / "g.png"
    code, out, _ = run("gallery", "-s", "gpipe", "-s", "chimera", "-p", "3", "-o", path)
    assert code == 0
    assert path.stat().st_size > 10_000
    assert "chimera: " in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["schedule", "chimrea"], "did you mean 'chimera'"),
        (["schedule", "zb_w"], "unknown scheduler 'zb_w'; known are"),
        (["schedule", "gpipe", "-p", "0"], "stages = 0 found"),
        (["schedule", "gpipe", "--forward", "-1"], "forward = -1"),
        (["gallery", "-o", "x.doc"], "x.doc"),
    ],
)
def test_mistakes_are_answered_in_a_paragraph(run, arguments, message):
    code, _, error = run(*arguments)
    assert code == 2
    assert message in error
    assert "Traceback" not in error


@pytest.mark.parametrize(("name", "copies"), [("chimera", True), ("dualpipe", True), ("auto", True), ("zb_v", False)])
def test_who_writes_two_copies_of_a_stage_is_told_that_pytorch_has_none(run, tmp_path, name, copies):
    code, _, error = run("schedule", name, "-p", "4", "-m", "8", "-o", tmp_path / "s.csv")
    assert code == 0
    assert ("PyTorch refuses this file" in error) == copies


@pytest.mark.parametrize("name", ["one_f_one_b", "interleaved", "zb_v", "dualpipe", "auto"])
def test_a_file_is_timed_as_the_scheduler_that_wrote_it(name, tmp_path):
    made = equal_stages.setup(name, 4, 8, Times.of(1, 2, hop=0.25))
    path = str(tmp_path / "table.csv")
    made.schedule.save(path)
    assert equal_stages.size_of_table(path) == (4, 8)
    again = equal_stages.setup(path, 4, 8, Times.of(1, 2, hop=0.25))
    assert by_name.run(lower(again)).makespan == by_name.run(lower(made)).makespan
    both = equal_stages.gallery(4, 8, Times(), schedulers=(name, path))
    assert both[name].makespan == both[path].makespan, "a device's work is the same for a file"


def test_a_table_of_another_size_than_was_asked_for_is_refused(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("0F0,0B0\n1F0,1B0\n")
    with pytest.raises(InputError, match=r"table.csv: a table of 2 ranks found; --stages 4 was expected"):
        equal_stages.setup(str(path), 4, 1, Times())
    with pytest.raises(InputError, match="a table of 1 microbatches found; --microbatches 8 was expected"):
        equal_stages.setup(str(path), 2, 8, Times())
    assert len(equal_stages.setup(str(path), 0, 0, Times()).plan.stages) == 2
