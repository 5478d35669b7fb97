"""Tables of typed columns: what is written reads back exactly, and what is wrong is named with line and field."""

import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers import strategies
from pipesim.base import tables
from pipesim.base.errors import FormatError, InputError, MissingExtraError
from pipesim.base.tables import Column

COLUMNS = (
    Column("id", int),
    Column("name", str),
    Column("seconds", float),
    Column("extra", float, float("nan")),
    Column("count", int, 7),
    Column("sort", str, "plain"),
)
HEADER = "id,name,seconds,extra,count,sort\n"

int64s = st.integers(0, 2**63 - 1)
floats = st.floats(0, allow_nan=False, allow_infinity=False)


@st.composite
def drawn_tables(draw):
    count = draw(st.integers(0, 5))
    cells = {
        "id": (int64s, np.int64),
        "name": (st.one_of(strategies.names, st.sampled_from(['a,"b"', " x ", "#", ""])), object),
        "seconds": (floats, np.float64),
        "extra": (st.one_of(floats, st.just(float("nan"))), np.float64),
        "count": (int64s, np.int64),
        "sort": (strategies.names, object),
    }
    return {
        name: np.array(draw(st.lists(cell, min_size=count, max_size=count)), dtype)
        for name, (cell, dtype) in cells.items()
    }


def _equal(one, other):
    return list(one) == list(other) and all(
        one[name].dtype == other[name].dtype
        and np.array_equal(one[name], other[name], equal_nan=one[name].dtype.kind == "f")
        for name in one
    )


@given(drawn_tables())
def test_csv_reads_back_exactly(table):
    """Every bit of every float, every name with its commas and quotes."""
    assert _equal(tables.parse_csv(tables.format_csv(table), COLUMNS), table)


@given(drawn_tables())
def test_parquet_reads_back_exactly(tmp_path_factory, table):
    pytest.importorskip("pyarrow", reason="parquet needs pyarrow")
    path = tmp_path_factory.mktemp("tables") / "a.parquet"
    tables.write(path, table, {"made": "today"})
    found, note = tables.read_parquet(path, COLUMNS)
    assert _equal(found, table)
    assert note["made"] == "today"


def test_columns_may_stand_in_any_order_and_optional_ones_may_be_missing():
    table = tables.parse_csv("seconds,id,name\n1.5,3,x\n", COLUMNS)
    assert list(table) == [column.name for column in COLUMNS]
    assert (table["id"][0], table["seconds"][0], table["count"][0], table["sort"][0]) == (3, 1.5, 7, "plain")
    assert np.isnan(table["extra"][0])


def test_empty_cells_of_optional_columns_are_their_defaults():
    table = tables.parse_csv(HEADER + "1,x,2,,,\n", COLUMNS)
    assert (table["count"][0], table["sort"][0]) == (7, "plain")
    assert np.isnan(table["extra"][0])


def test_comments_above_the_header_are_skipped_and_counted_and_their_notes_read(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("# format=x version=1\n# by=hand\n" + HEADER + "1,x,2,3,4,y\n")
    table, note = tables.read_csv_with_note(path, COLUMNS)
    assert table["id"].tolist() == [1]
    assert {"format": "x", "version": "1", "by": "hand"}.items() <= note.items()
    path.write_text("# a\n# b\n" + HEADER + "1,x,2,3,4,y\n\n1,x,wrong,3,4,y\n")
    with pytest.raises(InputError, match=r"a\.csv: line 6: seconds: 'wrong' found"):
        tables.read_csv(path, COLUMNS)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty; a header line with id, name"),
        ("# only a comment", "is empty"),
        ("id,name\n", "missing column 'seconds'"),
        ("id,name,seconds,colour\n", "unknown column 'colour'; known are id, name"),
        ("id,name,seconds,id\n", "duplicate column 'id'"),
        (HEADER + "1,x,2,3,4,y\n1,x\n", "line 3: 2 cells found; 6 were expected"),
        (HEADER + "1.5,x,2,3,4,y\n", "line 2: id: '1.5' found; a whole number was expected"),
        (HEADER + ",x,2,3,4,y\n", "line 2: id: '' found"),
        (HEADER + "1,x,,3,4,y\n", "line 2: seconds: '' found; a number was expected"),
        (HEADER + "1,x,nan,3,4,y\n", "line 2: seconds: 'nan' found"),
        (HEADER + "1,x,inf,3,4,y\n", "line 2: seconds: 'inf' found"),
        (HEADER + "1,x,2,1e400,4,y\n", "line 2: extra: '1e400' found"),
        (HEADER + "1,x,2,3,4,y\n2,x,-2,3,4,y\n", "line 3: seconds: -2.0 found; a finite number, not negative"),
        (HEADER + "-1,x,2,3,4,y\n", "line 2: id: -1 found"),
        (HEADER + f"{2**63},x,2,3,4,y\n", "line 2: id: '9223372036854775808' found"),
        (HEADER + '1,"x,2,3,4,y\n', "is not CSV"),
        (HEADER + '1,"x\ny",2,3,4,y\n', r"line 3: name: 'x\\ny' found; text in one line"),
    ],
)
def test_what_is_wrong_is_named_with_its_line_and_field(text, message):
    with pytest.raises(InputError, match=message):
        tables.parse_csv(text, COLUMNS)


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("id", [1.0, 2.5], "row 1: id: 2.5 found; a whole number below 2"),
        ("id", [1, float("nan")], "row 1: id: nan found"),
        ("id", [1.0, float("inf")], "row 1: id: inf found"),
        ("id", [1, 2**63], "row 1: id: 9.223372036854776e\\+18 found"),
        ("id", [1, 2**64], "column 'id': has type object; numbers were expected"),
        ("id", ["1", "2"], "column 'id': has type <U1; numbers were expected"),
        ("id", [True, False], "column 'id': has type bool"),
        ("id", [1, -2], "row 1: id: -2 found; a finite number, not negative"),
        ("id", [[1], [2]], "column 'id': has type int64"),
        ("id", [[1], [2, 3]], "column 'id'"),
        ("seconds", [0.5, float("nan")], "row 1: seconds: nan found"),
        ("seconds", [0.5, None], "column 'seconds': has type object"),
        ("name", ["a", None], "row 1: name: 'None' found; text in one line was expected"),
        ("name", ["a", 3], "row 1: name: '3' found"),
        ("name", ["a", "b\x00"], "row 1: name"),
        ("name", ["a", "\ud800"], "row 1: name"),
        ("wrong", [1, 2], "unknown column 'wrong'"),
        ("count", [1, 2, 3], "columns have different lengths"),
    ],
)
def test_columns_given_as_values_are_checked_too(name, values, message):
    """Nothing is rounded, nothing turned into text behind one's back."""
    with pytest.raises(InputError, match=message):
        tables.checked(COLUMNS, {"id": [1, 2], "name": ["a", "b"], "seconds": [0.5, 1.5]} | {name: values})


def test_missing_cells_given_as_values_are_their_defaults():
    values = {"id": [1.0, 2.0], "name": ["a", "b"], "seconds": [1, 2], "count": [float("nan"), 3], "sort": [None, "x"]}
    table = tables.checked(COLUMNS, values)
    assert table["id"].tolist() == [1, 2]
    assert table["id"].dtype == np.int64
    assert (table["count"].tolist(), table["sort"].tolist()) == ([7, 3], ["plain", "x"])


def test_a_table_without_rows_has_all_columns():
    assert {name: len(values) for name, values in tables.checked(COLUMNS, {}).items()} == dict.fromkeys(
        (column.name for column in COLUMNS), 0
    )


def test_parquet_without_pyarrow_is_refused_with_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'pipesim\[parquet\]'"):
        tables.write(tmp_path / "a.parquet", {"id": np.array([1])})


def test_a_file_that_is_no_parquet_is_refused(tmp_path):
    pytest.importorskip("pyarrow", reason="parquet needs pyarrow")
    (tmp_path / "a.parquet").write_text(HEADER)
    with pytest.raises(FormatError, match=r"a\.parquet: is not a readable parquet file"):
        tables.read(tmp_path / "a.parquet", COLUMNS)


def test_a_hundred_thousand_comment_lines_are_skipped_in_one_pass():
    """Cutting the comments off one by one once took minutes."""
    assert tables.parse_csv("#\n" * 100_000 + HEADER + "1,x,2,3,4,y\n", COLUMNS)["id"].tolist() == [1]
