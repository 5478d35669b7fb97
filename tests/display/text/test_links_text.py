"""Recorded links as text."""

from pipesim.display import text

POINT = {"bytes": 1024, "seconds": 1e-6, "mad_s": 1e-8}
DATA = {
    "links": {"intra": {"points": [POINT], "mean_error_of_table": 0.01, "mean_error_of_straight_line": 0.05}},
    "all_reduces": [POINT | {"participants": 2, "ring_s": 1.1e-6}],
    "not_measured": ["links between nodes"],
}


def test_transfers_and_all_reduces_are_tables():
    transfers, reduced, facts = text.recorded_links(DATA, [("backend", "gloo")]).split("\n\n")
    assert transfers.splitlines()[2].endswith("1.024 GB/s")
    assert reduced.splitlines()[2].split()[0] == "2"
    assert "mean error of the table 1.0 %, of a straight line 5.0 %" in facts
    assert "not measured  links between nodes" in facts


def test_transfers_are_a_table_whose_files_have_plain_numbers():
    assert text.transfer_times(DATA).records == [POINT | {"links": "intra", "bytes_per_s": 1.024e9}]


def test_without_all_reduces_there_is_no_table_of_them():
    assert "all-reduce" not in text.recorded_links(DATA | {"all_reduces": []}, [])
