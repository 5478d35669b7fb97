"""Exports of Nsight Systems are read as the profiles of PyTorch that have the same events."""

import functools
import random
import sqlite3
from collections import Counter
from contextlib import closing

import numpy as np
import pytest

from helpers.profiles import pipelined, training
from helpers.spoiling import spoilt
from helpers.spoilt_files import judge
from pipesim.base.errors import InputError
from pipesim.cli import main
from pipesim.core.costs import costs_of
from pipesim.importers.detect import importer_for
from pipesim.importers.kineto import kineto
from pipesim.importers.kineto.nsight import nsight_events
from pipesim.importers.kineto.pipelined import kineto_run, recording
from pipesim.importers.kineto.profile_files import is_folder_of_profiles

ONE_F_ONE_B = "0F0,0F1,0B0,0F2,0B1,0B2\n1F0,1B0,1F1,1B1,1F2,1B2"
SCHEMA = """
CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE NVTX_EVENTS (start INT, end INT, eventType INT, text TEXT, textId INT, globalTid INT, domainId INT);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INT, end INT, correlationId INT, globalTid INT, nameId INT);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL
    (start INT, end INT, deviceId INT, streamId INT, correlationId INT, globalPid INT, shortName INT);
CREATE TABLE TARGET_INFO_GPU (name TEXT);
INSERT INTO TARGET_INFO_GPU VALUES ('NVIDIA H100 80GB HBM3');
"""


def export(made, path, *, process=1):
    """The events of a made profile as Nsight Systems exports them."""
    texts, rows = {}, []
    for event in made.events:
        args, start = event.get("args", {}), round(event["ts"] * 1000)
        end = start + round(event.get("dur", 0) * 1000)
        sort, name = event.get("cat"), event["name"]
        if sort in {"user_annotation", "cpu_op"}:
            text = f"{name}, seq = {args['Sequence number']}" if "Sequence number" in args else name
            number = texts.setdefault(text, len(texts)) if len(rows) % 2 else None
            rows.append(
                ("NVTX_EVENTS", (start, end, 59, None if number is not None else text, number, event["tid"], 0))
            )
        elif sort == "cuda_runtime":
            rows.append(("CUPTI_ACTIVITY_KIND_RUNTIME", (start, end, args["correlation"], event["tid"], 0)))
        elif sort == "kernel":
            number = texts.setdefault(name, len(texts))
            rows.append(
                ("CUPTI_ACTIVITY_KIND_KERNEL", (start, end, 0, args["stream"], args["correlation"], process, number))
            )
    with closing(sqlite3.connect(path)) as database:
        database.executescript(SCHEMA)
        for table, row in rows:
            database.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", row)  # noqa: S608 - made here
        database.executemany("INSERT INTO StringIds VALUES (?, ?)", [(number, text) for text, number in texts.items()])
        database.commit()
    return path


def test_layers_have_the_times_that_the_same_events_in_a_profile_give(tmp_path):
    made = training(steps=3)
    expected = kineto(made.write(tmp_path / "rank0.json"), layers="ranges")
    path = export(made, tmp_path / "rank0.sqlite")
    assert importer_for(path) == "kineto"
    found = kineto(path, layers="ranges")
    assert found.device_kinds == expected.device_kinds
    kind = found.device_kinds[0]
    for seconds in ("forward", "backward"):
        times = [np.asarray(getattr(costs_of(trace), seconds)(kind)) for trace in (found, expected)]
        np.testing.assert_allclose(times[0], times[1])


def test_a_pipelined_run_is_rebuilt_from_exports_of_all_ranks(tmp_path):
    files, _ = pipelined(ONE_F_ONE_B, steps=2)
    expected = kineto_run([one.write(tmp_path / f"rank{at}.json") for at, one in enumerate(files)])
    folder = tmp_path / "exports"
    folder.mkdir()
    for at, one in enumerate(files):
        export(one, folder / f"rank{at}.sqlite")
    assert is_folder_of_profiles(folder)
    found = kineto_run(folder)
    for name in ("step", "rank", "kind", "stage", "microbatch", "start", "end"):
        assert np.array_equal(getattr(found, name), getattr(expected, name))
    assert recording(folder).stages == 2


def test_exports_can_be_imported_from_the_command_line(tmp_path, capsys):
    export(training(), tmp_path / "model.sqlite")
    main(["import", str(tmp_path / "model.sqlite"), "-o", str(tmp_path / "t"), "--format", "kineto(layers='ranges')"])
    assert (tmp_path / "t" / "trace.toml").exists()
    assert "layer0" in capsys.readouterr().out


def test_an_export_of_several_processes_is_refused(tmp_path):
    path = export(training(), tmp_path / "all.sqlite")
    with closing(sqlite3.connect(path)) as database:
        database.execute("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET globalPid = 2 WHERE rowid = 1")
        database.commit()
    with pytest.raises(InputError, match="records 2 processes with GPUs; one export for each rank was expected"):
        nsight_events(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("DROP TABLE NVTX_EVENTS; DROP TABLE CUPTI_ACTIVITY_KIND_KERNEL; DROP TABLE CUPTI_ACTIVITY_KIND_RUNTIME",
         "has no NVTX ranges and no kernels"),
        ("UPDATE NVTX_EVENTS SET end = start - 1 WHERE rowid = 1", "ns, one after the other, were expected"),
        ("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = 'x' WHERE rowid = 1", "start 'x'"),
    ],
)  # fmt: skip
def test_wrong_exports_are_refused(change, message, tmp_path):
    path = export(training(), tmp_path / "rank0.sqlite")
    with closing(sqlite3.connect(path)) as database:
        database.executescript(change)
    with pytest.raises(InputError, match=message):
        nsight_events(path)


def test_columns_that_a_version_does_not_have_are_left_out(tmp_path):
    path = export(training(), tmp_path / "rank0.sqlite")
    with closing(sqlite3.connect(path)) as database:
        database.executescript(
            "ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL DROP COLUMN globalPid; DROP TABLE TARGET_INFO_GPU"
        )
    assert nsight_events(path).device == ""
    assert len(nsight_events(path)) > 10


def test_spoilt_exports_are_read_or_refused(tmp_path):
    path = export(training(), tmp_path / "rank0.sqlite")
    whole, rng, tally = path.read_bytes(), random.Random(3), Counter()
    read = functools.partial(kineto, path, layers="ranges", at_least=0.0)
    for turn in range(40):
        data = spoilt(whole, rng)
        path.write_bytes(data)
        tally[judge(read, path, data, f"nsight {turn}")] += 1
    assert min(tally["refused"], tally["read"]) > 2
