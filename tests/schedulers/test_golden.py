"""Gantt charts of small cases as text that a person can check by eye.

After a deliberate change of the simulation: `python tests/schedulers/test_golden.py` writes them anew; read the diff.
"""

from pathlib import Path

import pytest

from helpers.networks import pipeline
from pipesim.core.schedule import parse
from pipesim.display import text
from pipesim.engines.event import run

FOLDER = Path(__file__).parent / "golden"

# Name -> how the timeline is made. One column is one nanosecond.
CASES = {
    "one_f_one_b_4x8": lambda: pipeline([1] * 4, [2] * 4, 8, "one_f_one_b", sharing="none"),
    "gpipe_3x4_with_hops_of_1": lambda: pipeline([1] * 3, [2] * 3, 4, "gpipe", hop_bytes=[1, 1], sharing="fifo"),
    "split_backward_2x3": lambda: pipeline(
        [2, 2],
        [4, 4],
        3,
        parse("0F0,0F1,0I0,0F2,0I1,0W0,0I2,0W1,0W2\n1F0,1I0,1F1,1I1,1F2,1I2,1W0,1W1,1W2"),
        sharing="none",
    ),
}


def chart(name):
    """What the golden file of this case must hold."""
    return text.gantt(run(CASES[name]()), slot_ns=1) + "\n"


@pytest.mark.parametrize("name", CASES)
def test_the_chart_is_as_it_was_checked(name):
    assert chart(name) == (FOLDER / f"{name}.txt").read_text(encoding="utf-8")


def test_every_golden_file_belongs_to_a_case():
    assert {path.stem for path in FOLDER.iterdir()} == set(CASES)


if __name__ == "__main__":
    for case in CASES:
        (FOLDER / f"{case}.txt").write_text(chart(case), encoding="utf-8")
