"""Tables of pages, from the data that commands print."""

import pytest

from pipesim.display.pages import page_tables
from pipesim.studies import comparison, results
from pipesim.studies.simulation import Simulation


@pytest.fixture(scope="module")
def data():
    result = results.simulate("bert-large", 'flat(2, bandwidth="1GB/s")', "balanced", microbatches=4)
    return result.as_data(ledger=True)


def test_the_tables_of_the_critical_path_sum_to_the_iteration(data):
    path, held, devices, links = page_tables.timeline_tables(data)
    assert sum(float(row[2].split()[0]) for row in path.rows) == pytest.approx(100, abs=0.3)
    assert {row[1] for row in held.rows} == {row[0] for row in path.rows}
    assert len(devices.rows) == 2
    assert all(len(row) == len(links.headers) for row in links.rows)


def test_the_ledger_ends_with_the_iteration(data):
    table = page_tables.ledger_table(data["ledger"])
    assert table.rows[0][0] == "computation, evenly spread"
    assert table.rows[-1][:2] == ["iteration", dict(page_tables.facts(data))["iteration"]]


def test_a_comparison_shows_errors_in_their_rows():
    simulation = Simulation(trace="bert-large", cluster='flat(2, bandwidth="1GB/s")', microbatches=4)
    rows = [row.as_data(bound=False) for row in comparison.compared(simulation, ["balanced"], ["gpipe"])]
    rows.append({"planner": "balanced", "scheduler": "dualpipe", "error": "the reason"})
    table = page_tables.comparison_table(rows)
    assert table.rows[0][0:2] == ["balanced", "gpipe"]
    assert len(table.rows) == 1
    assert table.note == "balanced with dualpipe: the reason"


def test_of_a_comparison_the_fastest_that_fits_is_first_and_reasons_are_stated_once():
    row = {"planner": "p", "bubble": {"idle_share": 0.1}, "peak_memory_bytes": 1024}
    rows = [
        row | {"scheduler": "large", "iteration_time_s": 1.0, "fits_memory": False},
        row | {"scheduler": "slow", "iteration_time_s": 3.0, "fits_memory": True},
        row | {"scheduler": "fast", "iteration_time_s": 2.0, "fits_memory": None},
        *({"planner": "brute", "scheduler": name, "error": "too many"} for name in ("a", "b")),
    ]
    table = page_tables.comparison_table(rows)
    assert [(cells[1], cells[-1]) for cells in table.rows] == [
        ("fast", "unknown"),
        ("slow", "fits"),
        ("large", "does not fit"),
    ]
    assert table.note == "brute with a, b: too many"


def test_of_many_rows_the_first_are_shown_and_the_rest_counted(data, monkeypatch):
    monkeypatch.setattr(page_tables, "_MOST", 1)
    devices = page_tables.timeline_tables(data)[2]
    assert (len(devices.rows), devices.note) == (1, "The first 1 of 2.")
