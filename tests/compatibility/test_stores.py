"""Results that earlier versions stored are read, and found by the next sweep: none is computed again."""

import shutil
import sqlite3
from contextlib import closing

import pytest

from helpers.places import TESTS
from pipesim.studies import sweep
from pipesim.studies.sweep import points

FILES = TESTS / "compatibility" / "files"
STORES = ("store_1_semantics_1", "store_1", "store_2")
FOUND = [  # nodes, rate, planner, microbatches as the file has them, seconds, replicas, whether memory is enough
    (1, 1, "uniform", 2, 0.030164, "1x2", 1),
    (1, 1, "balanced", "{2 * nodes}", 0.030164, "1x2", 1),
    (2, 1, "uniform", 2, 0.084418, "1x4", 1),
    (2, 1, "balanced", "{2 * nodes}", 0.152584668, "1x4", 1),
    (2, 10, "uniform", 2, 0.030618, "1x4", 1),
    (2, 10, "balanced", "{2 * nodes}", 0.045618, "1x4", 1),
    (2, 100, "uniform", 2, 0.027738, "1x4", 1),
    (2, 100, "balanced", "{2 * nodes}", 0.042738, "1x4", 1),
]


@pytest.fixture
def opened(tmp_path):
    """Make a sweep's folder with the store of this name; the sweep's file and the store's."""

    def make(name):
        shutil.copytree(FILES / "trace", tmp_path / "trace")
        shutil.copyfile(FILES / "sweep.toml", tmp_path / "sweep.toml")
        with closing(sqlite3.connect(tmp_path / "sweep.sqlite")) as store:
            store.executescript((FILES / f"{name}.sql").read_text())
        return tmp_path / "sweep.toml", tmp_path / "sweep.sqlite"

    return make


@pytest.fixture
def semantics_7(monkeypatch):
    """The present code as if no point came to other numbers since these stores were written."""
    assert points.SEMANTICS > 7
    monkeypatch.setattr(points, "SEMANTICS", 7)


def computed_at(store):
    """When each result of the sweep's points was computed."""
    with closing(sqlite3.connect(store)) as plain:
        return plain.execute("SELECT number, finished FROM rows ORDER BY number").fetchall()


@pytest.mark.parametrize("name", STORES)
def test_rows_are_read(opened, name):
    file, store = opened(name)
    for path in (file, store):
        columns, rows = sweep.rows(path, store=store)
        assert columns == [
            "nodes", "rate", "planner", "microbatches", "iteration_time_s", "plan_replicas", "fits_memory", "error",
        ]  # fmt: skip
        assert rows == [(*row, None) for row in FOUND]


@pytest.mark.parametrize("name", STORES[1:])
@pytest.mark.usefixtures("semantics_7")
def test_a_sweep_finds_results_by_the_keys_of_0_1_if_they_have_its_semantics(opened, name):
    """Keys held the package's version: each release would have discarded every result."""
    file, store = opened(name)
    before = computed_at(store)
    status = sweep.run(sweep.load(file), workers=1)
    assert (status.total, status.done) == (8, 8)
    assert computed_at(store) == before
    assert sweep.rows(file)[1] == [(*row, None) for row in FOUND]
    _, damage = sweep.checked(file)
    assert not damage.found
    sweep.run(sweep.load(file), workers=1)
    assert computed_at(store) == before


@pytest.mark.parametrize("name", STORES)
def test_results_of_other_semantics_are_computed_again(opened, name):
    file, store = opened(name)
    before = computed_at(store)
    sweep.run(sweep.load(file), workers=1)
    assert all(new > old for (_, new), (_, old) in zip(computed_at(store), before, strict=True))


@pytest.mark.usefixtures("semantics_7")
def test_a_result_that_does_not_agree_with_its_digest_is_not_found(opened):
    file, store = opened("store_2")
    with closing(sqlite3.connect(store)) as plain, plain:
        plain.execute("UPDATE results SET iteration_time_s = 1 WHERE iteration_time_s = 0.030618")
    messages = []
    before = dict(computed_at(store))
    sweep.run(sweep.load(file), workers=1, tell=messages.append)
    assert [number for number, time in computed_at(store) if time != before[number]] == [8]
    assert len(messages) == 1
    assert sweep.rows(file)[1] == [(*row, None) for row in FOUND]
