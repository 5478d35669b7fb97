"""Formulas are evaluated as Python would evaluate them, with names and numbers only; errors name the wrong part."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipesim.base import formulas
from pipesim.base.errors import InputError

VALUES = {"gpus": 16, "rate": 2.5, "planner": "spp", "fits": True}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("gpus // 8", 2),
        ("gpus % 3 == 1 and rate > 2", True),
        ("planner != 'brute' or gpus <= 8", True),
        ("planner in ('spp', 'alpa')", True),
        ("planner not in ['spp']", False),
        ("8 <= gpus < 16", False),
        ("max(1, gpus // 8, 7)", 7),
        ("-rate + 2 ** 3", 5.5),
        ("'few' if gpus < 4 else 'many'", "many"),
        ("not fits", False),
        ("round(rate * 3)", 8),
    ],
)
def test_a_formula_comes_to_what_python_would_say(text, expected):
    assert formulas.parse(text).value(VALUES) == expected


@given(st.recursive(st.sampled_from(["1", "2.5", "gpus", "rate"]), lambda inner: st.builds(
    "({} {} {})".format, inner, st.sampled_from(["+", "-", "*", "<", "==", "and", "or"]), inner
)))  # fmt: skip
def test_arithmetic_and_comparisons_agree_with_python(text):
    try:
        found = formulas.parse(text).value(VALUES)
    except InputError:
        return
    assert found == eval(text, {}, dict(VALUES))  # noqa: S307 - the judge, of text that was made here


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "gpus.real",
        "(lambda: 1)()",
        "[x for x in (1, 2)]",
        "f'{gpus}'",
        "gpus[0]",
        "open('x')",
        "max(*gpus)",
        "gpus & 1",
        "~gpus",
        "gpus is None",
        "{gpus: 1}",
        "x := 1",
        "1j",
        "b'a'",
        "None",
        "...",
    ],
)
def test_what_is_not_a_formula_is_refused_before_it_is_evaluated(text):
    with pytest.raises(InputError, match=r"found|cannot be read"):
        formulas.parse(text)


@pytest.mark.parametrize("text", ["", "  ", "gpus >", "1 +", "((", "gpus = 8", "-" * 5000 + "1", "not " * 400 + "1", 7])
def test_text_that_cannot_be_parsed_is_refused(text):
    with pytest.raises(InputError):
        formulas.parse(text).value(VALUES)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gpu > 1", "unknown name 'gpu'; did you mean 'gpus'"),
        ("gpus / 0", "where gpus = 16: division by zero"),
        ("planner + 1", "'spp' found; a number was expected"),
        ("planner * 99999999", "a number was expected"),
        ("planner < 1", "planner = 'spp'"),
        ("9 ** 9 ** 9", "too large"),
        ("10.0 ** 999", "cannot be evaluated"),
        ("(-1) ** 0.5", "not real"),
    ],
)
def test_a_formula_that_cannot_be_evaluated_is_refused_with_its_values(text, message):
    with pytest.raises(InputError) as error:
        formulas.parse(text).value(VALUES)
    assert message in str(error.value)


def test_a_template_puts_formulas_into_text():
    made = formulas.template('servers({gpus // 8}, 8, inter="{rate} Gb/s", name="{{x}}")')
    assert made.names == {"gpus", "rate"}
    assert made.value(VALUES) == 'servers(2, 8, inter="2.5 Gb/s", name="{x}")'


def test_a_template_that_is_one_formula_keeps_its_kind():
    assert formulas.template("{4 * gpus}").value(VALUES) == 64
    assert formulas.template("plain").value({}) == "plain"


@pytest.mark.parametrize("text", ["{gpus", "gpus}", "{}", "{gpus > }", "{a{b}}"])
def test_an_unbalanced_brace_is_refused(text):
    with pytest.raises(InputError):
        formulas.template(text)
