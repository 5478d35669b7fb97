"""Tables of records."""

import pytest

from pipesim.base.errors import InputError
from pipesim.display.text import columns
from pipesim.display.text.columns import TextColumn
from pipesim.display.text.formatting import percent, seconds
from pipesim.display.text.terminal import Terminal

COLUMNS = [
    TextColumn("name", "name", on_left=True),
    TextColumn("time", "time_s", seconds),
    TextColumn("idle", "bubble.idle", percent, drop=1),
    TextColumn("fits", "fits", lambda fits: "yes" if fits else "NO"),
]
RECORDS = [
    {"name": "a", "time_s": 2.0, "bubble": {"idle": 0.5}, "fits": True},
    {"name": "b", "time_s": 10.0, "bubble": {"idle": 0.25}, "fits": False},
    {"name": "c", "error": "no plan"},
]


def test_a_table_shows_each_record_and_nothing_where_a_field_is_missing():
    lines = columns.shown(COLUMNS, RECORDS).splitlines()
    assert lines[0].split() == ["name", "time", "idle", "fits"]
    assert lines[2].split() == ["a", "2.000", "s", "50.0", "%", "yes"]
    assert lines[4].split() == ["c"]


@pytest.mark.parametrize(
    ("by", "order"),
    [
        ("time", [0, 1, 2]),
        ("time_s", [0, 1, 2]),
        ("-time", [1, 0, 2]),
        ("idle", [1, 0, 2]),
        ("name", [0, 1, 2]),
        ("-name", [2, 1, 0]),
        ("fits", [1, 0, 2]),
    ],
)
def test_records_are_sorted_by_a_column_and_those_without_a_value_come_last(by, order):
    assert columns.ordered(COLUMNS, RECORDS, by) == order


def test_an_unknown_column_is_answered_with_those_that_there_are():
    with pytest.raises(InputError, match="no column is called 'speed'; one of 'name', 'time', 'idle', 'fits'"):
        columns.ordered(COLUMNS, RECORDS, "speed")


def test_a_narrow_terminal_leaves_out_columns_in_their_order_and_says_so():
    shown = columns.shown(COLUMNS, RECORDS, Terminal(20))
    assert shown.splitlines()[0].split() == ["name", "time", "fits"]
    assert " ".join(shown.split()).endswith("left out, as the terminal is narrow: idle")
    assert max(map(len, shown.splitlines())) <= 20


def test_rows_are_styled_as_a_whole_and_columns_stay_aligned():
    lines = columns.shown(COLUMNS, RECORDS, Terminal(None, colour=True), bold=[0], red=[1]).splitlines()
    assert lines[2].startswith("\x1b[1m")
    assert lines[3].startswith("\x1b[31m")
    plain = columns.shown(COLUMNS, RECORDS).splitlines()
    assert lines[2].replace("\x1b[1m", "").replace("\x1b[0m", "") == plain[2]


def test_a_flat_record_has_the_fields_of_inner_ones_and_no_lists():
    assert columns.flat({"a": 1, "b": {"c": {"d": 2}}, "e": [1]}) == {"a": 1, "b.c.d": 2}
