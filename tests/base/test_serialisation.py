"""Dataclasses to TOML and JSON and back; errors have the path of the wrong key."""

from dataclasses import dataclass, field
from typing import ClassVar, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers import strategies
from pipesim.base import serialisation, units
from pipesim.base.errors import FormatError, InputError

SUFFIXES = (".toml", ".json")


@dataclass(frozen=True, slots=True)
class Wheel:
    size: int
    spokes: tuple[str, ...] = ()
    grip: float | None = None

    def __post_init__(self):
        if self.size < 1:
            raise InputError(f"size: {self.size} found; at least 1 was expected")


@dataclass(frozen=True)
class Cart:
    FORMAT: ClassVar[str] = "test.cart"
    VERSION: ClassVar[int] = 3

    name: str
    wheels: tuple[Wheel, ...]
    length: float = 1.0
    sold: bool = False
    colour: Literal["red", "blue"] = "red"
    pair: tuple[int, int] = (0, 0)
    speed: float | None = field(default=None, metadata={"parse": units.bandwidth})
    memory: int = field(default=0, metadata={"parse": lambda value: int(units.size(value))})
    worth: int = field(default=5, metadata={"file": False})


numbers = st.floats(allow_nan=False, allow_infinity=False)
int64s = st.integers(-(2**63), 2**63 - 1)
texts = st.text(st.characters(exclude_categories=("Cs",)))
wheels = st.builds(Wheel, st.integers(1, 2**63 - 1), st.lists(texts, max_size=2).map(tuple), st.none() | numbers)
carts = st.builds(
    Cart,
    texts,
    st.lists(wheels, max_size=3).map(tuple),
    numbers,
    st.booleans(),
    st.sampled_from(["red", "blue"]),
    st.tuples(int64s, int64s),
    st.none() | st.floats(0, 1e300),
    st.integers(0, 2**50),
)


@pytest.mark.parametrize("suffix", SUFFIXES)
@given(cart=carts)
def test_what_is_written_reads_back_exactly(suffix, cart):
    """Every bit of every float, every text, and None."""
    data = serialisation.parse_data(serialisation.dumps(cart, suffix), suffix)
    assert (data.pop("format"), data.pop("version")) == ("test.cart", 3)
    assert serialisation.from_data(Cart, data) == cart


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_file_is_saved_and_loaded(tmp_path, suffix):
    cart = Cart("a", (Wheel(1), Wheel(2, ("x",), 0.1)), speed=2e9)
    serialisation.save(cart, tmp_path / f"cart{suffix}")
    assert serialisation.load(Cart, tmp_path / f"cart{suffix}") == cart


def test_none_that_json_writes_down_is_read_where_people_may_write_text():
    """A field with a `parse` function once refused the null that its own file held."""
    text = serialisation.dumps(Cart("a", ()), ".json")
    assert '"speed": null' in text
    assert serialisation.from_data(Cart, {"name": "a", "wheels": [], "speed": None}).speed is None


def test_quantities_are_parsed_by_the_parse_function_of_a_field():
    cart = serialisation.from_data(Cart, {"name": "a", "wheels": [], "speed": "8 Gb/s", "memory": "1 GiB"})
    assert (cart.speed, cart.memory) == (1e9, 2**30)


VALID = {"name": "a", "wheels": [{"size": 1}, {"size": 2}]}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"nmae": "a"}, "nmae: unknown key; known are name, wheels"),
        ({"worth": 5}, "worth: unknown key"),
        ({"name": 3}, "name: 3 found; text was expected"),
        ({"name": None}, "name: None found; text was expected"),
        ({"name": "\ud800"}, "name: .* found; text that UTF-8 can write"),
        ({"wheels": {}}, "wheels: {} found; a list was expected"),
        ({"wheels": [{"size": 1}, 7]}, r"wheels\[1\]: 7 found; a table with keys was expected"),
        ({"wheels": [{"size": 1}, {}]}, r"wheels\[1\]\.size: missing; a whole number was expected"),
        ({"wheels": [{"size": 0}]}, r"wheels\[0\]: size: 0 found; at least 1"),
        ({"wheels": [{"size": 1.5}]}, r"wheels\[0\]\.size: 1\.5 found; a whole number"),
        ({"wheels": [{"size": True}]}, r"wheels\[0\]\.size: True found; a whole number"),
        ({"wheels": [{"size": 1, "spokes": ["x", 1]}]}, r"wheels\[0\]\.spokes\[1\]: 1 found; text"),
        ({"wheels": [{"size": 1, "grip": "x"}]}, r"wheels\[0\]\.grip: 'x' found; a number"),
        ({"length": True}, "length: True found; a number"),
        ({"length": float("nan")}, "length: nan found; a finite number"),
        ({"length": 10**400}, "length: inf found; a finite number"),
        ({"sold": 1}, "sold: 1 found; true or false"),
        ({"colour": "green"}, "colour: 'green' found; one of 'red', 'blue'"),
        ({"colour": ["red"]}, r"colour: \['red'\] found; one of"),
        ({"pair": [1]}, "pair: 1 values found; 2 were expected"),
        ({"pair": [1, 2**63]}, r"pair\[1\]: 9223372036854775808 found; a 64-bit whole number"),
        ({"pair": [1, 1 << 20_000]}, r"pair\[1\]: a whole number of 20001 bits found"),
        ({"speed": "fast"}, "speed: 'fast' is not a bandwidth"),
        ({"speed": 10**400}, "speed: a whole number of 1329 bits is not a bandwidth; it must be finite"),
        ({"memory": "1e300 B"}, "memory: .* found; a 64-bit whole number"),
        ({"a\nb": 1}, r"'a\\nb': unknown key"),
    ],
)
def test_what_is_wrong_is_named_with_the_path_of_its_key(change, message):
    with pytest.raises(InputError, match=message) as caught:
        serialisation.from_data(Cart, VALID | change)
    assert "\n" not in str(caught.value)


def test_a_missing_key_is_named():
    with pytest.raises(InputError, match="wheels: missing; a list was expected"):
        serialisation.from_data(Cart, {"name": "a"})


@pytest.mark.parametrize(
    ("head", "message"),
    [
        ({}, "no key 'format' found; format = 'test.cart' was expected"),
        ({"format": "test.horse", "version": 1}, "format = 'test.horse' found; format = 'test.cart'"),
        ({"format": ["x"], "version": 1}, r"format = \['x'\] found"),
        ({"format": "test.cart"}, "version = None found; a whole number, at most 3"),
        ({"format": "test.cart", "version": 0}, "version = 0 found"),
        ({"format": "test.cart", "version": True}, "version = True found"),
        ({"format": "test.cart", "version": "1"}, "version = '1' found"),
        (
            {"format": "test.cart", "version": 4},
            r"test\.cart version 4 is newer than this pipesim reads \(3\); upgrade",
        ),
        ({"format": "test.cart", "version": 1 << 20_000}, "of 20001 bits is newer"),
    ],
)
def test_another_format_and_a_newer_version_are_refused(head, message):
    with pytest.raises(FormatError, match=message):
        serialisation.check_header(head, Cart.FORMAT, Cart.VERSION)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_older_versions_are_read(version):
    serialisation.check_header({"format": "test.cart", "version": version}, Cart.FORMAT, Cart.VERSION)


@pytest.mark.parametrize(
    ("text", "suffix", "message"),
    [
        ("{", ".json", "is not JSON"),
        ("a = ", ".toml", "is not TOML"),
        ("[1]", ".json", "contains a list; a table of keys and values"),
        ('{"a": NaN}', ".json", "NaN found; numbers must be finite"),
        ('{"a": -Infinity}', ".json", "-Infinity found"),
        ("[" * 100_000, ".json", "is not JSON: nested too deeply"),
        ("a = " + "[" * 100_000, ".toml", "is not TOML: nested too deeply"),
        ("a = " + "9" * 5000, ".toml", "is not TOML"),
        ('{"a": ' + "9" * 5000 + "}", ".json", "is not JSON"),
        ("", ".yaml", r"has the suffix '\.yaml'; a \.toml or \.json file"),
    ],
)
def test_text_that_is_not_in_the_format_is_refused(text, suffix, message):
    with pytest.raises(InputError, match=message):
        serialisation.parse_data(text, suffix)


def test_an_error_in_a_file_names_the_file(tmp_path):
    path = tmp_path / "cart.toml"
    path.write_text('format = "test.cart"\nversion = 1\nname = "a"\nwheels = [{size = "x"}]\n')
    with pytest.raises(InputError, match=r"cart\.toml: wheels\[0\]\.size: 'x' found"):
        serialisation.load(Cart, path)


def test_keys_that_a_file_shows_for_people_are_ignored_when_named(tmp_path):
    path = tmp_path / "cart.toml"
    path.write_text('format = "test.cart"\nversion = 1\nname = "a"\nwheels = []\nweight = 3\n')
    assert serialisation.load(Cart, path, frozenset({"weight"})) == Cart("a", ())
    with pytest.raises(InputError, match="weight: unknown key"):
        serialisation.load(Cart, path)


def test_only_toml_and_json_are_written(tmp_path):
    with pytest.raises(InputError, match=r"cannot write a \.yaml; use \.toml or \.json"):
        serialisation.save(Cart("a", ()), tmp_path / "cart.yaml")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("suffix", SUFFIXES)
@given(data=st.data())
def test_models_and_plans_read_back_exactly(suffix, data):
    from pipesim.core.model import Model, model_of
    from pipesim.core.plan import Plan

    trace = data.draw(strategies.traces())
    model = model_of(trace)
    plan = data.draw(strategies.plans(trace.layer_count, ["a b", "ü", '"'], model=model.name))
    for cls, value in ((Model, model), (Plan, plan)):
        body = serialisation.parse_data(serialisation.dumps(value, suffix), suffix)
        assert (
            serialisation.from_data(cls, {key: body[key] for key in body if key not in {"format", "version"}}) == value
        )
