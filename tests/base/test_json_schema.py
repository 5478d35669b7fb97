"""JSON Schemas of dataclasses accept what `serialisation` reads, and refuse what it refuses for its keys and types."""

import json
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import jsonschema
import pytest

from pipesim.base import json_schema, serialisation, units
from pipesim.base.errors import InputError
from pipesim.base.settings import setting, settings_of


@dataclass(frozen=True)
class Axle:
    """An axle.

    More about axles.
    """

    load: float
    speed: float | None = field(default=None, metadata={"parse": units.bandwidth})


@dataclass(frozen=True)
class Cart:
    FORMAT: ClassVar[str] = "test.cart"
    VERSION: ClassVar[int] = 3

    name: str
    axles: tuple[Axle, ...] = ()
    pair: tuple[int, str] = (0, "")
    colour: Literal["red", "blue"] = "red"
    sold: bool = False
    hidden: int = field(default=5, metadata={"file": False})


HEAD = {"format": "test.cart", "version": 3}
WHOLE = HEAD | {
    "name": "a", "axles": [{"load": 1, "speed": "2 GB/s"}, {"load": 0.5, "speed": None}], "pair": [1, "b"],
    "colour": "blue", "sold": True,
}  # fmt: skip


def accepted(data):
    return jsonschema.Draft202012Validator(json_schema.of_file(Cart)).is_valid(data)


def read(data, tmp_path):
    path = tmp_path / "cart.json"
    path.write_text(json.dumps(data))
    try:
        serialisation.load(Cart, path)
    except InputError:
        return False
    return True


@pytest.mark.parametrize(
    ("change", "valid"),
    [
        ({}, True),
        ({"$schema": "cart.schema.json"}, True),
        ({"version": 2}, True),
        ({"version": 4}, False),
        ({"format": "test.horse"}, False),
        ({"name": 3}, False),
        ({"colour": "green"}, False),
        ({"pair": [1]}, False),
        ({"pair": ["b", 1]}, False),
        ({"axles": [{"speed": 1}]}, False),
        ({"axles": [{"load": 1, "wheels": 2}]}, False),
        ({"axles": {"load": 1}}, False),
        ({"sold": "yes"}, False),
        ({"hidden": 5}, False),
        ({"colours": "red"}, False),
    ],
    ids=str,
)
def test_a_schema_and_the_reader_agree(change, valid, tmp_path):
    data = WHOLE | change
    assert (accepted(data), read(data, tmp_path)) == (valid, valid)


def test_a_missing_key_is_refused_by_both(tmp_path):
    for name in ("name", "format", "version"):
        data = {key: value for key, value in WHOLE.items() if key != name}
        assert not accepted(data)
        assert not read(data, tmp_path)


def test_a_table_is_described_by_the_first_line_of_its_documentation():
    assert json_schema.of_dataclass(Axle)["description"] == "An axle."


@dataclass(frozen=True)
class Options:
    count: int = setting(8, int, "How many.")
    form: str = setting("a", str, "Which form.", choices=("a", "b"))
    names: tuple[str, ...] = setting((), str, "Names.", multiple=True)


def test_settings_take_their_values_lists_of_them_and_formulas_in_text():
    schema = jsonschema.Draft202012Validator(json_schema.of_settings(settings_of(Options)))
    for right in (
        {"count": 3},
        {"count": "{4 * gpus}"},
        {"form": "b"},
        {"form": "{x}"},
        {"names": ["a"]},
        {"names": "a"},
    ):
        assert schema.is_valid(right), right
    for wrong in ({"count": 1.5}, {"count": [1]}, {"form": "c"}, {"names": [1]}, {"counts": 3}):
        assert not schema.is_valid(wrong), wrong
