"""A store that was changed behind our back is not believed; one that cannot be written can be read."""

import json
import os
import random
import shutil
import sqlite3

import pytest

from helpers import sweeps
from pipesim.base.errors import FormatError, InputError
from pipesim.studies import store as stores
from pipesim.studies import sweep
from pipesim.studies.store import Experiment, Result, Store

METRICS = ("iteration_time_s", "tasks")
EXPERIMENT = Experiment("e", "1", "text", ("gpus", "planner"), METRICS)
COUNT = 12


def points():
    return [(n, bytes([n]) * 16, [n + 1, f"p{n}"]) for n in range(COUNT)]


def result(key):
    n = key[0]
    error = "failed" if n == 5 else None
    return Result(key, [] if error else [n / 7, 100 + n], error, refused=False, engine="event", seconds=0.01)


def fill(path):
    """A store with all results; what is there already stays."""
    with Store.open(path, create=True) as opened:
        opened.repair()
        opened.enlist(EXPERIMENT, points())
        opened.commit(METRICS, [result(key) for _, key in list(opened.pending("e", "event"))])


@pytest.fixture
def filled(tmp_path):
    fill(tmp_path / "r.sqlite")
    return tmp_path / "r.sqlite"


def rows(path):
    with Store.open(path) as opened:
        return opened.rows("e", unfinished=True)


def without_log(path):
    for beside in ("-wal", "-shm"):
        path.with_name(path.name + beside).unlink(missing_ok=True)


def changed(path, statement):
    with sqlite3.connect(path) as plain:
        plain.execute(statement)
    plain.close()


def test_one_flipped_bit_is_never_another_number(filled):
    """2 of 7 such flips were shown as results, with exit code 0: SQLite has no checksums of its own."""
    right, data, rng = rows(filled), filled.read_bytes(), random.Random(3)
    refused, repaired = 0, 0
    for bit in rng.sample(range(8 * len(data)), 400):
        broken = bytearray(data)
        broken[bit // 8] ^= 1 << bit % 8
        filled.write_bytes(broken)
        try:
            assert rows(filled) == right, f"bit {bit}: another result, and not a word"
        except InputError:
            refused += 1
            repaired += swept_again(filled, right)
        without_log(filled)
    assert refused > 20, "many of the flips are seen"
    assert repaired > 10, "most files can be swept into again"


def swept_again(path, right):
    """Whether a damaged file is repaired by a sweep, so that all rows are right; otherwise it is refused."""
    try:
        fill(path)
    except InputError:
        return False
    assert rows(path) == right, "the sweep did not compute again what was damaged"
    return True


def test_a_number_changed_in_place_is_refused_and_computed_again(filled, run):
    right = rows(filled)
    changed(filled, "UPDATE results SET iteration_time_s = 0.5 WHERE tasks = 103")
    with pytest.raises(FormatError, match=r"1 of 12 results \(keys 0303.*do not agree with their digests"):
        rows(filled)
    code, out, err = run("rows", filled, "--check", "--json")
    assert code == 2
    assert json.loads(out)["damaged"] == {"structure": "", "results": ["03" * 16], "experiments": []}
    assert "is damaged" in err
    fill(filled)
    assert rows(filled) == right
    code, out, _ = run("rows", filled, "--check")
    assert code == 0
    assert "results      12" in out
    assert "damaged      0 results, 0 experiments" in out


def test_an_index_that_says_otherwise_than_its_table_is_seen(filled):
    """Found by fuzz.stores.attempt(41): SQLite's quick check passes over indexes, by which points are looked up."""
    data, key = filled.read_bytes(), bytes([3]) * 16
    places = [
        place
        for place in range(len(data))
        if data[place - 1 : place + 16] == data[place - 1 : place] + key and data[place - 1] != 3
    ]
    assert len(places) == 3, "in the points, in their index, in the results"
    for place in places:
        broken = bytearray(data)
        broken[place] ^= 1
        filled.write_bytes(broken)
        without_log(filled)
        with pytest.raises(FormatError):
            rows(filled)


def test_a_column_whose_name_was_damaged_is_made_again(filled):
    """Found by fuzz.stores.attempt(381): the experiment was known, so that its columns were not looked at."""
    right = rows(filled)
    changed(filled, "DROP VIEW rows")
    changed(filled, "ALTER TABLE results RENAME COLUMN tasks TO uasks")
    with pytest.raises(FormatError, match="12 results"):
        rows(filled)
    fill(filled)
    assert rows(filled) == right


def test_what_sqlite_quotes_of_a_damaged_file_is_one_line(filled):
    """Found by fuzz.stores.attempt(659): the SQL of a table, of several lines, stood in the message."""
    filled.write_bytes(filled.read_bytes().replace(b"number INTEGER NOT NULL", b"number INTEGER NOT `ULL"))
    with pytest.raises(FormatError, match="malformed database schema") as refused:
        rows(filled)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE points SET gpus = 9 WHERE number = 3",
        "DELETE FROM points WHERE number = 3",
        "UPDATE points SET key = x'00' WHERE number = 3",
        'UPDATE experiments SET metrics = \'["tasks", "iteration_time_s"]\'',
        "UPDATE experiments SET begun = 1",
    ],
)
def test_points_that_were_changed_are_refused_and_put_down_again(filled, statement):
    right = rows(filled)
    changed(filled, statement)
    with pytest.raises(FormatError, match="the points of experiment 'e' do not agree"):
        rows(filled)
    fill(filled)
    assert rows(filled) == right


def test_a_damaged_row_is_named_and_computed_again_by_the_sweep(tmp_path, run):
    path = sweeps.write(tmp_path, sweeps.SMALL, 3)
    sweeps.run(str(path))
    right = sweeps.text_of(path)
    changed(path.with_suffix(".sqlite"), "UPDATE results SET counted = counted + 1 WHERE counted = 3")
    assert run("rows", path)[0] == run("plot", path, "--kind", "line", "--x", "gpus", "--y", "counted")[0] == 2
    code, _, err = run("sweep", path, "--workers", "1")
    assert code == 0
    assert "3 results do not agree with their digests and were removed; computed again: point 3 (gpus = 3, micro" in err
    assert sweeps.text_of(path) == right


def test_other_numbers_of_a_damaged_row_are_not_carried_over(filled):
    """A commit keeps what a row holds beside the new metrics: not if the row is damaged."""
    changed(filled, "UPDATE results SET tasks = 1 WHERE tasks = 103")
    with Store.open(filled, create=True) as opened:
        opened.commit(
            ["iteration_time_s"], [Result(bytes([3]) * 16, [0.25], None, refused=False, engine="event", seconds=0.01)]
        )
        assert not opened.check().found
        assert [number for number, _ in opened.pending("e", "event")] == [3]


# --- files of the version before -------------------------------------------------------------------------------------


def as_version_1(path):
    """The same file without digests."""
    with sqlite3.connect(path) as plain:
        plain.execute("DROP VIEW rows")
        for table, column in (
            ("results", "row digest"),
            ("experiments", "row digest"),
            ("experiments", "points digest"),
        ):
            plain.execute(f'ALTER TABLE {table} DROP COLUMN "{column}"')
        plain.execute("PRAGMA user_version = 1")
    plain.close()


def test_a_file_without_digests_is_read_and_given_them_by_the_next_sweep(filled, run):
    right = rows(filled)
    as_version_1(filled)
    assert rows(filled) == right
    code, out, _ = run("rows", filled, "--check")
    assert code == 0
    assert "none: written by an older version; the next sweep adds them" in out
    fill(filled)
    assert rows(filled) == right
    changed(filled, "UPDATE results SET tasks = 1 WHERE tasks = 103")
    with pytest.raises(FormatError, match="do not agree with their digests"):
        rows(filled)


# --- where nothing can be written ------------------------------------------------------------------------------------


class _Unreadable(sqlite3.Connection):
    """A connection that is opened and then cannot be read, as on a read-only medium."""

    def execute(self, *_):
        sqlite3.connect("/proc/nowhere/r.sqlite")


def unreadable(path, *, uri=False, **more):
    factory = sqlite3.Connection if "immutable=1" in str(path) or "pipesim-" in str(path) else _Unreadable
    return sqlite3.connect(path, uri=uri, factory=factory, **more)


def test_a_store_on_a_read_only_medium_is_read_and_not_called_damaged(filled):
    """`rows` on a read-only mount said: is not a file of results, or damaged."""
    with Store.open(filled, connect=unreadable) as opened:
        assert len(opened.rows("e")[1]) == COUNT
        assert opened.status("e").done == COUNT
    with pytest.raises(InputError, match=r"r\.sqlite: cannot be read: unable to open database file"):
        Store.open(filled, create=True, connect=unreadable)


def test_results_in_the_log_are_read_from_a_read_only_medium_too(filled, tmp_path):
    """A file that is said to be immutable is read without its log, in which the results of a killed sweep are."""
    killed = tmp_path / "killed"
    killed.mkdir()
    with Store.open(filled, create=True) as opened:
        opened.commit(METRICS, [Result(bytes([5]) * 16, [0.5, 7], None, refused=False, engine="event", seconds=0.1)])
        for beside in ("", "-wal"):
            shutil.copyfile(f"{filled}{beside}", killed / f"r.sqlite{beside}")
    assert (killed / "r.sqlite-wal").stat().st_size
    with Store.open(killed / "r.sqlite", connect=unreadable) as opened:
        assert opened.rows("e", "tasks = 7")[1] == [(6, "p5", 0.5, 7, None)]


@pytest.mark.skipif(not hasattr(os, "fork") or os.geteuid() != 0, reason="gives up the rights of root for it")
def test_a_folder_of_somebody_else_can_be_looked_into(filled):
    """Not root, in a folder where nothing may be written: what SQLite really does, and not what a test says it does."""
    for folder in (filled.parent, *filled.parent.parents[:3]):
        folder.chmod(0o755)
    child = os.fork()
    if child == 0:
        os.setuid(65534)
        try:
            found = rows(filled)[1]
            os._exit(0 if len(found) == COUNT else 3)
        except BaseException:  # noqa: BLE001 - the exit code says it
            os._exit(4)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


# --- a clock that was ahead ------------------------------------------------------------------------------------------


def test_results_dated_ahead_of_the_clock_are_said_to_be(filled, run):
    """`last result -277778:21:47 ago` was said where the clock of the machine that computed them was ahead."""
    clock = stores.Clock(now=lambda: 2e9)
    with Store.open(filled, create=True, clock=clock) as opened:
        opened.commit(METRICS, [result(bytes([2]) * 16)])
    with Store.open(filled, clock=stores.Clock(now=lambda: 1e9)) as opened:
        status = opened.status("e")
    assert (status.last_s, status.per_second, status.ahead_s) == (0.0, 0.0, 1e9)
    code, out, _ = run("sweep", filled, "--status")
    assert code == 0
    assert "ahead of this clock" in out
    assert "ago" not in out


# --- what no file can hold -------------------------------------------------------------------------------------------


def too_large(case, timeline):
    """A metric that no store can hold."""
    del case, timeline
    return 2**70


def not_text(case, timeline):
    """A metric that is no text of characters."""
    del case, timeline
    return "\udc80"


def test_a_metric_that_no_store_can_hold_is_a_failed_row(tmp_path):
    """A whole number of 70 bits ended the sweep with a traceback of sqlite3, and so did half a character."""
    text = sweeps.SMALL.replace('"helpers.sweeps:counted"', '"studies.test_store_damage:too_large"')
    path = sweeps.write(tmp_path, text, 1)
    assert sweep.run(sweep.load(path), workers=1).failed == 2
    assert "at most 63 bits" in sweep.rows(path, "error is not null")[1][0][-1]
    path = sweeps.write(tmp_path, text.replace("too_large", "not_text"), 1, "other")
    assert sweep.run(sweep.load(path), workers=1).failed == 0
    assert sweep.rows(path)[1][0][-2] == "\\udc80"
