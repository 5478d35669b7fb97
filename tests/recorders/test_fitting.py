import json
from dataclasses import replace

import numpy as np
import pytest

from helpers.recorded_links import PAIR, SIZES, TWO, bucket, gloo_like, links_of, transfers
from pipesim.base.errors import InputError, RefusedError
from pipesim.cli import main
from pipesim.core.cluster import Cluster
from pipesim.recorders import fitting, launch, torch_extra
from pipesim.recorders.link_files import RecordedLinks
from pipesim.studies import loading

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
    assert loading.load_cluster(str(tmp_path / "made" / "cluster.toml")).links[0].duplex == "half"
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
