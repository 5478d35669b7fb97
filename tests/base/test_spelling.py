"""A spelling means one thing or nothing, and a suggestion is what was mistyped or none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipesim.base.spelling import mistyped, plain, spellings

KNOWN = spellings((name, name) for name in ("gpipe", "zb_h1", "dualpipe", "dualpipe_v", "interleaved", "v_min"))


@pytest.mark.parametrize("name", ["zb_h1", "ZB-H1", "zbh1", "Zb H1", "zb.h1"])
def test_case_and_what_is_between_letters_do_not_matter(name):
    assert KNOWN[plain(name)] == "zb_h1"


def test_a_plus_is_a_letter():
    assert plain("SPP+") == plain("spp_plus") != plain("spp")


def test_a_spelling_of_two_things_means_neither():
    assert spellings([("a_b", "one"), ("ab", "other"), ("c", "one"), ("C", "one")]) == {"c": "one"}


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("gpiep", "gpipe"),
        ("gppipe", "gpipe"),
        ("gpie", None),  # too short to know
        ("inteleavd", None),  # two errors
        ("interlaeved", "interleaved"),
        ("dualpip", None),  # the beginning of two
        ("dualppe", "dualpipe"),
        ("dualpope", None),  # another letter in a short name may be another name
        ("dualpipex", None),  # dualpipe, dualpipe_v, or another one
        ("dualpipe_vv", None),
        ("zb_h2", None),
        ("zb_h11", None),
        ("interleaved_zb", None),
        ("", None),
    ],
)
def test_only_typing_errors_are_recognised(name, meant):
    assert mistyped(name, KNOWN) == meant


@given(st.sampled_from(["interleaved", "dualpipe"]), st.data())
def test_two_letters_that_are_exchanged_are_one_error(name, data):
    at = data.draw(st.integers(0, len(name) - 2))
    wrong = name[:at] + name[at + 1] + name[at] + name[at + 2 :]
    assert mistyped(wrong, spellings([(name, name)])) == name
