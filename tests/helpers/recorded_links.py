"""Recorded links and columns, made up for tests of recorders."""

import numpy as np
import pytest

from pipesim.cli import main
from pipesim.core.cluster import Device
from pipesim.recorders import fitting
from pipesim.recorders.link_files import About, RecordedLinks


def columns(**given):
    return {name: np.array(values, float) for name, values in given.items()}


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


def bucket(size):
    """25 MB/s behind a bucket of 128 KiB, into which a message goes at 400 MB/s."""
    return 40e-6 + max(size / 400e6, (size - 2**17) / 25e6)


def run(capsys, *arguments):
    with pytest.raises(SystemExit) as stop:
        main([str(argument) for argument in arguments])
    return stop.value.code, *capsys.readouterr()
