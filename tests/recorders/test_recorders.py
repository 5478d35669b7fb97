"""What recorders do that needs no PyTorch: the gate, tables of links, what stays empty, what is said without torch."""

import importlib.util
import json
from dataclasses import replace
from itertools import count
from types import SimpleNamespace

import numpy as np
import pytest

from pipesim.base import lookup
from pipesim.base.errors import InputError, RefusedError
from pipesim.cli import main, record
from pipesim.core.cluster import Cluster, Device
from pipesim.core.trace import OptimizerStep, Trace
from pipesim.recorders import (
    RECORDERS,
    fitting,
    launch,
    layer_recording,
    measuring,
    message_times,
    noise,
    pinning,
    quiet,
    torch_extra,
)
from pipesim.recorders.link_files import About, RecordedLinks
from pipesim.recorders.links import LinkSettings
from pipesim.recorders.measuring import Measurements, Settings
from pipesim.studies import experiment

# --- the gate --------------------------------------------------------------------------------------------------------


class Machine:
    """Clocks that go on by 10 ms whenever they are read, while a neighbour takes the core where `busy` says so."""

    def __init__(self, busy):
        self._now = self._cpu = 0.0
        self._busy = busy
        self.clocks = quiet.Clocks(self._wall, lambda: self._cpu, self._sleep)

    def _sleep(self, seconds):
        self._now += seconds

    def _wall(self):
        self._now += 0.01
        self._cpu += 0.0 if self._busy(self._now) else 0.01
        return self._now


def test_on_a_quiet_machine_everything_is_measured_once_in_windows_of_200_ms():
    calls = count()
    machine = Machine(lambda _: False)
    found = quiet.gather([lambda: next(calls)] * 50, 1.0, machine.clocks)
    assert found.results == list(range(50))
    assert found.lost == [0.0] * len(found.lost)
    assert len(found.lost) >= 2


def test_what_was_measured_beside_a_neighbour_is_thrown_away_and_measured_again():
    calls = count()
    machine = Machine(lambda now: now < 1.0)
    found = quiet.gather([lambda: next(calls)] * 10, 5.0, machine.clocks)
    assert None not in found.results
    assert found.results[0] > 0, "the first calls were thrown away"
    assert found.results == list(range(found.results[0], found.results[0] + 10))
    assert max(found.lost) > 0.9
    assert found.lost[-1] == 0.0


def test_where_a_neighbour_never_leaves_there_are_no_numbers_rather_than_bad_ones():
    found = quiet.gather([lambda: 1.0] * 5, 1.0, Machine(lambda _: True).clocks)
    assert found.results == [None] * 5
    assert len(found.lost) == 3, "it was tried again as long as patience lasted"


def test_a_neighbour_who_takes_less_than_the_limit_is_borne_and_one_who_takes_more_is_not():
    """Of 400 readings of the clock, 10 ms each, the neighbour has every hundredth or every tenth."""
    for every, borne in ((100, True), (10, False)):
        tick = count(1)
        machine = Machine(lambda _, tick=tick, every=every: next(tick) % every == 0)
        window = quiet.Window(machine.clocks)
        for _ in range(400):
            window.age()
        assert (window.lost() <= quiet.LIMIT) is borne


def test_without_a_gate_everything_is_measured_once():
    calls = count()
    assert quiet.gather([lambda: next(calls)] * 5, 0.0, None).results == [0, 1, 2, 3, 4]


def test_waiting_ends_after_three_quiet_windows_in_a_row():
    waited = quiet.wait_until_quiet(60.0, Machine(lambda now: now < 2.0).clocks)
    assert 2.0 < waited < 3.5


def test_waiting_is_given_up_with_a_reason():
    with pytest.raises(RefusedError, match=r"the machine is not quiet: in \d+ of \d+ windows .* at worst for 100%"):
        quiet.wait_until_quiet(1.0, Machine(lambda _: True).clocks)


# --- what stays empty -------------------------------------------------------------------------------------------------


def columns(**given):
    return {name: np.array(values, float) for name, values in given.items()}


def test_mad_and_scatter_are_those_of_a_worked_example():
    """1 2 3 4 9: median 3, distances 2 1 0 1 6, their median 1."""
    assert noise.mad(np.array([[1.0], [2.0], [3.0], [4.0], [9.0]])) == [1.0]
    assert noise.scatter(np.array([[1.0], [2.0], [3.0], [4.0], [9.0]])) == pytest.approx([1 / 3])
    assert noise.scatter(np.zeros((3, 1))) == [0.0]


def test_the_noise_of_a_trace_is_that_of_each_layer_at_each_size():
    """Layer b at size 2: forwards 1 2 3 (MAD 1), backwards 4 4 7 (MAD 0)."""
    rows = [(0, 4), (1, 4), (0, 2), (1, 2)]
    table = {
        "layer": [layer for _ in range(3) for layer, _ in rows],
        "name": ["ab"[layer] for _ in range(3) for layer, _ in rows],
        "microbatch_size": [size for _ in range(3) for _, size in rows],
        "sample": [sample for sample in range(3) for _ in rows],
        "forward_s": [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 2.0, 1.0, 1.0, 1.0, 3.0],
        "backward_s": [1.0, 1.0, 1.0, 4.0, 1.0, 1.0, 1.0, 4.0, 1.0, 1.0, 1.0, 7.0],
        "output_bytes": [size for _ in range(3) for _, size in rows],
    }
    found = {(one.name, one.microbatch_size): one for one in noise.noise(Trace("m", "by hand", 4, table))}
    assert set(found) == {("a", 4), ("b", 4), ("a", 2), ("b", 2)}
    assert found["b", 2].seconds() == (2.0, 1.0, 4.0, 0.0)
    assert found["b", 2].scatter == 0.5
    assert found["a", 4].scatter == 0.0
    assert {one.samples for one in found.values()} == {3}


def test_a_column_that_scatters_is_emptied_for_its_layer_with_its_partner():
    steady, wild = [1.0, 1.0, 1.0, 1.0], [1.0, 2.0, 3.0, 4.0]
    both = np.array([steady, wild]).T
    even = np.array([steady, steady]).T
    measured = Measurements(
        columns(forward_s=both, backward_s=both, backward_input_s=both, backward_weight_s=even, recompute_s=even),
        np.ones(4),
        {},
        [],
    )
    found = layer_recording._blank_scattered(SimpleNamespace(names=("a", "b")), measured, 4)
    assert [(one.what, one.layers) for one in found] == [("backward_input_s", ("b",)), ("backward_weight_s", ("b",))]
    for name in ("backward_input_s", "backward_weight_s"):
        assert not np.isnan(measured.columns[name][:, 0]).any()
        assert np.isnan(measured.columns[name][:, 1]).all()
    assert not np.isnan(measured.columns["forward_s"]).any(), "a forward is never left out"


def test_a_way_that_was_disturbed_leaves_its_columns_empty_and_says_so():
    whole = {"forward_s": [1.0], "backward_s": [2.0]}
    taken = {
        "reference": [whole] * 2,
        "whole": [whole] * 2,
        "first": [{"backward_first_s": [2.0]}, None],
        "split": [{"backward_input_s": [1.0], "backward_weight_s": [1.0]}] * 2,
    }
    measured = measuring._arranged(taken, {"recompute": "it failed"}, [])
    assert set(measured.columns) == {"forward_s", "backward_s", "backward_input_s", "backward_weight_s"}
    assert measured.missing == {"backward_first_s": "the machine was not quiet", "recompute_s": "it failed"}
    assert measured.reference.tolist() == [3.0, 3.0]


@pytest.mark.parametrize(("reference", "passes"), [(3.1, True), (3.2, False), (2.9, True), (2.8, False)])
def test_layers_that_are_off_by_more_than_five_percent_are_refused(reference, passes):
    """Two layers of 0.5 + 1 s: three seconds in all, against what the model takes as it is."""
    measured = Measurements(columns(forward_s=[[0.5, 0.5]], backward_s=[[1, 1]]), np.array([reference]), {}, [])
    if passes:
        assert layer_recording._checked(measured, 4, 0.05).difference == pytest.approx(3 / reference - 1)
    else:
        with pytest.raises(RefusedError, match=r"do not add up: .*within 5% was expected"):
            layer_recording._checked(measured, 4, 0.05)


@pytest.mark.parametrize(("name", "value"), [("microbatches", 7), ("passes", 1), ("warmup", 0), ("threads", 0)])
def test_too_few_measurements_are_refused(name, value):
    with pytest.raises(InputError, match=f"{name} = {value} found; at least {value + 1}"):
        Settings(**{name: value})


# --- links -----------------------------------------------------------------------------------------------------------

SIZES = [4.0**n for n in range(1, 14)]


def gloo_like(size):
    """Two pieces: 40 us and 5 GB/s up to 1 MB, then 3 GB/s."""
    return 40e-6 + min(size, 1e6) / 5e9 + max(size - 1e6, 0) / 3e9


def links_of(devices, rows, missing=()):
    names = ("source", "target", "bytes", "seconds", "kind", "participants", "sample", "round")
    table = {name: np.array(values) for name, values in zip(names, zip(*rows, strict=True), strict=True)}
    about = About(tuple(Device(name, "cpu", node) for name, node in devices), "gloo", "none", not_measured=missing)
    return RecordedLinks(about, table)


def transfers(source, target, seconds, rounds=(1.0, 1.0, 1.0), sizes=SIZES, *, kind="p2p"):
    """Five samples of each size in every round, one of them disturbed; a round takes so many times `seconds`."""
    factors = [
        (number, slower * factor) for number, slower in enumerate(rounds) for factor in (1.0, 1.02, 1.0, 0.98, 3)
    ]
    return [
        (source, target, int(size), seconds(size) * factor, kind, 2, sample, number)
        for size in sizes
        for sample, (number, factor) in enumerate(factors)
    ]


def only(seconds, **given):
    """The fit of two processes of which one way took `seconds`."""
    return fitting.fits(links_of(TWO, transfers(*PAIR, seconds, **given)))["intra"]


TWO = [("node0.cpu0", "node0"), ("node0.cpu1", "node0")]
PAIR = "node0.cpu0", "node0.cpu1"
FOUR = [*TWO, ("node1.cpu0", "node1"), ("node1.cpu1", "node1")]


def alone(cluster, source, target, size):
    return sum(cluster.timing(cluster.route(source, target), size))


def test_a_recorded_cluster_takes_as_long_as_was_recorded():
    cluster = fitting.cluster_of(links_of(TWO, transfers("node0.cpu0", "node0.cpu1", gloo_like)))
    for size in SIZES:
        assert alone(cluster, "node0.cpu0", "node0.cpu1", size) == pytest.approx(gloo_like(size), rel=1e-6)


def test_between_nodes_a_recorded_cluster_takes_as_long_as_was_recorded_there():
    slow = lambda size: 3 * gloo_like(size)  # noqa: E731 - a formula
    rows = transfers("node0.cpu0", "node0.cpu1", gloo_like) + transfers("node0.cpu0", "node1.cpu0", slow)
    cluster = fitting.cluster_of(links_of(FOUR, rows))
    for size in SIZES:
        assert alone(cluster, "node0.cpu0", "node0.cpu1", size) == pytest.approx(gloo_like(size), rel=1e-6)
        assert alone(cluster, "node1.cpu1", "node0.cpu0", size) == pytest.approx(slow(size), rel=1e-6)


def test_one_process_per_node_needs_no_switches_within_nodes():
    pair = [("node0.cpu0", "node0"), ("node1.cpu0", "node1")]
    cluster = fitting.cluster_of(links_of(pair, transfers("node0.cpu0", "node1.cpu0", gloo_like)))
    assert cluster.vertices == ("node0.cpu0", "node1.cpu0", "core")
    assert alone(cluster, "node0.cpu0", "node1.cpu0", 4096) == pytest.approx(gloo_like(4096), rel=1e-6)


def test_a_straight_line_does_not_fit_two_pieces_and_the_table_does():
    fit = fitting.fits(links_of(TWO, transfers("node0.cpu0", "node0.cpu1", gloo_like)))["intra"]
    assert fit.table_error < 1e-6
    assert fit.line_error > 0.05


def test_on_a_straight_line_both_fit():
    line = lambda size: 10e-6 + size / 1e9  # noqa: E731 - a formula
    fit = fitting.fits(links_of(TWO, transfers("node0.cpu0", "node0.cpu1", line)))["intra"]
    assert fit.line_error < 1e-6
    assert fit.delay == pytest.approx(10e-6)
    assert fit.bandwidth == pytest.approx(1e9)
    assert fit.ring(4, 4e6) == pytest.approx(6 * (10e-6 + 1e6 / 1e9))


@pytest.mark.parametrize(
    ("values", "expected"),
    [([1, 2, 3], [1, 2, 3]), ([2, 1, 3], [1.5, 1.5, 3]), ([3, 2, 1], [2, 2, 2]), ([1, 5, 4, 3, 9], [1, 4, 4, 4, 9])],
)
def test_tables_never_fall(values, expected):
    assert message_times.rising(np.array(values, float)).tolist() == expected


def test_one_disturbed_size_does_not_spoil_the_others():
    """4 bytes took fifty times as long as they should, in all rounds: they are left out, which is said."""
    fit = only(lambda size: 2e-3 if size == 4 else gloo_like(size))
    for size in SIZES:
        assert fit.seconds(size) == pytest.approx(gloo_like(size), rel=0.02)
    assert [one.bytes for one in fit.left_out] == [4]
    assert "4 bytes (2, 2, 2 ms in 3 rounds) took longer than 16 bytes" in fit.left_out[0].why


def test_a_size_in_the_middle_that_took_longer_than_larger_ones_is_left_out_and_not_spread_over_them():
    """64 KiB took 4 ms where processes shared a core; it was pooled with its neighbours into a flat stretch."""
    fit = only(lambda size: 4e-3 if size == 65536 else gloo_like(size))
    assert [one.bytes for one in fit.left_out] == [65536]
    assert fit.table_error < 0.01
    assert fit.seconds(65536) == pytest.approx(gloo_like(65536), rel=0.2)


def test_one_disturbed_round_of_three_changes_nothing_and_two_that_differ_leave_the_size_out():
    for size, rounds, left_out in ((256, (1, 9, 1), []), (256, (1, 9, 4), [256])):
        others = [one for one in SIZES if one != size]
        rows = transfers(*PAIR, gloo_like, sizes=others) + transfers(*PAIR, gloo_like, rounds, [size])
        fit = fitting.fits(links_of(TWO, rows))["intra"]
        assert [one.bytes for one in fit.left_out] == left_out
        assert fit.seconds(size) == pytest.approx(gloo_like(size), rel=0.02)
        assert all("is not repeatable" in one.why for one in fit.left_out)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        (SIZES[-1:], r"1 of 13 sizes .*67108864 bytes \(22.28, 200.5, 89.11 ms in 3 rounds\) is not repeatable"),
        (SIZES[-2:-1], r"none from 4194304 bytes on, can be left out"),
        (SIZES[:4], r"4 of 13 sizes are not reliable: 4 bytes .* 256 bytes .* At most 25% of the sizes"),
    ],
)
def test_what_does_not_repeat_at_the_large_end_or_in_many_places_is_refused(sizes, message):
    rows = transfers(*PAIR, gloo_like, sizes=[size for size in SIZES if size not in sizes])
    rows += transfers(*PAIR, gloo_like, (1, 9, 4), sizes)
    with pytest.raises(RefusedError, match=message):
        fitting.cluster_of(links_of(TWO, rows))


def bucket(size):
    """25 MB/s behind a bucket of 128 KiB, into which a message goes at 400 MB/s."""
    return 40e-6 + max(size / 400e6, (size - 2**17) / 25e6)


def test_the_capacity_of_a_link_is_what_its_large_messages_reach_and_not_a_burst_of_a_small_one():
    """16 times what the link carries was written, so that nothing ever contended on it."""
    fit = only(bucket)
    assert fit.bandwidth == pytest.approx(25e6, rel=1e-3)
    for size in SIZES:
        assert fit.seconds(size) == pytest.approx(bucket(size), rel=0.02), "alone a burst is as fast as recorded"
    cluster = fitting.cluster_of(links_of(TWO, transfers(*PAIR, bucket)))
    assert set(cluster.media_bandwidth) == {fit.bandwidth}


def test_one_slow_large_size_does_not_turn_the_slope():
    """Of the three largest sizes the middle one took 10 % longer: the median of the slopes is off by less than that."""
    fit = only(lambda size: bucket(size) * (1.1 if size == SIZES[-2] else 1.0))
    assert fit.bandwidth == pytest.approx(25e6, rel=0.03)


def test_messages_that_are_all_delay_tell_no_capacity():
    with pytest.raises(RefusedError, match=r"16384 bytes .* takes hardly longer than 1024 bytes .* --largest"):
        only(lambda size: 1e-3 + size / 1e9, sizes=SIZES[:7])


@pytest.mark.parametrize(
    ("ratios", "kind", "is_clear"),
    [
        ((2.0, 2.0, 2.0), "half", True),
        ((1.0, 1.0, 1.0), "full", True),
        ((1.7, 1.3, 2.0), "half", False),
        ((1.4, 1.4, 1.4), "full", False),
        ((1.3, 9.0, 1.2), "full", False),
        ((), "full", False),
    ],
)
def test_a_link_is_half_duplex_if_both_ways_at_once_take_longer_than_one(ratios, kind, is_clear):
    """Full was written whatever was recorded, although all-reduces took twice as long as a ring over such links."""
    rows = transfers(*PAIR, bucket) + transfers(*PAIR, bucket, ratios, SIZES[-3:], kind="both_ways")
    links = links_of(TWO, rows)
    fit = fitting.fits(links)["intra"]
    assert (fit.duplex.kind, fit.duplex.is_clear) == (kind, is_clear)
    assert fit.duplex.rounds == pytest.approx(ratios)
    assert {link.duplex for link in fitting.cluster_of(links).links} == {kind}
    size, ring = 2 * SIZES[-1], 2 * bucket(SIZES[-1])
    assert fit.ring(2, size) == pytest.approx(ring * (1 + (kind == "half")), rel=0.01)


def test_rounds_share_the_samples():
    assert [(t.first, t.samples, t.round) for t in LinkSettings(samples=7).takes()] == [(0, 3, 0), (3, 2, 1), (5, 2, 2)]
    assert LinkSettings().large_sizes() == [2**22, 2**24, 2**26]
    assert LinkSettings(smallest=4, largest=8).large_sizes() == [4, 8]


def test_a_process_is_kept_on_a_core_of_its_own_and_let_go(monkeypatch):
    """Of four cores, two and two are threads of one; where processes are more than cores they stay as they are."""
    now = {0, 1, 2, 3}
    monkeypatch.setattr(pinning, "_siblings", lambda core: str(core // 2))
    monkeypatch.setattr(pinning.os, "sched_getaffinity", lambda _: set(now), raising=False)
    monkeypatch.setattr(
        pinning.os, "sched_setaffinity", lambda _, cores: (now.clear(), now.update(cores)), raising=False
    )
    for local, expected in enumerate((0, 2, 1, 3)):
        with pinning.pinned(local, 4):
            assert (pinning.core(), now) == (expected, {expected})
        assert now == {0, 1, 2, 3}
    with pinning.pinned(0, 5):
        assert pinning.core() is None
    monkeypatch.delattr(pinning.os, "sched_setaffinity")
    with pinning.pinned(0, 2):
        assert (pinning.core(), pinning.allowed_cores()) == (None, [])


def test_it_is_said_which_core_a_process_had_or_that_it_had_none_of_its_own():
    assert pinning.described([("a", 0, 2), ("b", 1, 2)]) == "a on core 2, b on core 2"
    for cores in ((2, 2), (None, None), (1, None)):
        found = pinning.described([("a", 0, cores[0]), ("b", 0, cores[1])])
        assert found == "processes without separate cores: times can include waiting for a core"


def test_the_command_says_how_capacity_and_duplex_were_decided_also_in_the_files(tmp_path, capsys, monkeypatch):
    rows = transfers(*PAIR, bucket) + transfers(*PAIR, bucket, (2.0, 2.1, 2.0), SIZES[-3:], kind="both_ways")
    monkeypatch.setattr(torch_extra, "require_torch", lambda _: None)
    monkeypatch.setattr(launch, "in_new_processes", lambda *_: links_of(TWO, rows))
    main(["record-links", "-o", str(tmp_path / "made")])
    printed = capsys.readouterr().out
    text = (tmp_path / "made" / "cluster.toml").read_text()
    for words in (
        "bandwidth 25.00 MB/s, the slope from 4.000 MiB to 64.00 MiB",
        "half duplex, both ways at once took 2.00 times as long as one way (2.00 to 2.10 in 3 rounds; half from 1.5",
    ):
        assert words in printed
        assert f"\n# intra: {words}" in text
        assert any(f"intra: {words}" in line for line in RecordedLinks.load(tmp_path / "made").about.found)
    assert experiment.load_cluster(str(tmp_path / "made" / "cluster.toml")).links[0].duplex == "half"
    main(["record-links", "-o", str(tmp_path / "made"), "--force", "--json"])
    found = json.loads(capsys.readouterr().out)["links"]["intra"]
    assert (found["duplex"], found["duplex_is_clear"], found["left_out"]) == ("half", True, [])


def test_a_recording_that_does_not_repeat_ends_without_a_cluster_and_keeps_its_samples(tmp_path, capsys, monkeypatch):
    rows = transfers(*PAIR, bucket, (1, 9, 4))
    monkeypatch.setattr(torch_extra, "require_torch", lambda _: None)
    monkeypatch.setattr(launch, "in_new_processes", lambda *_: links_of(TWO, rows))
    with pytest.raises(SystemExit) as ended:
        main(["record-links", "-o", str(tmp_path / "made")])
    assert ended.value.code == 2
    error = capsys.readouterr().err
    assert "13 of 13 sizes are not reliable" in error
    assert "No cluster is written; the samples are kept in" in error
    assert {path.name for path in (tmp_path / "made").iterdir()} == {"transfers.csv", "links.toml"}


def test_noise_that_makes_larger_messages_faster_still_gives_a_cluster():
    rng = np.random.default_rng(1)
    noisy = lambda size: gloo_like(size) * rng.uniform(0.8, 1.2)  # noqa: E731 - a formula
    links = links_of(TWO, transfers("node0.cpu0", "node0.cpu1", noisy))
    fit = fitting.fits(links)["intra"]
    assert fit.table_error < 0.25
    assert isinstance(fitting.cluster_of(links), Cluster)


def test_a_cluster_is_not_made_of_half_a_recording():
    rows = transfers("node0.cpu0", "node0.cpu1", gloo_like)
    with pytest.raises(
        RefusedError, match=r"too noisy to measure all that a cluster needs: p2p with node0.cpu1: 4 bytes"
    ):
        fitting.cluster_of(links_of(TWO, rows, ("p2p with node0.cpu1: 4 bytes",)))
    nothing = {name: column[:0] for name, column in links_of(TWO, rows).transfers.items()}
    links = replace(links_of(TWO, rows, ("p2p with node0.cpu1: 4, 8 bytes",)), transfers=nothing)
    with pytest.raises(
        RefusedError, match=r"too noisy to measure all that a cluster needs: p2p with node0.cpu1: 4, 8 bytes"
    ):
        fitting.cluster_of(links)
    with pytest.raises(InputError, match="no transfers of class inter"):
        fitting.cluster_of(links_of(FOUR, rows))


def test_recorded_links_load_as_they_were_saved(tmp_path):
    links = links_of(TWO, transfers("node0.cpu0", "node0.cpu1", gloo_like), ("all-reduce among 2: 4 bytes",))
    links.save(tmp_path)
    again = RecordedLinks.load(tmp_path)
    assert again.about == links.about
    assert all(np.array_equal(again.transfers[name], links.transfers[name]) for name in links.transfers)


def test_sizes_go_from_the_smallest_to_the_largest():
    assert LinkSettings().sizes(2) == [2**n for n in range(2, 27)]
    assert LinkSettings(smallest=4, largest=100).sizes(4) == [4, 16, 64, 100]


@pytest.mark.parametrize("given", [{"smallest": 2}, {"smallest": 8, "largest": 8}, {"samples": 2}, {"rounds": 0}])
def test_sizes_that_make_no_table_are_refused(given):
    with pytest.raises(InputError, match="found"):
        LinkSettings(**given)


def test_a_process_that_torchrun_started_is_known_by_its_environment(monkeypatch):
    for name in launch.STARTED:
        monkeypatch.delenv(name, raising=False)
    assert not launch.is_started()
    for name in launch.STARTED:
        monkeypatch.setenv(name, "0")
    assert launch.is_started()


# --- without torch ---------------------------------------------------------------------------------------------------


def run(capsys, *arguments):
    with pytest.raises(SystemExit) as stop:
        main([str(argument) for argument in arguments])
    return stop.value.code, *capsys.readouterr()


@pytest.mark.parametrize("command", [["record", "module:factory", "-b", "4"], ["record-links"]])
def test_without_torch_one_is_told_how_to_install_it(capsys, monkeypatch, tmp_path, command):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    code, out, err = run(capsys, *command, "-o", tmp_path / "made")
    assert (code, out) == (2, "")
    assert "pip install 'pipesim[torch]'" in err
    assert not (tmp_path / "made").exists()


def test_a_folder_called_torch_is_not_taken_for_pytorch(monkeypatch):
    """tests/with_torch is such a folder: Python imports it as an empty package where there is no PyTorch."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: SimpleNamespace(origin=None))
    with pytest.raises(Exception, match="needs the extra 'torch'"):
        torch_extra.require_torch("recording")


def test_methods_of_the_command_are_those_of_the_family():
    assert set(record.METHODS) == set(RECORDERS)
    for name in RECORDERS:
        assert callable(lookup.function_named(name, RECORDERS, "method"))


@pytest.mark.parametrize("command", [["record", "module:factory", "-b", "4"], ["record-links"]])
def test_a_folder_with_other_things_is_refused_before_anything_is_measured(capsys, monkeypatch, tmp_path, command):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: SimpleNamespace(origin="torch/__init__.py"))
    (tmp_path / "precious.txt").write_text("kept")
    code, _, err = run(capsys, *command, "-o", tmp_path)
    assert code == 2
    assert "exists and is not a folder with" in err
    assert (tmp_path / "precious.txt").read_text() == "kept"


@pytest.mark.parametrize(
    ("command", "there"),
    [
        (["record", "module:factory", "-b", "4"], ["trace.toml"]),
        (["record-links"], ["links.toml"]),
        (["record-links"], ["trace.toml", "transfers.csv"]),
    ],
)
def test_an_earlier_recording_is_replaced_only_by_force_which_is_asked_before_anything_is_measured(
    capsys, monkeypatch, tmp_path, command, there
):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: SimpleNamespace(origin="torch/__init__.py"))
    for name in there:
        (tmp_path / name).write_text("kept")
    code, _, err = run(capsys, *command, "-o", tmp_path)
    assert (code, "exists already; choose another name, or replace it with --force" in err) == (2, True)
    assert {path.name for path in tmp_path.iterdir()} == set(there)


# --- optimizers in a trace -------------------------------------------------------------------------------------------


def trace_with(*optimizers):
    columns = {"layer": [0], "name": ["a"], "forward_s": [1.0], "backward_s": [2.0], "output_bytes": [4]}
    return Trace("m", "by hand", 4, columns | {"parameter_bytes": [1000]}, optimizers=optimizers)


def test_what_optimizers_take_is_kept_in_the_trace(tmp_path):
    trace = trace_with(OptimizerStep("sgd", 1e-11), OptimizerStep("adamw", 1e-9, 2.0))
    trace.save(tmp_path / "t")
    again = Trace.load(tmp_path / "t")
    assert again.same_as(trace)
    assert again.optimizer("adamw") == OptimizerStep("adamw", 1e-9, 2.0)
    assert not again.same_as(trace_with())


def test_a_trace_without_optimizers_says_nothing_of_them(tmp_path):
    trace_with().save(tmp_path / "t")
    assert "optimizers" not in (tmp_path / "t" / "trace.toml").read_text()


def test_an_unknown_optimizer_is_answered_with_those_there_are():
    with pytest.raises(InputError, match=r"no optimizer 'adam'; did you mean 'adamw'\? known are sgd, adamw"):
        trace_with(OptimizerStep("sgd", 0.0), OptimizerStep("adamw", 0.0)).optimizer("adam")
    with pytest.raises(InputError, match="it has none"):
        trace_with().optimizer("adam")


@pytest.mark.parametrize("bad", [(-1.0, 0.0), (float("nan"), 0.0), (0.0, -1.0), (1e9, 0.0)])
def test_steps_that_nothing_takes_are_refused(bad):
    with pytest.raises(InputError, match="optimizer 'sgd'"):
        OptimizerStep("sgd", *bad)


def test_an_optimizer_is_named_once():
    with pytest.raises(InputError, match="duplicate name 'sgd'"):
        trace_with(OptimizerStep("sgd", 0.0), OptimizerStep("sgd", 1.0))


def test_an_iteration_with_a_recorded_optimizer_takes_its_step_longer(tmp_path, capsys):
    """1000 bytes of parameters at 1 ms per byte are a second."""
    trace_with(OptimizerStep("slow", 1e-3, 2.0)).save(tmp_path / "t")

    def seconds(*more):
        cluster = 'flat(1, bandwidth="1GB/s", device="cpu", memory="1 GiB")'
        main(["simulate", str(tmp_path / "t"), cluster, "-m", "1", "--json", *more])
        return json.loads(capsys.readouterr().out)["iteration_time_s"]

    assert seconds("--optimizer", "slow") == pytest.approx(seconds() + 1.0)


def test_an_optimizer_is_either_named_or_stated(tmp_path, capsys):
    trace_with(OptimizerStep("slow", 1e-3, 2.0)).save(tmp_path / "t")
    arguments = ["simulate", tmp_path / "t", "dgx1_v100", "--optimizer", "slow", "--optimizer-state", "1"]
    code, _, err = run(capsys, *arguments)
    assert code == 2
    assert "--optimizer-state has no effect beside --optimizer" in err
