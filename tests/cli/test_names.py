"""All names that commands take, by family."""

import json

import pytest

from helpers.places import TESTS
from pipesim.architectures import ARCHITECTURES
from pipesim.cli import names
from pipesim.studies import loading


def test_show_lists_all_names_and_says_of_each_family_what_its_members_are(run):
    """What a newcomer asks: which devices, models, formats are there?"""
    every = json.loads(run("show", "--json")[1])
    head = [every.pop("format"), every.pop("version")]
    assert (head, set(every)) == (["pipesim.output.show", 1], set(names.FAMILIES))
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


@pytest.mark.parametrize("noun", names.FAMILIES)
def test_every_name_that_is_listed_can_be_shown(noun, run):
    """In text and as JSON: what it holds, or what it takes."""
    for name in names.every()[noun]:
        code, out, err = run("show", name)
        assert (code, err) == (0, ""), name
        assert ("kind" if noun == "traces" else name) in out, name
        assert json.loads(run("show", name, "--json")[1]), name


def test_other_names_of_models_are_shown_as_the_first(run):
    for name in ARCHITECTURES:
        if name not in names.every()["models"]:
            assert run("show", name)[0] == 0, name
    assert run("show", "gpt-6.7b")[1].startswith("model                  gpt3-6.7b (67 layers")


def test_a_model_is_shown_with_its_sizes_and_a_family_with_those_that_it_needs(run, tmp_path):
    out = run("show", "llama3-70b")[1]
    assert "70,553,706,496 (131.4 GiB)" in out
    assert "attention      80" in out
    assert "block79.mlp" in run("show", "llama3-70b", "--all")[1]
    assert "gpt(layers, hidden, heads)\n    GPT: " in run("show", "gpt")[1]
    assert "gpt-2x64 (7 layers, fp16)" in run("show", "gpt(2, 64, 4)")[1]
    config = str(TESTS / "frameworks" / "small_qwen3_moe.json")
    assert json.loads(run("show", config, "--json")[1])["layers"][2]["kind"] == "moe"
    (tmp_path / "config.json").write_text((TESTS / "frameworks" / "small_qwen3_moe.json").read_text())
    assert f"{tmp_path.name} (9 layers, fp16)" in run("show", tmp_path)[1]
    for option in ("--plot", "-o"):
        code, _, err = run("show", "llama3-70b", option, tmp_path / "x.png")
        assert (code, "have no effect for a model" in err) == (2, True)


def test_a_name_of_several_families_is_shown_for_each(run):
    out = run("show", "gpipe")[1]
    assert out.startswith("planner\ngpipe\n")
    assert "\nscheduler\ngpipe\n" in out
    assert set(json.loads(run("show", "gpipe", "--json")[1])) == {"format", "version", "planners", "schedulers"}


def test_a_short_name_of_a_device_is_shown_unless_it_means_several(run):
    assert "h100-80gb  80.00 GiB" in run("show", "h100")[1]
    code, _, err = run("show", "a100")
    assert (code, "unknown device kind 'a100'; did you mean 'a" in err) == (2, True)


def test_what_nothing_is_called_is_refused_with_the_closest_name(run):
    code, _, err = run("show", "llama3-71b")
    assert code == 2
    assert err == (
        "error: no cluster or trace is called 'llama3-71b', and nothing else; did you mean 'llama3-70b'? "
        "pipesim show lists all names\n"
    )
