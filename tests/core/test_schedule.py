"""Schedules and their text form."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipesim.base.errors import FormatError, InputError
from pipesim.core.plan import Plan, Stage
from pipesim.core.schedule import FORWARD, Action, Schedule, parse

PAIR = Plan("m", 2, 2, (Stage(0, 1, ("a",)), Stage(1, 2, ("b",))))
ONE_F_ONE_B = "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1"

actions = st.tuples(st.integers(0, 10**9 - 1), st.integers(0, 3), st.integers(0, 10**9 - 1))


@given(st.lists(st.lists(actions, max_size=5), min_size=1, max_size=4).filter(any))
def test_a_schedule_is_its_text(rows):
    schedule = Schedule.of(rows)
    assert parse(str(schedule)) == schedule
    assert str(parse(str(schedule))) == str(schedule)
    assert [[tuple(action) for action in row] for row in parse(str(schedule)).rows] == rows


def test_the_text_form_has_a_line_per_rank_and_a_letter_per_kind():
    schedule = Schedule.of([[(0, FORWARD, 2), (0, 1, 2)], [(12, 2, 0), (12, 3, 0)]])
    assert str(schedule) == "0F2,0B2\n12I0,12W0"
    assert len(schedule) == 2
    assert schedule.rank.tolist() == [0, 0, 1, 1]
    assert str(Action(3, 1, 7)) == "3B7"


def test_blanks_and_empty_cells_do_not_matter():
    """PyTorch writes empty cells where a rank idles."""
    assert parse(" 0F0 ,, 0B0,\n,1F0,,1B0") == parse("0F0,0B0\n1F0,1B0")


@pytest.mark.parametrize("end", ["\n", "\n\n", "\n  \n", "\r\n", " "])
def test_a_newline_ends_a_rank_and_begins_none(tmp_path, end):
    """An editor leaves a newline or a blank line at the end; the second counted as a rank of its own, and so did the
    first for `parse`.
    """
    assert parse(ONE_F_ONE_B + end) == parse(ONE_F_ONE_B)
    (tmp_path / "s.csv").write_bytes((ONE_F_ONE_B.replace("\n", "\r\n" if "\r" in end else "\n") + end).encode())
    assert Schedule.load(tmp_path / "s.csv") == parse(ONE_F_ONE_B)


def test_a_rank_without_actions_is_a_comma():
    assert str(Schedule.of([[], [(0, 0, 0)], []])) == ",\n0F0\n,"
    assert parse("\n0F0\n,\n") == parse(",\n0F0\n,") == Schedule.of([[], [(0, 0, 0)], []])


def test_rows_that_say_what_is_paired_stand_beside_rows_that_do_not():
    """Columns stage, kind, microbatch, and perhaps paired: numpy did not take both kinds together."""
    with_pairs = np.array([[0, 0, 1, 1], [0, 1, 0, 0]])
    made = Schedule.of_arrays([with_pairs, np.array([[1, 0, 0]]), np.zeros((0, 3), np.int64)])
    assert str(made) == "(0F1;0B0)OVERLAP_F_B\n1F0\n,"
    assert len(Schedule.of_arrays([])) == 0


@pytest.mark.parametrize("shape", [(2, 2), (2, 5), (3,)])
def test_rows_that_are_no_actions_are_refused_with_their_rank(shape):
    with pytest.raises(InputError, match=r"rank 1: an array of shape .* 3 or 4 columns were expected"):
        Schedule.of_arrays([np.zeros((1, 3), np.int64), np.zeros(shape, np.int64)])


def test_schedules_that_differ_in_where_a_row_ends_are_not_equal():
    assert parse("0F0,0F1\n0F2") != parse("0F0\n0F1,0F2")
    assert parse("0F0") != "0F0"


def test_a_forward_and_a_backward_that_are_one_are_written_as_pytorch_writes_them():
    schedule = parse("0F0, ( 0F1 ;0B0) OVERLAP_F_B,0B1\n1F0,(1F1;1I0)OVERLAP_F_B,1W0,1B1")
    assert str(schedule) == "0F0,(0F1;0B0)OVERLAP_F_B,0B1\n1F0,(1F1;1I0)OVERLAP_F_B,1W0,1B1"
    assert schedule.paired.tolist() == [False, True, False, False, False, True, False, False, False]
    assert parse(str(schedule)) == schedule
    assert parse("0F0,0F1,0B0,0B1\n1F0,1F1,1I0,1W0,1B1") != schedule


def test_cells_about_messages_are_skipped():
    """They follow from the order, so that PyTorch's two forms hold the same schedule."""
    assert parse("0F0,0SEND_F0,0RECV_B0,0B0,0REDUCE_GRAD\n1UNSHARD, 1RECV_F0,1F0,1B0,1SEND_B0") == parse(
        "0F0,0B0\n1F0,1B0"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty; one line of cells such as 0F0,0F1,0B0,0B1 per rank"),
        (" \n ", "is empty"),
        ("0F0,0X1", "line 1: cell 2: '0X1' found; stage, one of F, B, I, W, and microbatch"),
        ("0F0\n0f1", "line 2: cell 1: '0f1' found"),
        ("0F", "line 1: cell 1: '0F' found"),
        ("-1F0", "'-1F0' found"),
        ("0F0;0F1", "'0F0;0F1' found"),
        ("F0", "'F0' found"),
        ("1234567890F0", "'1234567890F0' found"),
    ],
)
def test_text_that_is_no_schedule_is_refused_with_its_cell(text, message):
    with pytest.raises(InputError, match=message):
        parse(text)


@pytest.mark.parametrize("suffix", [".csv", ".json", ".toml"])
@given(rows=st.lists(st.lists(actions, max_size=5), min_size=1, max_size=4).filter(any))
def test_a_saved_schedule_loads_as_it_was(tmp_path_factory, suffix, rows):
    """Ranks without actions keep their lines, the last one too."""
    path = tmp_path_factory.mktemp("schedule") / f"s{suffix}"
    Schedule.of(rows).save(path)
    assert Schedule.load(path) == Schedule.of(rows)


def test_the_csv_is_the_text_form_alone_as_pytorch_reads_it(tmp_path):
    parse(ONE_F_ONE_B).save(tmp_path / "s.csv")
    assert (tmp_path / "s.csv").read_text() == ONE_F_ONE_B + "\n"


def test_a_wrong_file_is_refused_with_its_name(tmp_path):
    (tmp_path / "s.csv").write_text("0F0,junk\n")
    with pytest.raises(InputError, match=r"s\.csv: line 1: cell 2: 'junk' found"):
        Schedule.load(tmp_path / "s.csv")
    (tmp_path / "s.json").write_text('{"format": "pipesim.schedule", "version": 2, "rows": ["0F0"]}')
    with pytest.raises(FormatError, match=r"s\.json: pipesim\.schedule version 2 is newer"):
        Schedule.load(tmp_path / "s.json")
    (tmp_path / "s.json").write_text('{"format": "pipesim.schedule", "version": 1, "rows": ["0F0\\n0B0"]}')
    with pytest.raises(InputError, match="cell 1"):
        Schedule.load(tmp_path / "s.json")
