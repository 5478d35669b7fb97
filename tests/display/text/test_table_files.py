"""Tables of records for other programs."""

import csv
import io

from pipesim.display.text import table_files
from pipesim.display.text.columns import TextColumn
from pipesim.display.text.formatting import percent

COLUMNS = [TextColumn("name", "name", on_left=True), TextColumn("idle", "bubble.idle", percent)]
RECORDS = [
    {"name": "a_b|c", "bubble": {"idle": 0.1 + 0.2}, "fits": True, "notes": ["x"]},
    {"name": "d", "bound": None, "error": "no, plan"},
]


def test_csv_has_every_field_and_numbers_that_read_back_exactly():
    rows = list(csv.DictReader(io.StringIO(table_files.csv_of(RECORDS))))
    assert list(rows[0]) == ["name", "bubble.idle", "fits", "bound", "error"]
    assert float(rows[0]["bubble.idle"]) == 0.1 + 0.2
    assert rows[0]["fits"] == "true"
    assert rows[1] == {"name": "d", "bubble.idle": "", "fits": "", "bound": "", "error": "no, plan"}


def test_markdown_and_latex_have_what_the_table_shows_with_their_own_characters_escaped():
    assert table_files.markdown_of(COLUMNS, RECORDS).splitlines() == [
        "| name | idle |",
        "| :--- | ---: |",
        "| a_b\\|c | 30.0 % |",
        "| d |  |",
    ]
    lines = table_files.latex_of(COLUMNS, RECORDS).splitlines()
    assert lines[0] == "\\begin{tabular}{lr}"
    assert lines[4] == "  a\\_b|c & 30.0 \\% \\\\"
    assert lines[-1] == "\\end{tabular}"
