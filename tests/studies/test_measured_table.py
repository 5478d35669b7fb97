"""Tables of measured iterations: what lines hold, and what is refused with its line."""

import pytest

from pipesim.base.errors import InputError
from pipesim.studies.measured_table import measured_lines, table_text


def test_fields_have_the_values_that_their_options_would_have():
    text = "id,trace,microbatches,sequence_parallel,jitter,iteration_s\na,bert-large,8,true,0.5,250ms\n,gpt2-xl,,,,2\n"
    one, other = measured_lines(text)
    assert (one.label, one.measured_s) == ("a", 0.25)
    assert one.fields == {"trace": "bert-large", "microbatches": 8, "sequence_parallel": True, "jitter": 0.5}
    assert (other.number, other.label, dict(other.fields)) == (3, "line 3", {"trace": "gpt2-xl"})


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("trace,iteration_s\nx,\n", "line 2: iteration_s is empty"),
        ("trace,iteration_s\nx,0\n", "line 2: iteration_s = 0 found; more than 0 s"),
        ("microbatches,iteration_s\n8,1\nmany,1\n", "line 3: microbatches = 'many' found; a number"),
        ("packed,iteration_s\nperhaps,1\n", "line 2: packed = 'perhaps' found; true or false"),
        ("micro_batches,iteration_s\n8,1\n", "line 2: .*microbatches"),
    ],
)
def test_what_is_wrong_in_a_table_is_refused_with_its_line(text, found):
    with pytest.raises(InputError, match=found):
        list(measured_lines(text))


def test_only_tables_with_the_column_of_seconds_are_such_tables(tmp_path):
    (tmp_path / "runs.csv").write_text("iteration_s\n1\n", encoding="utf-8")
    (tmp_path / "operations.csv").write_text("rank,iteration_start\n1,2\n", encoding="utf-8")
    found = [table_text(tmp_path / name) for name in ("runs.csv", "operations.csv", "missing.csv", "runs.parquet")]
    assert found == ["iteration_s\n1\n", None, None, None]
