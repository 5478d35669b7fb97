"""`pipesim show FILE` shows files of all our formats, as text and as JSON with their format."""

import json

import pytest

from helpers.places import ROOT

SCENARIO = 'format = "pipesim.scenario"\nversion = 1\n[[slow]]\ndevice = "gpu1"\nfactor = 2\n'
DEVICES = (
    'format = "pipesim.devices"\nversion = 1\n[[devices]]\nname = "ours"\nbase = "a100-80gb"\nprecision = "bf16"\n'
    "product = 0.7\nattention = 0.5\nmemory = 0.8\nlaunch_s = 5e-6\nunaligned = 1.0\n"
)
SWEEP = (
    'format = "pipesim.sweep"\nversion = 1\n[simulate]\ntrace = "bert-large"\n'
    "[grid]\nmicrobatches = { from = 1, to = 64, factor = 2 }\nplanner = ['spp']\n"
    "cluster = ['flat(2, bandwidth=\"1GB/s\")']\n"
)


@pytest.fixture
def folder(tmp_path, run):
    for name, text in {"scenario": SCENARIO, "devices": DEVICES, "sweep": SWEEP}.items():
        (tmp_path / f"{name}.toml").write_text(text)
    assert run("plan", "bert-large", 'flat(2, bandwidth="1GB/s")', "-o", tmp_path / "plan.json")[0] == 0
    assert run("schedule", "zb_h1", "--stages", "2", "--microbatches", "3", "-o", tmp_path / "schedule.csv")[0] == 0
    return tmp_path


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("scenario.toml", ["gpu1", "takes 2 times as long", "throughout"]),
        ("devices.toml", ["ours", "a100-80gb", "bf16", "70.0 %", "5.000 us"]),
        ("sweep.toml", ["7", "1, 2, 4, 8, 16, 32, ..., 64", "bert-large", "iteration_time_s"]),
        ("plan.json", ["bert-large", "gpu0", "gpu1"]),
        ("schedule.csv", ["0: 0F0 0F1", "1: 1F0 1I0"]),
    ],
)
def test_a_file_is_shown(file, expected, folder, run):
    code, out, _ = run("show", folder / file)
    assert code == 0
    for text in expected:
        assert text in out
    code, out, _ = run("show", folder / file, "--json")
    assert (code, json.loads(out)["format"]) == (0, f"pipesim.{file.partition('.')[0]}")


def test_a_wrong_file_is_refused_with_the_place(tmp_path, run):
    (tmp_path / "slow.toml").write_text(SCENARIO.replace("factor", "facter"))
    code, _, err = run("show", tmp_path / "slow.toml")
    assert code == 2
    assert "slow.toml: slow[0].facter: unknown key" in err


def test_options_for_clusters_are_refused_beside_other_files(folder, run):
    code, _, err = run("show", folder / "scenario.toml", "--plot", folder / "a.png")
    assert code == 2
    assert "only --json has an effect" in err


def test_every_shipped_sweep_can_be_shown(run):
    for path in sorted((ROOT / "experiments").glob("*/experiment.toml")):
        assert run("show", path)[0] == 0, path
