"""One tree of errors, each with a message and the place it is about."""

import pytest

from pipesim.base import errors
from pipesim.base.errors import DeadlockError, InputError, MissingExtraError, PipesimError, is_interrupt, shown, within


def test_places_stand_before_the_message_outermost_first():
    with pytest.raises(InputError) as caught, within("traces/a"), within("line 7"), within("forward_s"):
        raise InputError("-1.0 is negative")
    assert str(caught.value) == "traces/a: line 7: forward_s: -1.0 is negative"
    assert caught.value.message == "-1.0 is negative"


def test_within_keeps_the_error_and_leaves_others_alone():
    error = DeadlockError("stuck")
    with pytest.raises(DeadlockError) as caught, within("plan"):
        raise error
    assert caught.value is error
    with pytest.raises(ZeroDivisionError, match=r"^division"), within("plan"):
        1 / 0  # noqa: B018 - a mistake of the program, not of its input


def test_an_error_without_place_is_its_message():
    assert str(PipesimError("nothing found")) == "nothing found"


def test_every_error_of_the_project_is_in_the_one_tree_and_in_its_drawing():
    classes = [value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, Exception)]
    assert len(classes) > 8
    for error in classes:
        assert issubclass(error, PipesimError)
        assert error.__name__ in errors.__doc__


def test_a_missing_extra_is_named_with_its_command():
    assert str(MissingExtraError("reading parquet", "parquet")) == (
        "reading parquet needs the extra 'parquet': pip install 'pipesim[parquet]'"
    )


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("a", "'a'"),
        (1.5, "1.5"),
        (None, "None"),
        ([1, "x"], "[1, 'x']"),
        ("a\n\nb", r"'a\n\nb'"),
        (1 << 20_000, "a whole number of 20001 bits"),
    ],
    ids=["text", "number", "nothing", "list", "lines", "huge"],
)
def test_a_found_value_is_shown_as_in_python(value, expected):
    assert shown(value) == expected


def _nested(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    "value", ["x" * 10_000, list(range(10_000)), _nested(5000), {"a": [1 << 20_000]}, {"a" * 1000: b"b" * 1000}]
)
def test_what_is_too_long_or_too_deep_to_write_out_is_shown_in_part(value):
    assert 2 < len(shown(value)) <= 80


def test_what_is_raised_in_place_of_an_interrupt_is_one():
    def raised(cause, context):
        error = SystemError("a result with an exception set")
        error.__cause__, error.__context__ = cause, context
        return error

    interrupt = KeyboardInterrupt()
    assert is_interrupt(interrupt)
    assert is_interrupt(raised(interrupt, None))
    assert is_interrupt(raised(raised(None, interrupt), None))
    assert not is_interrupt(raised(ValueError(), None))
    assert not is_interrupt(ValueError())
