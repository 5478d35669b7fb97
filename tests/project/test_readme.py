"""What the README shows is what happens, and what it claims is in the pages that it links to.

After a deliberate change: `make pages` updates what they show; read the diff.
"""

import csv
import json
import re

import pytest

from helpers import pages
from helpers.places import ROOT
from pipesim.studies import comparison

README = (ROOT / "README.md").read_text(encoding="utf-8")
MOST_LINES = 150


def section(title):
    """The text of a section."""
    return README.partition(f"## {title}\n")[2].partition("\n## ")[0]


@pytest.mark.docs
def test_what_the_readme_shows_is_what_happens(tmp_path):
    assert pages.run(README, tmp_path) >= 7
    assert (tmp_path / "gantt.png").stat().st_size > 0


def test_the_readme_is_short():
    assert len(README.splitlines()) <= MOST_LINES
    (session,) = [block for block in pages.blocks(README) if block.is_session]
    assert sum(line.startswith((">>>", "...")) for line in session.text.splitlines()) <= 10


def test_the_accuracy_that_is_claimed_is_in_the_experiment():
    found = (ROOT / "experiments" / "replay" / "README.md").read_text(encoding="utf-8")
    claimed = re.findall(r"[0-9.]+ to [0-9.]+ % \w+|[0-9.]+ % (?:below|above)", section("How far to trust it"))
    assert len(claimed) == 3
    assert [claim for claim in claimed if claim not in " ".join(found.split())] == []


def test_the_first_look_has_the_numbers_it_states():
    folder = ROOT / "experiments" / "first-look"
    with (folder / "expected.csv").open(encoding="utf-8", newline="") as file:
        expected = list(csv.DictReader(file))
    rows = comparison.compare(
        "bert-large",
        'servers(2, 4, intra="25GB/s", inter="10Gb/s")',
        ["uniform", "balanced"],
        ["gpipe", "one_f_one_b"],
        granularity="layer",
    )
    found = [row.as_data() for row in rows]
    columns = ("planner", "scheduler", "iteration_time_s", "peak_memory_bytes")
    assert expected == [{name: str(row[name]) for name in columns} for row in found]
    plan = json.loads((folder / "plan.json").read_text(encoding="utf-8"))
    assert plan["planner"] == "balanced"
    text = (folder / "README.md").read_text(encoding="utf-8")
    for row in found[2:]:
        assert f"{row['iteration_time_s'] * 1e3:.1f} ms" in text
