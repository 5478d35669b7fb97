"""Schemas of files: those that ship are accepted, and what a reader refuses by its keys is refused."""

import json
import tomllib

import jsonschema
import pytest

from helpers.places import ROOT
from pipesim.base import serialisation
from pipesim.studies import file_schemas
from pipesim.studies.loading import load_cluster

FOLDERS = ("traces", "experiments", "docs", "tests", "notebooks")


def data_of(path):
    text = path.read_text(encoding="utf-8")
    return tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)


def shipped():
    paths = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.*") if path.suffix in {".toml", ".json"}]
    for path in sorted(paths):
        if b'"pipesim.' in path.read_bytes()[:4096] and path.parent.name != "schemas":
            data = data_of(path)
            if isinstance(data, dict) and str(data.get("format")).removeprefix("pipesim.") in file_schemas.SCHEMAS:
                yield pytest.param(data, id=path.relative_to(ROOT).as_posix())


@pytest.mark.parametrize("name", file_schemas.SCHEMAS)
def test_each_is_a_schema_and_the_site_has_it(name):
    schema = file_schemas.SCHEMAS[name]()
    jsonschema.Draft202012Validator.check_schema(schema)
    kept = ROOT / "docs" / "schemas" / file_schemas.file_name(name)
    assert kept.read_text(encoding="utf-8") == file_schemas.text_of(name), "run `make lists`"


@pytest.mark.parametrize("data", list(shipped()))
def test_files_that_ship_are_accepted(data):
    name = data["format"].removeprefix("pipesim.")
    jsonschema.validate(data, file_schemas.SCHEMAS[name]())


def test_what_is_written_is_accepted():
    cluster = load_cluster('servers(2, 2, intra="25GB/s", inter="1GB/s")')
    for suffix in (".toml", ".json"):
        data = serialisation.parse_data(serialisation.dumps(cluster, suffix), suffix)
        jsonschema.validate(data, file_schemas.SCHEMAS["cluster"]())


@pytest.mark.parametrize(
    "wrong",
    [
        {"simulate": {"planer": "spp"}},
        {"simulate": {"microbatches": 1.5}},
        {"grid": {"x": 3}},
        {"grid": {"x": {"to": 3}}},
        {"output": {"metric": []}},
        {"plot": {"kind": "pie", "x": "a"}},
        {"axes": {}},
    ],
    ids=str,
)
def test_a_wrong_sweep_is_refused(wrong):
    right = {"format": "pipesim.sweep", "version": 1, "simulate": {"trace": "a"}, "grid": {"microbatches": [1, 2]}}
    schema = jsonschema.Draft202012Validator(file_schemas.SCHEMAS["sweep"]())
    assert schema.is_valid(right)
    assert not schema.is_valid(right | wrong)
