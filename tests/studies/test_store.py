"""A store loses nothing that was committed, doubles nothing, and answers as SQL would."""

import multiprocessing
import random
import sqlite3
import threading
import time

import pytest

from helpers import sweeps
from pipesim.base.errors import FormatError, InputError
from pipesim.studies import sweep
from pipesim.studies.store import Experiment, Result, Store

METRICS = ("iteration_time_s", "tasks")


def experiment(name="e", digest="1", axes=("gpus", "planner"), metrics=METRICS):
    return Experiment(name, digest, "text", axes, metrics)


def points(count=4):
    return [(n, bytes([n]) * 16, [n + 1, f"p{n}"]) for n in range(count)]


def result(n, values=(0.1, 7), error=None, *, refused=False, engine="event"):
    return Result(bytes([n]) * 16, list(values), error, refused, engine, 0.01)


@pytest.fixture
def store(tmp_path):
    with Store.open(tmp_path / "r.sqlite", create=True) as opened:
        opened.enlist(experiment(), points())
        yield opened


def test_what_is_committed_is_read_back_exactly(store):
    third = 1 / 3
    store.commit(METRICS, [result(2, (third, 2**53 + 1)), result(0, ())])
    columns, rows = store.rows("e")
    assert columns == ["gpus", "planner", *METRICS, "error"]
    assert rows == [(1, "p0", None, None, None), (3, "p2", third, 2**53 + 1, None)]


def test_pending_is_what_has_no_result_and_each_key_once(store):
    store.enlist(experiment(digest="2"), [*points(), (4, bytes([1]) * 16, [9, "again"])])
    store.commit(METRICS, [result(0), result(3, (), "failed")])
    assert list(store.pending("e", "event")) == [(1, bytes([1]) * 16), (2, bytes([2]) * 16)]
    assert [number for number, _ in store.pending("e", "event", retry=True)] == [1, 2, 3]
    status = store.status("e")
    assert (status.total, status.done, status.failed, status.left) == (4, 2, 1, 2)


def test_what_one_engine_refused_is_pending_for_another(store):
    store.commit(METRICS, [result(0, (), "cannot", refused=True), result(1, (), "wrong")])
    assert [n for n, _ in store.pending("e", "event")] == [2, 3]
    assert [n for n, _ in store.pending("e", "compiled")] == [0, 2, 3]


def test_another_metric_is_computed_without_losing_the_others(store):
    store.commit(METRICS, [result(0)])
    store.enlist(experiment(digest="2", metrics=(*METRICS, "bound_s")), points())
    assert [n for n, _ in store.pending("e", "event")] == [0, 1, 2, 3]
    store.commit(["bound_s"], [Result(bytes(16), [0.05], None, refused=False, engine="event", seconds=0.01)])
    assert store.rows("e")[1][0] == (1, "p0", 0.1, 7, 0.05, None)
    assert [n for n, _ in store.pending("e", "event")] == [1, 2, 3]


def test_a_point_is_finished_when_all_its_metrics_are_there(store):
    """Found by fuzz.stores.attempt(321): beside metrics of another experiment, those to come were shown as empty."""
    store.commit(["tasks"], [Result(bytes(16), [7], None, refused=False, engine="event", seconds=0.01)])
    assert store.rows("e")[1] == []
    assert store.rows("e", unfinished=True)[1][0] == (1, "p0", None, 7, None)
    store.commit(["iteration_time_s"], [Result(bytes(16), [0.1], None, refused=False, engine="event", seconds=0.01)])
    assert store.rows("e")[1] == [(1, "p0", 0.1, 7, None)]


def test_points_are_found_by_key_through_an_index_however_many_experiments_there_are(store):
    """It is made after the points of the first experiment, and grows with those of others."""
    for name in ("e", "other"):
        store.enlist(experiment(name, digest="2"), points(8))
        (plan,) = store._db.ask("EXPLAIN QUERY PLAN SELECT number FROM points WHERE key = ?", [b""])
        assert "points_by_key" in plan[-1]
        assert not store.check().found


def test_points_of_another_experiment_share_results(store):
    store.commit(METRICS, [result(0), result(1)])
    store.enlist(experiment("other", axes=("rate",)), [(0, bytes([1]) * 16, [10])])
    assert list(store.pending("other", "event")) == []
    assert store.rows("other") == (["rate", *METRICS, "error"], [(10, 0.1, 7, None)])
    assert [e.name for e in store.experiments()] == ["other", "e"]
    assert len(store.rows("e")[1]) == 2


def test_rows_come_in_the_order_of_the_grid_whatever_the_order_of_commits(store):
    for n in (3, 0, 2, 1):
        store.commit(METRICS, [result(n)])
    assert [row[0] for row in store.rows("e")[1]] == [1, 2, 3, 4]
    assert [row[0] for row in store.rows("e", "gpus > 1")[1]] == [2, 3, 4]


def test_a_query_is_a_condition_or_a_select(store):
    store.commit(METRICS, [result(n, (n / 10, n)) for n in range(4)])
    assert [row[1] for row in store.rows("e", "tasks >= 2 and planner != 'p3'")[1]] == ["p2"]
    columns, rows = store.rows("e", "SELECT count(*) AS n, max(tasks) FROM rows")
    assert (columns, rows) == (["n", "max(tasks)"], [(4, 3)])


@pytest.mark.parametrize(
    "query",
    ["gpu > 1", "1; drop table results", "select", "with x as (select 1) delete from results", "gpus = '\udcff'"],
)
def test_a_query_that_is_wrong_or_writes_is_refused(store, query):
    store.commit(METRICS, [result(0)])
    with pytest.raises(InputError, match="columns are gpus, planner"):
        store.rows("e", query)
    assert len(store.rows("e")[1]) == 1
    store.commit(METRICS, [result(1)])  # and it can be written to afterwards


def test_any_sqlite_tool_sees_the_rows(store):
    store.commit(METRICS, [result(0)])
    with sqlite3.connect(store.path) as plain:
        found = plain.execute("SELECT gpus, planner, tasks FROM rows WHERE tasks IS NOT NULL").fetchall()
    plain.close()
    assert found == [(1, "p0", 7)]


def test_points_that_were_not_computed_are_shown_only_if_asked_for(store):
    store.commit(METRICS, [result(1)])
    assert len(store.rows("e")[1]) == 1
    assert len(store.rows("e", unfinished=True)[1]) == 4


def test_a_grid_that_fails_half_way_leaves_the_old_one(store):
    def broken():
        yield from points(2)
        raise InputError("no more")

    with pytest.raises(InputError, match="no more"):
        store.enlist(experiment(digest="2"), broken())
    assert len(store.rows("e", unfinished=True)[1]) == 4


def test_what_is_no_store_is_refused(tmp_path):
    text = tmp_path / "text.sqlite"
    text.write_text("no database at all, but long enough to look at" * 20)
    other = tmp_path / "other.sqlite"
    with sqlite3.connect(other) as plain:
        plain.execute("CREATE TABLE t (x)")
    plain.close()
    for path, message in (
        (text, "not a file of results"),
        (other, "of another program"),
        (tmp_path / "no", "no such file"),
    ):
        with pytest.raises(InputError, match=message):
            Store.open(path)
    newer = tmp_path / "newer.sqlite"
    with Store.open(newer, create=True) as opened:
        opened._db.execute("PRAGMA user_version = 9")
    with pytest.raises(FormatError, match="version 9"):
        Store.open(newer)


def test_an_unknown_experiment_is_answered_with_what_there_is(store):
    with pytest.raises(InputError, match="known are e"):
        store.rows("f")


# --- killed, and two at once -----------------------------------------------------------------------------------------


def test_killed_five_times_a_sweep_ends_with_the_rows_of_an_undisturbed_one(tmp_path):
    """Nothing is lost, nothing doubled, and nothing that was committed is computed again."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["helpers.sweeps"])
    (tmp_path / "calm").mkdir()
    calm = sweeps.write(tmp_path / "calm", sweeps.SMALL, 100)
    sweeps.run(str(calm))
    path, log = sweeps.write(tmp_path, sweeps.SMALL, 100), tmp_path / "log"
    rng = random.Random(7)
    kills, seen, grew = 0, 0, 0
    while kills < 5:
        before = committed(path)
        child = context.Process(target=sweeps.run, args=(str(path), 1, str(log)))
        child.start()
        sweeps.wait_for_more(log, seen, child)
        time.sleep(rng.uniform(0, 0.03))
        child.kill()
        child.join()
        kills += child.exitcode == -9
        assert kills or child.exitcode == 0
        lines = log.read_text().split("\n")[:-1]
        again = {tuple(map(int, line.split())) for line in lines[seen:]} & before
        assert not again, f"computed again: {again}"
        assert before <= committed(path), "nothing that was committed is lost"
        grew += before < committed(path)
        assert len(committed(path)) < 200, "the sweep was killed before its end, each time"
        seen = len(lines)
    assert grew > 1, "what is computed is committed soon, and not at the end"
    sweeps.run(str(path))
    assert sweeps.text_of(path) == sweeps.text_of(calm)
    assert len(committed(path)) == 200


def committed(path):
    if not path.with_suffix(".sqlite").exists():
        return set()
    try:
        columns, rows = sweep.rows(path)
    except InputError:  # killed before the grid was put down
        return set()
    assert columns[:2] == ["gpus", "microbatches"]
    assert len({row[:2] for row in rows}) == len(rows), "nothing is doubled"
    return {row[:2] for row in rows}


def test_two_sweeps_on_one_file_do_not_corrupt_it(tmp_path):
    """Both work at once, and neither doubles a row of the other."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["helpers.sweeps"])
    path, logs = sweeps.write(tmp_path, sweeps.SMALL, 100), [tmp_path / "log0", tmp_path / "log1"]
    children = [context.Process(target=sweeps.run, args=(str(path), 1, str(log))) for log in logs]
    for child in children:
        child.start()
    for child in children:
        child.join()
        assert child.exitcode == 0
    computed = [log.read_text().split("\n")[:-1] for log in logs if log.exists()]
    assert len(computed) == 2, "each of them computed points"
    assert len(set().union(*computed)) == 200
    with sqlite3.connect(path.with_suffix(".sqlite")) as plain:
        assert plain.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    plain.close()
    (tmp_path / "one").mkdir()
    one = sweeps.write(tmp_path / "one", sweeps.SMALL, 100)
    sweeps.run(str(one))
    assert sweeps.text_of(path) == sweeps.text_of(one)


def test_many_threads_may_open_a_new_file_at_once(tmp_path):
    errors = []

    def use(n):
        try:
            with Store.open(tmp_path / "new.sqlite", create=True) as opened:
                opened.enlist(experiment(f"e{n}"), points())
                opened.commit(METRICS, [result(n)])
        except Exception as error:  # noqa: BLE001 - whatever it is, the test shows it
            errors.append(error)

    threads = [threading.Thread(target=use, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    with Store.open(tmp_path / "new.sqlite") as opened:
        assert opened.status("e0").done == 4
