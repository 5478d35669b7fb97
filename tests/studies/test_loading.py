"""Traces, clusters and plans come from names, expressions and files."""

import json

import pytest

from pipesim.base import serialisation
from pipesim.base.errors import InputError, UnknownNameError
from pipesim.core.cluster import Cluster
from pipesim.studies import loading, results

FLAT = 'flat(4, bandwidth="1GB/s")'


def test_a_bundled_trace_is_found_by_name():
    assert loading.load_trace("bert-large").model == "bert-large"
    with pytest.raises(InputError, match="did you mean 'bert-large'"):
        loading.load_trace("bert-lrage")


def test_a_cluster_comes_from_an_expression_or_from_a_file(tmp_path):
    made = loading.load_cluster(FLAT)
    for name in ("c.toml", "c.json"):
        serialisation.save(made, tmp_path / name)
        assert loading.load_cluster(str(tmp_path / name)) == made
    assert isinstance(loading.load_cluster("dgx1_v100"), Cluster)
    with pytest.raises(UnknownNameError, match="did you mean 'flat'"):
        loading.load_cluster("flet(4)")


def test_an_expression_is_parsed_and_never_evaluated():
    with pytest.raises(InputError, match="is not a plain number, text, list or tuple"):
        loading.load_cluster("flat(__import__('os').getpid(), bandwidth=1e9)")


def test_a_plan_is_printed_so_that_it_can_be_loaded_again(tmp_path):
    found = results.find_plan("vgg-19", FLAT, "balanced", microbatches=8)
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(found.as_data()), encoding="utf-8")
    assert loading.load_plan(file) == found.plan
