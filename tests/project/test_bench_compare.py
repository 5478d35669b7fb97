"""Two commits measured side by side: what counts as slower, what as noise, and what cannot be measured."""

import importlib
import itertools
import sys

import pytest

from helpers.places import ROOT


@pytest.fixture(scope="module")
def compare():
    """The module as `make bench-compare` runs it."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    yield importlib.import_module("compare")
    sys.path.remove(str(ROOT / "benchmarks"))


class Side:
    """A side whose calls take these seconds, one after the other; it writes down when it was asked."""

    def __init__(self, name, seconds, asked=None, calls=1):
        self.name, self.calls, self.asked = name, calls, [] if asked is None else asked
        self.seconds = itertools.cycle(seconds)

    def ask(self, name, calls):  # noqa: ARG002 - as a process
        if not calls:
            return {"calls": self.calls}
        self.asked.append((self.name, calls))
        return {"calls": self.calls, "seconds": next(self.seconds)}


class Broken:
    def ask(self, name, calls):  # noqa: ARG002 - as a process
        return {"error": "ImportError: no module | of this name"}


def compared(compare, old, new, rounds=8):
    return compare.compare("a case", Side("old", old), Side("new", new), rounds)


@pytest.mark.parametrize(
    ("old", "new", "verdict"),
    [
        ([1.0], [1.04], "same"),
        ([1.0], [1.06], "slower"),
        ([1.0], [0.96], "same"),
        ([1.0], [0.94], "faster"),
        ([1.0, 2.0], [1.06, 2.12], "slower"),  # the machine is twice as slow in every other round, for both
        ([1.0], [0.8, 1.3, 1.3], "not sure"),  # more than a quarter of the pairs is below 1
        ([1.0], [0.7, 0.7, 1.2], "not sure"),
    ],
)
def test_a_case_is_slower_if_the_median_and_three_quarters_of_the_pairs_are(compare, old, new, verdict):
    assert compared(compare, old, new, rounds=9).verdict == verdict


def test_sides_are_measured_in_turn_and_each_is_first_as_often(compare):
    asked = []
    compare.compare("a case", Side("old", [1.0], asked, 3), Side("new", [1.0], asked, 7), 4)
    assert [name for name, _ in asked] == ["old", "new", "new", "old"] * 2
    assert {calls for _, calls in asked} == {7}  # both do as much


def test_pairs_keep_which_side_is_which_whatever_the_order(compare):
    assert set(compared(compare, [1.0], [2.0]).pairs) == {(1.0, 2.0)}


def test_what_only_some_pairs_of_processes_come_to_is_not_sure(compare):
    slow, same = compared(compare, [1.0], [1.2]), compared(compare, [1.0], [1.01])
    assert compare.merged([slow, slow, slow]).verdict == "slower"
    assert compare.merged([slow, slow, same]).verdict == "not sure"
    assert compare.merged([slow, same, same]).verdict == "same"


@pytest.mark.parametrize("sides", [(Broken(), Side("new", [1.0])), (Side("old", [1.0]), Broken())])
def test_what_one_side_cannot_run_is_named_and_not_compared(compare, sides):
    found = compare.compare("a case", *sides, 3)
    assert found.verdict == "not measured"
    assert found.error == f"{'old' if isinstance(sides[0], Broken) else 'new'}: ImportError: no module / of this name"
    assert compare.merged([found]).line().count("|") == 6


def test_the_report_lists_what_is_slower(compare):
    found = [compared(compare, [1.0], new) for new in ([1.2], [1.0], [0.7, 1.2, 1.3])]
    text = compare.report(found)
    assert text.startswith("slower by more than 5 %: 1 of 3 cases\n  a case: 1.20 times\nnot sure: 1;")


def test_a_text_that_no_case_contains_is_refused_with_the_cases(compare):
    with pytest.raises(SystemExit, match="no case contains 'nothing'; there are: lower 1F1B"):
        compare.main(["HEAD", "--only", "nothing"])


def test_a_commit_that_is_none_is_refused_before_anything_is_measured(compare):
    with pytest.raises(SystemExit, match="REV = 'no-such-commit' found; a commit was expected"):
        compare.main(["no-such-commit", "--only", "lower 1F1B (4, 8)"])


@pytest.mark.docs
def test_a_commit_beside_itself_is_measured_from_beginning_to_end(compare, capsys):
    code = compare.main(["HEAD", "--only", "lower 1F1B (4, 8)", "--rounds", "5"])
    text = capsys.readouterr().out
    assert "| lower 1F1B (4, 8), 112 tasks | " in text
    assert "not measured" not in text
    assert code == (" slower |" in text)


@pytest.mark.docs
def test_every_case_can_be_prepared_and_called(compare):  # noqa: ARG001 - makes the folder importable
    cases = importlib.import_module("compared").CASES
    for name in cases:
        if "large" not in name:
            cases[name]()()
