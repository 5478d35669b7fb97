"""Recording live process groups: gloo over the loopback, in processes started here or by torchrun."""

import json
import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

dist = pytest.importorskip("torch.distributed", reason="PyTorch is not installed; make test-torch runs these tests")
import torch

from pipesim.base import serialisation
from pipesim.base.errors import InputError, RefusedError
from pipesim.cli import main
from pipesim.core.cluster import Cluster
from pipesim.recorders import exchanges, fitting, launch, links, pinning
from pipesim.recorders.link_files import RecordedLinks
from pipesim.recorders.links import LinkSettings
from pipesim.recorders.quiet import Clocks
from pipesim.studies import loading

QUICK = LinkSettings(samples=3, largest=64, gated=False)
MIB = 2**20

pytestmark = pytest.mark.skipif(not dist.is_gloo_available(), reason="this PyTorch was built without gloo")


@pytest.fixture(scope="module")
def three():
    """What three processes recorded."""
    return launch.in_new_processes(3, QUICK, "auto")


@pytest.fixture(scope="module")
def two():
    """What two processes recorded of large messages too."""
    return launch.in_new_processes(2, LinkSettings(samples=3, largest=16 * MIB, gated=False), "gloo")


def as_if(recorded, one_way, both_ways):
    """The recording with these seconds in place of those of a machine that may be busy."""
    table = recorded.transfers
    seconds = [
        {"p2p": one_way, "both_ways": both_ways, "all_reduce": one_way}[kind](size)
        for kind, size in zip(table["kind"], table["bytes"], strict=True)
    ]
    return replace(recorded, transfers=table | {"seconds": np.array(seconds)})


def test_every_size_is_timed_to_every_process_and_among_every_number_of_them(three):
    table = three.transfers
    p2p, both_ways, reduced = (table["kind"] == kind for kind in ("p2p", "both_ways", "all_reduce"))
    sizes = [4, 8, 16, 32, 64]
    assert sorted(set(zip(table["target"][p2p], table["bytes"][p2p], strict=True))) == [
        (target, size) for target in ("node0.cpu1", "node0.cpu2") for size in sizes
    ]
    assert sorted(set(zip(table["target"][both_ways], table["bytes"][both_ways], strict=True))) == [
        (target, size) for target in ("node0.cpu1", "node0.cpu2") for size in (4, 16, 64)
    ]
    assert sorted(set(zip(table["participants"][reduced], table["bytes"][reduced], strict=True))) == [
        (k, size) for k in (2, 3) for size in (4, 16, 64)
    ]
    assert len(table["bytes"]) == 3 * (2 * 5 + 2 * 3 + 2 * 3), "all samples are kept"
    assert table["sample"].tolist() == table["round"].tolist(), "one of three samples in each of three rounds"
    assert table["round"].tolist() == sorted(table["round"]), "rounds are one after the other"
    assert set(table["source"]) == {"node0.cpu0"}


def test_bytes_of_an_all_reduce_are_those_of_the_whole_values_that_were_added_up():
    """From 6 to 10 bytes: of 2 and 3 values, 8 and 12 bytes; as they are, between two processes."""
    settings = LinkSettings(samples=1, smallest=6, largest=10, gated=False, rounds=1)
    table = launch.in_new_processes(2, settings, "gloo").transfers
    for kind, sizes in (("p2p", [6, 10]), ("both_ways", [6, 10]), ("all_reduce", [8, 12])):
        assert table["bytes"][table["kind"] == kind].tolist() == sizes


def test_times_are_those_of_messages_between_processes(three):
    """Longer than a call of a function, shorter than a second: 64 bytes over the loopback."""
    assert (three.transfers["seconds"] > 1e-6).all()
    assert np.median(three.transfers["seconds"]) < 1.0


def test_the_recorded_cluster_has_the_processes_as_devices(three):
    three = as_if(three, lambda size: size / 1e9, lambda size: 2 * size / 1e9)
    cluster = fitting.cluster_of(three)
    assert {link.duplex for link in cluster.links} == {"half"}
    assert [device.name for device in cluster.devices] == ["node0.cpu0", "node0.cpu1", "node0.cpu2"]
    assert {device.kind for device in cluster.devices} == {"cpu"}
    fit = fitting.fits(three)["intra"]
    route = cluster.route("node0.cpu2", "node0.cpu1")
    assert sum(cluster.timing(route, 64)) == pytest.approx(fit.seconds(64))


def test_it_is_said_where_it_was_recorded(three):
    assert three.about.backend == "gloo"
    assert "torch" in three.about.machine
    assert three.about.not_measured == ()


@pytest.mark.skipif(len(pinning.allowed_cores()) < 2, reason="there are no two cores to choose from here")
def test_each_of_two_processes_is_on_a_core_of_its_own(two):
    """Two that shared one now and then took 4 ms for 64 KiB, which was in the table."""
    first, second = two.about.cores.split(", ")
    assert first.startswith("node0.cpu0 on core ")
    assert second.startswith("node0.cpu1 on core ")
    assert first.rpartition(" ")[2] != second.rpartition(" ")[2]


def test_messages_that_go_both_ways_at_once_have_arrived_when_the_clock_stops(two):
    """16 MiB each way cannot be there in less than a quarter of the time of one way."""
    table = two.transfers
    large = table["bytes"] == 16 * MIB
    one, both = (table["seconds"][large & (table["kind"] == kind)].min() for kind in ("p2p", "both_ways"))
    assert both > one / 4


def test_a_message_of_many_bytes_takes_longer_than_one_of_few(two):
    """16 MiB against 4 bytes: copying alone takes milliseconds."""
    table = two.transfers
    few, many = (table["seconds"][(table["kind"] == "p2p") & (table["bytes"] == size)].min() for size in (4, 2**24))
    assert many > 2 * few


@pytest.mark.parametrize(("rank", "peer"), [(0, 3), (3, 0)])
def test_both_receive_before_either_sends(monkeypatch, rank, peer):
    """With the send first, gloo's word that a receive is posted waited behind it: a full-duplex link took twice."""
    posted = []
    monkeypatch.setattr(dist, "P2POp", lambda operation, _, peer: (operation, peer))
    monkeypatch.setattr(dist, "batch_isend_irecv", lambda operations: posted.append(operations) or [])
    taken = exchanges.both_ways(rank, 3, torch.device("cpu"), 8, exchanges.Take(1, 0, 2, 0))
    assert len(taken) == 2
    assert posted == [[(dist.irecv, peer), (dist.isend, peer)]] * 3


def test_beside_a_neighbour_nothing_is_timed_and_everything_is_named(monkeypatch):
    """Here in this process, as a group of one told that it is two would be: the gate alone."""
    gate = object.__new__(links._Gate)
    shares = iter([0.5] * 20)
    gate.lost, gate._again, gate._clocks = [], 3, Clocks(sleep=lambda _: None)
    monkeypatch.setattr(links._Gate, "_window", lambda self: self.lost.append(next(shares)) or self.lost[-1] <= 0.02)
    timed = []
    assert gate.quietly(lambda: timed.append(1) or []) is None
    assert timed == [], "nothing is run where it is known not to be quiet"
    assert len(gate.lost) == 5, "it was tried as often as patience allowed"


def test_what_was_timed_between_two_quiet_windows_is_kept(monkeypatch):
    gate = object.__new__(links._Gate)
    shares = iter([0.0, 0.5, 0.0, 0.0])
    gate.lost, gate._again, gate._clocks = [], 3, Clocks(sleep=lambda _: None)
    monkeypatch.setattr(links._Gate, "_window", lambda self: self.lost.append(next(shares)) or self.lost[-1] <= 0.02)
    runs = iter([["disturbed"], ["kept"]])
    assert gate.quietly(lambda: next(runs)) == ["kept"]


@pytest.mark.parametrize(
    ("processes", "backend", "message"), [(1, "auto", "2 to 64"), (2, "mpi5", "one of auto, nccl, gloo")]
)
def test_what_cannot_be_started_is_refused(processes, backend, message):
    with pytest.raises(InputError, match=message):
        launch.in_new_processes(processes, QUICK, backend)


@pytest.mark.skipif(dist.is_nccl_available(), reason="there is NCCL here")
def test_nccl_is_refused_where_pytorch_has_none():
    with pytest.raises(RefusedError, match="built without nccl"):
        launch.in_new_processes(2, QUICK, "nccl")


def test_processes_that_torchrun_started_record_too_and_rank_0_alone_has_the_result(tmp_path):
    script = tmp_path / "job.py"
    script.write_text(
        "import os\n"
        "from pathlib import Path\n"
        "from pipesim.recorders import launch\n"
        "from pipesim.recorders.links import LinkSettings\n"
        "assert launch.is_started()\n"
        "links = launch.in_started_group(LinkSettings(samples=3, largest=8, gated=False), 'gloo')\n"
        "assert (links is None) == (os.environ['RANK'] != '0')\n"
        f"links and links.save(Path({str(tmp_path)!r}))\n"
    )
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(script)]
    environment = os.environ | {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert len(RecordedLinks.load(tmp_path).about.devices) == 2


def test_the_command_writes_transfers_and_a_cluster_that_loads(tmp_path, capsys, monkeypatch, two):
    quiet = as_if(two, lambda size: 1e-4 + size / 1e9, lambda size: 1e-4 + size / 1e9)
    monkeypatch.setattr(launch, "in_new_processes", lambda *_: quiet)
    main(["record-links", "-o", str(tmp_path / "made"), "--json"])
    told = json.loads(capsys.readouterr().out)
    assert told["links"]["intra"]["points"][0]["bytes"] == 4
    assert {one["participants"] for one in told["all_reduces"]} == {2}
    assert {path.name for path in (tmp_path / "made").iterdir()} == {"transfers.csv", "links.toml", "cluster.toml"}
    assert loading.load_cluster(str(tmp_path / "made" / "cluster.toml")) == serialisation.load(
        Cluster, tmp_path / "made" / "cluster.toml"
    )
    about = RecordedLinks.load(tmp_path / "made").about
    assert about.command == f"pipesim record-links -o {tmp_path / 'made'} --json"
    main(["record-links", "-o", str(tmp_path / "made"), "--force"])
    text = capsys.readouterr().out
    for words in ("full duplex", "± MAD", "ring over these links", "of a straight line", "cluster written to"):
        assert words in text
