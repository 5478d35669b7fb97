"""What people call a thing, and the function that makes it."""

import fractions
import sys

import pytest

from pipesim.base import lookup
from pipesim.base.errors import InputError, PipesimError, UnknownNameError

FAMILY = {"fraction": "fractions:Fraction", "steps": "itertools:accumulate", "join": "os.path:join"}


def halves(count, *, start=0):
    """A function of this module, to be named from outside."""
    return [start + i / 2 for i in range(count)]


def broken():
    raise InputError("nothing to make")


def test_a_member_of_the_family_is_found_by_its_name():
    assert lookup.resolve("fraction", FAMILY, "number") is fractions.Fraction


def test_arguments_in_the_text_are_bound():
    assert lookup.resolve("fraction(3)", FAMILY, "number")(4) == fractions.Fraction(3, 4)
    assert lookup.resolve("fraction(1, denominator=2)", FAMILY, "number")() == fractions.Fraction(1, 2)


def test_anybody_s_function_is_named_by_its_module():
    assert lookup.call(f"{__name__}:halves(3, start=1)", FAMILY, "list") == [1, 1.5, 2]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("name", ("name", [], {})),
        (" name ", ("name", [], {})),
        ("name()", ("name", [], {})),
        (
            "name(2, -1.5, 'a b', [1, 2], key='25 Gb/s', other=None)",
            ("name", [2, -1.5, "a b", [1, 2]], {"key": "25 Gb/s", "other": None}),
        ),
        ("my.module:function(1)", ("my.module:function", [1], {})),
    ],
)
def test_a_call_is_taken_apart(text, expected):
    assert lookup.parse_call(text, "thing") == expected


@pytest.mark.parametrize(
    "text",
    ["name(__import__('os').getcwd())", "name(x)", "name(1 + x)", "name(*[1])", "name(**{'a': 1})", "name(lambda: 1)"],
)
def test_nothing_in_the_text_is_ever_evaluated(text):
    with pytest.raises(InputError):
        lookup.parse_call(text, "thing")


@pytest.mark.parametrize(
    "text", ["name(", "name(1))", "name(a=1, a=2)", "name[1](2", "(" * 500, "name(1)(2", "name(\x00)", "(1, 2)"]
)
def test_text_that_is_no_call_is_refused(text):
    with pytest.raises(PipesimError):
        lookup.resolve(text, FAMILY, "thing")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("fractoin", "unknown number 'fractoin'; did you mean 'fraction'[?] known are fraction, steps, join"),
        ("zzz", "unknown number 'zzz'; known are fraction, steps, join"),
        ("no_such_module_anywhere:f", "cannot import 'no_such_module_anywhere'"),
        ("math:no_such_function", "module 'math' has no 'no_such_function'"),
        ("math:pi", "is a float; a function written in Python was expected"),
        (":f", "cannot import"),
    ],
)
def test_an_unknown_name_is_refused_with_the_known_ones_and_a_suggestion(name, message):
    with pytest.raises(UnknownNameError, match=message):
        lookup.resolve(name, FAMILY, "number")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fraction(1, 2, 3, 4, 5)", "too many positional arguments"),
        ("join(wrong=1)", "missing a required argument|unexpected keyword argument 'wrong'"),
        (f"{__name__}:halves", r"missing a required argument: 'count'; .*\(count, start=0\)"),
        (f"{__name__}:halves(strat=1)", r"unexpected keyword argument 'strat'; .*\(count, start=0\)"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_with_the_signature(text, message):
    with pytest.raises(InputError, match=message):
        lookup.call(text, FAMILY, "number")


def test_an_error_inside_a_member_has_the_expression_as_its_place():
    with pytest.raises(InputError, match=f"list '{__name__}:broken': nothing to make"):
        lookup.call(f"{__name__}:broken", FAMILY, "list")


def hinted(path: "Unknown" = 1):  # noqa: F821 - as what is imported for type checkers only
    return path


@pytest.mark.parametrize("text", ["builtins:dict(a=1)", "builtins:dict"])
def test_a_function_without_signature_is_refused(text):
    """Of dict no signature is known; asking for it used to end in a traceback."""
    with pytest.raises(InputError, match=r"thing 'builtins:dict.*': has no signature"):
        lookup.call(text, FAMILY, "thing")


def test_annotations_that_cannot_be_looked_up_are_not_checked():
    """A planner of one's own may import its types for type checkers only."""
    assert lookup.call(f"{__name__}:hinted(path=2)", FAMILY, "thing") == 2


def careless():
    return 1 / 0


def test_an_error_of_a_user_s_function_is_shown_with_its_line_and_kept_as_the_cause():
    line = careless.__code__.co_firstlineno + 1
    message = (
        rf"thing '{__name__}:careless': raised ZeroDivisionError: division by zero \(.*test_lookup\.py, line {line}\)"
    )
    with pytest.raises(InputError, match=message) as caught:
        lookup.call(f"{__name__}:careless", FAMILY, "thing")
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_what_a_member_of_the_family_raises_is_a_fault_of_pipesim_and_stays_as_it_is():
    with pytest.raises(ZeroDivisionError):
        lookup.call("careless", {"careless": f"{__name__}:careless"}, "thing")


@pytest.mark.parametrize("text", ["builtins:len", "os:system", "sys:exit", "os:sep", "os.path:os"])
def test_what_is_not_a_function_of_the_user_is_refused(text):
    """Importing with --format builtins:len used to end in a traceback, with sys:exit in silence."""
    with pytest.raises(UnknownNameError, match=rf"thing '{text}': is a \w+; a function written in Python was expected"):
        lookup.resolve(text, FAMILY, "thing")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("import nothing_like_it", "cannot import 'mine': No module named 'nothing_like_it'"),
        ("x = = 1", r"importing 'mine' raised SyntaxError: invalid syntax \(mine\.py, line 1\)"),
        ("\n1 / 0", r"importing 'mine' raised ZeroDivisionError: division by zero \(.*mine\.py, line 2\)"),
        (
            "from pipesim.core.members import SchedulerInfo\n\nSchedulerInfo(chunks=0)",
            r"importing 'mine' raised InputError: chunks = 0 found; .* \(.*mine\.py, line 3\)",
        ),
        ("raise SystemExit(0)", "importing 'mine' raised SystemExit: 0"),
        ("def planner(): pass", "module 'mine' has no 'planer'; did you mean 'planner'"),
        ("from os.path import join", "module 'mine' has no 'planer'; known are none"),
    ],
)
def test_a_module_that_cannot_be_imported_or_lacks_the_function_is_refused(tmp_path, monkeypatch, source, message):
    (tmp_path / "mine.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    with pytest.raises(UnknownNameError, match=rf"planner 'mine:planer': {message}"):
        lookup.resolve("mine:planer", FAMILY, "planner")
    sys.modules.pop("mine", None)


def test_arguments_that_a_function_does_not_take_are_named():
    lookup.check_takes(halves, "count, start=")
    with pytest.raises(InputError, match=r"cannot be called with \(program, watch=\)"):
        lookup.check_takes(halves, "program, watch=")


@pytest.mark.parametrize("number", ["9223372036854775808", "-1" + "0" * 400, "[1, 2, " + "9" * 30 + "]"])
def test_a_whole_number_that_64_bits_do_not_hold_is_refused(number):
    """Found by make fuzz: of 400 digits it ended as an OverflowError in whatever first made a float of it."""
    with pytest.raises(InputError, match=r"found; less than 2\^63 was expected"):
        lookup.parse_call(f"piper(optimizer_state={number})", "planner")
    assert lookup.parse_call("piper(optimizer_state=9223372036854775807)", "planner")[2]
