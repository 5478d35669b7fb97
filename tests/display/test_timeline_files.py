import gzip
import itertools
import json
from dataclasses import replace

import numpy as np
import orjson
import pytest
from hypothesis import given, settings

from helpers.networks import network, pipeline
from helpers.strategies import programs
from pipesim.base.errors import InputError, UnknownNameError
from pipesim.core.program import ALL_REDUCE, LETTERS
from pipesim.core.timeline import Timeline
from pipesim.display import timeline_files
from pipesim.engines.event import run

NS_OF_A_US = 1000  # trace events count in microseconds


def two_stages(microbatches=3, sharing="fifo"):
    return run(pipeline([3, 4], [5, 6], microbatches, "one_f_one_b", hop_bytes=[7], sharing=sharing))


def events_of(timeline, folder, name="trace.json"):
    timeline_files.chrome(timeline, folder / name)
    data = (folder / name).read_bytes()
    return json.loads(gzip.decompress(data) if name.endswith(".gz") else data)["traceEvents"]


def of_phase(events, phase):
    return [event for event in events if event["ph"] == phase]


def span(event):
    """Start and end of a slice in ns; exact, or this fails."""
    start, length = event["ts"] * NS_OF_A_US, event["dur"] * NS_OF_A_US
    assert round(start) == pytest.approx(start, abs=1e-6)
    assert round(length) == pytest.approx(length, abs=1e-6)
    return round(start), round(start) + round(length)


def threads(events):
    """(pid, tid) -> (process, thread)."""
    process = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    return {(e["pid"], e["tid"]): (process[e["pid"]], e["args"]["name"]) for e in events if e["name"] == "thread_name"}


# --- slices ----------------------------------------------------------------------------------------------------------


def test_every_device_is_a_process_in_order_with_threads_for_what_it_does(tmp_path):
    events = events_of(two_stages(), tmp_path)
    names = [e["args"]["name"] for e in events if e["name"] == "process_name"]
    assert names == ["g0", "g1", "links"]
    order = [e["args"]["sort_index"] for e in events if e["name"] == "process_sort_index"]
    assert order == sorted(order)
    assert {*threads(events).values()} == {
        (g, family) for g in ("g0", "g1") for family in ("compute", "sends", "receives")
    }


def test_a_computation_is_a_slice_with_its_task_stage_and_microbatch(tmp_path):
    timeline = two_stages()
    events = events_of(timeline, tmp_path)
    slices = [e for e in of_phase(events, "X") if e["name"] == "1B2"]
    assert len(slices) == 1
    task = slices[0]["args"]["task"]
    assert timeline.program.label(task) == "1B2 on g1"
    assert slices[0]["args"] == {"task": task, "stage": 1, "microbatch": 2}
    assert slices[0]["cat"] == "backward"
    assert span(slices[0]) == (timeline.start[task], timeline.end[task])


def test_a_transfer_is_a_slice_on_its_sender_and_one_on_its_receiver(tmp_path):
    events = events_of(two_stages(), tmp_path)
    where = threads(events)
    found = {
        e["name"]: (where[e["pid"], e["tid"]], e["args"]["bytes"]) for e in of_phase(events, "X") if ">1" in e["name"]
    }
    assert found == {"0>1 to g1": (("g0", "sends"), 7.0), "0>1 from g0": (("g1", "receives"), 7.0)}


def test_an_all_reduce_has_a_thread_of_its_own_and_no_microbatch(tmp_path):
    program = network([1], [(2, 6, [0])], "fifo")
    program = replace(program, kind=np.array([0, ALL_REDUCE]), microbatch=np.array([0, -1]))
    events = events_of(run(program), tmp_path)
    (slice_,) = [e for e in of_phase(events, "X") if e["cat"] == "all_reduce"]
    assert threads(events)[slice_["pid"], slice_["tid"]] == ("g0", "all-reduce")
    assert slice_["name"] == "0A to g0"
    assert slice_["args"] == {"task": 1, "stage": 0, "bytes": 6.0}
    assert not of_phase(events, "s")


@settings(max_examples=40)
@given(programs)
def test_each_task_appears_at_its_time_and_slices_of_a_thread_nest(tmp_path_factory, program):
    timeline = run(program)
    events = events_of(timeline, tmp_path_factory.mktemp("chrome"))
    shown: dict[int, int] = {}
    by_thread: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for event in of_phase(events, "X"):
        task = event["args"]["task"]
        shown[task] = shown.get(task, 0) + 1
        assert span(event) == (timeline.start[task], timeline.end[task])
        assert event["name"].startswith(f"{program.stage[task]}{LETTERS[program.kind[task]]}")
        by_thread.setdefault((event["pid"], event["tid"]), []).append(span(event))
    twice = ~program.is_compute & (program.kind != ALL_REDUCE)
    assert shown == {task: 2 if twice[task] else 1 for task in range(len(program))}
    assert by_thread.keys() == threads(events).keys()
    for slices in by_thread.values():
        ordered = sorted(slices)
        assert all(end <= start for (_, end), (start, _) in itertools.pairwise(ordered))
    assert all(event.get("ts", 0) >= 0 and event.get("dur", 0) >= 0 for event in events)


def test_transfers_that_are_under_way_together_stand_on_threads_of_their_own(tmp_path):
    program = network([2], [(0, 6, [0]), (1, 6, [0])], "fair")
    program = replace(program, source=np.array([0, 1, 0, 0]), target=np.array([0, 1, 1, 1]))
    where = threads(events_of(run(program), tmp_path))
    assert [w for w in where.values() if "e" in w[1] and "compute" not in w[1]] == [
        ("g0", "sends"),
        ("g0", "sends 2"),
        ("g1", "receives"),
        ("g1", "receives 2"),
    ]


# --- arrows and counters ---------------------------------------------------------------------------------------------


@settings(max_examples=40)
@given(programs)
def test_an_arrow_leads_from_each_sent_slice_to_the_received_one(tmp_path_factory, program):
    """An arrow is bound to the slice that encloses its time on its thread, and must come after it in the file."""
    timeline = run(program)
    events = events_of(timeline, tmp_path_factory.mktemp("chrome"))
    written = {(e["pid"], e["tid"], e["args"]["task"]): (n, *span(e)) for n, e in enumerate(events) if e["ph"] == "X"}
    where = threads(events)
    for phase, family in (("s", "sends"), ("f", "receives")):
        ends = [(number, event) for number, event in enumerate(events) if event["ph"] == phase]
        for number, event in ends:
            at, start, end = written[event["pid"], event["tid"], event["id"]]
            assert at < number
            assert start <= round(event["ts"] * NS_OF_A_US) < end
            assert where[event["pid"], event["tid"]][1].startswith(family)
            assert (event.get("bp") == "e") == (phase == "f")
        lasting = ~program.is_compute & (program.kind != ALL_REDUCE) & (timeline.end > timeline.start)
        assert sorted(event["id"] for _, event in ends) == np.flatnonzero(lasting).tolist()


def test_memory_is_counted_per_device(tmp_path):
    timeline = run(pipeline([3], [5], 2, "gpipe"))
    counters = [e for e in of_phase(events_of(timeline, tmp_path), "C") if e["name"] == "memory"]
    assert [(e["ts"], e["args"]) for e in counters] == [
        (0.0, {"bytes": 1}),
        (0.003, {"bytes": 2}),
        (0.011, {"bytes": 1}),
        (0.016, {"bytes": 0}),
    ]


def test_load_is_counted_per_medium_that_carried_something_in_gigabytes_per_second(tmp_path):
    timeline = run(network([2, 5], [(2, 6, [0], 3)], "fifo"))
    events = events_of(timeline, tmp_path)
    links = {e["pid"] for e in events if e["name"] == "process_name" and e["args"]["name"] == "links"}
    counters = [e for e in of_phase(events, "C") if e["pid"] in links]
    assert [(e["name"], e["ts"], e["args"]) for e in counters] == [
        ("link0", 0.0, {"GB/s": 0.0}),
        ("link0", 0.005, {"GB/s": 2.0}),
        ("link0", 0.008, {"GB/s": 0.0}),
    ]


def test_without_transfers_there_is_no_process_for_links(tmp_path):
    events = events_of(run(pipeline([3], [5], 2, "gpipe")), tmp_path)
    assert [e["args"]["name"] for e in events if e["name"] == "process_name"] == ["g0"]


# --- files -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tasks", [1, 7, 100_000])
def test_the_same_events_are_written_whatever_the_size_of_a_chunk(tmp_path, monkeypatch, tasks):
    timeline = two_stages(8)
    whole = events_of(timeline, tmp_path)
    monkeypatch.setattr(timeline_files, "CHUNK", max(2, tasks))
    held = []
    original = orjson.dumps
    monkeypatch.setattr(timeline_files.orjson, "dumps", lambda events: held.append(len(events)) or original(events))
    pieces = events_of(timeline, tmp_path)
    assert max(held) <= max(2, tasks)
    key = json.dumps
    assert sorted(map(key, pieces)) == sorted(map(key, whole))


def test_times_are_exact_decimals_of_a_nanosecond_even_after_days(tmp_path):
    days = 300_000_000_000_001  # ns
    timeline = run(pipeline([days], [3], 1, "gpipe"))
    timeline = replace(timeline, start=np.array([0, days]), end=np.array([days, days + 3]))
    timeline_files.chrome(timeline, tmp_path / "trace.json")
    text = (tmp_path / "trace.json").read_text()
    assert '"ts":300000000000.001,"dur":0.003' in text


def test_a_packed_file_holds_the_same_and_is_the_same_every_time(tmp_path):
    timeline = two_stages()
    assert events_of(timeline, tmp_path, "a.json.gz") == events_of(timeline, tmp_path, "a.json")
    timeline_files.chrome(timeline, tmp_path / "b.json.gz")
    assert (tmp_path / "a.json.gz").read_bytes() == (tmp_path / "b.json.gz").read_bytes()


def test_a_name_in_need_of_escaping_survives(tmp_path):
    timeline = two_stages()
    program = replace(timeline.program, devices=('a "quoted" \\ name\n', "gerät"))
    events = events_of(replace(timeline, program=program), tmp_path)
    assert events[0]["args"]["name"] == 'a "quoted" \\ name\n'
    assert any(e["name"] == "0>0 to gerät" for e in events)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_tables_are_what_a_timeline_saves(tmp_path, suffix):
    timeline = two_stages()
    timeline_files.export(timeline, tmp_path / f"timeline{suffix}")
    assert Timeline.load(tmp_path / f"timeline{suffix}", timeline.program).same_as(timeline)


@pytest.mark.parametrize(("name", "known"), [("t.json", "chrome"), ("t.JSON.GZ", "chrome"), ("t.csv", "csv")])
def test_the_suffix_selects_the_format(tmp_path, name, known):
    timeline_files.export(two_stages(), tmp_path / name)
    guessed = (tmp_path / name).read_bytes()
    timeline_files.export(two_stages(), str(tmp_path / name), known)
    assert (tmp_path / name).read_bytes() == guessed


@pytest.mark.parametrize("name", ["trace.xml", "trace", "trace.gz"])
def test_an_unknown_suffix_is_refused_with_those_that_are_known(tmp_path, name):
    with pytest.raises(InputError, match=r"chrome \(\.json, \.json\.gz\), csv \(\.csv\), parquet \(\.parquet\)"):
        timeline_files.export(two_stages(), tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_an_unknown_format_is_refused_with_the_one_that_was_probably_meant(tmp_path):
    with pytest.raises(UnknownNameError, match="did you mean 'chrome'"):
        timeline_files.export(two_stages(), tmp_path / "trace.json", "chrom")


@pytest.mark.parametrize(("name", "known"), [("t.csv", "chrome"), ("t.json", "parquet")])
def test_a_format_is_not_written_under_the_suffix_of_another(tmp_path, name, known):
    with pytest.raises(InputError, match=known):
        timeline_files.export(two_stages(), tmp_path / name, known)


def test_chrome_alone_refuses_other_suffixes_too(tmp_path):
    with pytest.raises(InputError, match=r"\.json"):
        timeline_files.chrome(two_stages(), tmp_path / "trace.txt")


def test_what_cannot_be_finished_leaves_no_file_behind(tmp_path, monkeypatch):
    monkeypatch.setattr(timeline_files, "_counters", lambda _: iter([{"not": {1, 2}}]))
    with pytest.raises(TypeError):
        timeline_files.chrome(two_stages(), tmp_path / "trace.json")
    assert not list(tmp_path.iterdir())
