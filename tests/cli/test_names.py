"""All names that commands take, by family."""

import json

import pytest

from pipesim.cli import names
from pipesim.studies import loading


def test_show_lists_all_names_and_says_of_each_family_what_its_members_are(run):
    """What a newcomer asks: which devices, models, formats are there?"""
    every = json.loads(run("show", "--json")[1])
    assert set(names.FAMILIES) == set(every)
    text = run("show")[1]
    for noun, members in every.items():
        found = json.loads(run("show", noun, "--json")[1])[noun]
        listed = [name for one in found for name in one["names"]] if noun == "models" else list(found)
        assert set(members) <= set(listed)
        said = run("show", noun)[1]
        assert all(name in said and name in text for name in members), noun
    assert {"a100-80gb", "gpt3-6.7b", "kineto", "spp", "servers"} <= {
        name for found in every.values() for name in found
    }


def test_what_is_said_of_a_member_is_what_it_takes_and_a_sentence(run):
    _, out, _ = run("show", "clusters")
    assert "ring(n, bandwidth)\n    Every device has a link to the next" in out
    assert "\n    options: latency='2us', device='v100-16gb'" in out
    assert "kineto\n    PyTorch's profiler (Kineto): " in run("show", "formats")[1]
    for noun in ("clusters", "planners", "schedulers", "formats", "engines"):
        assert all(
            one["about"].endswith((".", ":")) for one in json.loads(run("show", noun, "--json")[1])[noun].values()
        )


@pytest.mark.parametrize(("word", "noun"), [("model", "models"), ("Topologies", "clusters"), ("importer", "formats")])
def test_a_family_may_be_called_by_other_words(word, noun, run):
    assert run("show", word) == run("show", noun)


def test_a_trace_that_is_called_as_a_family_is_shown_where_it_lies(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "traces").mkdir()
    assert run("show", "traces")[1].startswith("trace  ")
    loading.load_trace("vgg-19").save(tmp_path / "trace")
    assert run("show", "trace")[1].startswith("model  ")
