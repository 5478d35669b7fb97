"""pipesim trace, as a person meets it, and what stands behind it."""

import functools
import json
import shlex
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from helpers.places import ROOT
from pipesim.architectures import ARCHITECTURES, described
from pipesim.architectures.roofline import roofline
from pipesim.base import lookup
from pipesim.base.errors import InputError, UnknownNameError
from pipesim.core.costs import costs_of
from pipesim.core.devices import DEVICE_KINDS
from pipesim.core.trace import Trace
from pipesim.studies import results


@pytest.fixture
def run(run):
    """Run `pipesim trace` in this process: (exit code, standard output, standard error)."""
    return functools.partial(run, "trace")


def folder(tmp_path):
    return {path.name: path.read_bytes() for path in tmp_path.iterdir()}


def test_the_trace_is_the_roofline_of_the_architecture_by_operation(run, tmp_path):
    code, out, err = run("gpt-6.7b", "--device", "a100-80", "--microbatch", "2", "-o", tmp_path / "made")
    assert (code, err) == (0, "")
    assert out.endswith(f"trace written to {tmp_path / 'made'}\n")
    made = Trace.load(tmp_path / "made")
    model = lookup.resolve("gpt3-6.7b", ARCHITECTURES, "architecture")(microbatch=2)
    command = "pipesim trace gpt-6.7b --device a100-80 --microbatch 2 --efficiency device"
    wanted = roofline(replace(model, sequence=2048), ["a100-80gb"], efficiency="device", command=command)
    assert made.same_as(wanted)
    assert "by operation with fitted constants" in made.machine


def test_every_size_reaches_the_architecture(run, tmp_path):
    code, _, err = run(
        "gpt(4, 1024, 16)", "-d", "h100", "-d", "a100-40", "-b", 3, "--sequence", 256, "--precision", "bf16",
        "--tensor-parallel", 4, "--efficiency", "0.4", "-o", tmp_path / "made",
    )  # fmt: skip
    assert (code, err) == (0, "")
    build = lookup.resolve("gpt(4, 1024, 16)", ARCHITECTURES, "architecture")
    model = build(microbatch=3, sequence=256, precision="bf16", tensor_parallel=4)
    made = Trace.load(tmp_path / "made")
    model = replace(model, sequence=256)
    wanted = roofline(model, ["h100", "a100-40"], efficiency=0.4, tensor_parallel=4, command=made.command)
    assert made.same_as(wanted)
    assert made.device_kinds == ("h100-80gb", "a100-40gb")


def test_images_have_a_side(run, tmp_path):
    assert run("vgg-16", "-d", "t4", "--image", 64, "-o", tmp_path / "made")[0] == 0
    assert Trace.load(tmp_path / "made").layers["output_bytes"][0] == 2 * 64 * 64 * 64


def test_the_command_in_a_trace_makes_it_again(run, tmp_path):
    run("gpt(2, 64, 4)", "-d", "h100", "-b", 4, "-b", 2, "--sequence", 32, "-o", tmp_path / "one")
    pipesim, trace, *words = shlex.split(Trace.load(tmp_path / "one").command)
    assert (pipesim, trace) == ("pipesim", "trace")
    assert run(*words, "-o", tmp_path / "two")[0] == 0
    assert folder(tmp_path / "one") == folder(tmp_path / "two")


def test_the_same_command_writes_the_same_bytes_whatever_the_hash_seed(tmp_path):
    for seed in ("1", "2"):
        words = ["trace", "inception-v3", "-d", "v100-16", "-d", "a10", "-o", str(tmp_path / seed)]
        env = {"PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
        subprocess.run([sys.executable, "-m", "pipesim", *words], check=True, env=env, capture_output=True)
    assert folder(tmp_path / "1") == folder(tmp_path / "2")


def test_a_trace_with_several_microbatch_sizes_is_about_the_first_and_calculates_each(run, tmp_path):
    """Half a microbatch takes more than half the time: starting is not divided. Linear scaling would not know."""
    run("resnet-50", "-d", "v100-16", "-b", 8, "-b", 4, "--precision", "fp32", "-o", tmp_path / "made")
    made = Trace.load(tmp_path / "made")
    assert made.microbatch_size == 8
    assert sorted(set(made.layers["microbatch_size"].tolist())) == [4, 8]
    costs = costs_of(made)
    half, whole = (costs.forward("v100-16gb", share).sum() for share in (0.5, 1.0))
    alone = described.trace_called("resnet-50", ["v100-16"], {"precision": "fp32"}, microbatches=[4])
    np.testing.assert_array_equal(costs.forward("v100-16gb", 0.5), costs_of(alone).forward("v100-16gb"))
    assert 0.5 * whole < half < whole


def test_a_made_trace_can_be_planned_and_replayed_on_a_cluster_of_its_devices(run, tmp_path):
    run("llama(4, 256, 8, inner=512)", "-d", "h100", "--sequence", 128, "-o", tmp_path / "made")
    timeline = results.simulate(tmp_path / "made", 'flat(2, bandwidth="25GB/s", device="h100")').timeline
    assert timeline.makespan > 0


def test_an_encoder_and_a_decoder_can_be_planned_and_replayed(run, tmp_path):
    run("t5(2, 64, 4)", "-d", "h100", "--sequence", 32, "-o", tmp_path / "made")
    timeline = results.simulate(tmp_path / "made", 'flat(3, bandwidth="25GB/s", device="h100")').timeline
    assert timeline.makespan > 0


def test_json_says_what_was_written(run, tmp_path):
    code, out, _ = run("bert-large", "-d", "a100-80", "-d", "v100-16", "-b", 4, "--json", "-o", tmp_path / "made")
    assert code == 0
    data = json.loads(out)
    costs = costs_of(Trace.load(tmp_path / "made"))
    assert data["output"] == str(tmp_path / "made")
    assert (data["model"], data["layers"], data["precision"], data["source"]) == ("bert-large", 52, "fp16", "roofline")
    assert data["parameter_bytes"] == 2 * 336_226_108
    assert data["microbatch_sizes"] == [4]
    assert data["forward_flops"] == costs.model.forward_flops
    for kind in ("a100-80gb", "v100-16gb"):
        assert data["seconds"][kind]["backward"] == pytest.approx(costs.backward(kind).sum(), rel=1e-12)
        share = costs.model.forward_flops / costs.forward(kind).sum() / DEVICE_KINDS[kind].peak["fp16"]
        assert data["forward_share_of_peak"][kind] == pytest.approx(share, rel=1e-12)


def test_a_trace_that_is_there_is_replaced_only_by_force(run, tmp_path):
    out = tmp_path / "made"
    assert run("vgg-16", "-d", "t4", "-o", out)[0] == 0
    before = folder(out)
    code, _, err = run("vgg-19", "-d", "t4", "-o", out)
    assert (code, err) == (2, f"error: {out}: exists already; choose another name, or replace it with --force\n")
    assert folder(out) == before
    assert run("vgg-19", "-d", "t4", "-o", out, "--force")[0] == 0
    assert Trace.load(out).model == "vgg-19"


def test_force_replaces_traces_and_nothing_else(run, tmp_path):
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "letters.txt").write_text("dear")
    code, _, err = run("vgg-16", "-d", "t4", "-o", tmp_path / "made", "--force")
    assert code == 2
    assert "is not a folder with trace.toml" in err
    assert folder(tmp_path / "made") == {"letters.txt": b"dear"}


OUT = ("-o", "made")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["gtp-6.7b", "-d", "t4", *OUT], "unknown architecture 'gtp-6.7b'; did you mean 'gpt-6.7b'?"),
        (["gtp(2, 24, 4)", "-d", "t4", *OUT], "unknown architecture 'gtp'; did you mean 'gpt'?"),
        (["gpt2", "-d", "a100", *OUT], "unknown device kind 'a100'; did you mean 'a100-80gb'?"),
        (["gpt2", "-d", "t4", "-d", "t4-16", *OUT], "each named once"),
        (["gpt2", "-d", "t4"], "missing --output (see pipesim trace --help)"),
        (["gpt2", *OUT], "missing --device"),
        ([], "missing MODEL, --device, --output"),
        (["gpt2", "--list"], "--list takes no model"),
        (["gpt", "-d", "t4", *OUT], "'gpt': missing a required argument: 'layers'; write gpt(layers, hidden"),
        (["gpt(2, 24)", "-d", "t4", *OUT], "missing a required argument: 'heads'; write gpt(layers, hidden, heads)"),
        (["gpt(2, 24, 5)", "-d", "t4", *OUT], "architecture 'gpt(2, 24, 5)': heads = 5 found; a divisor of hidden"),
        (["gpt2", "-d", "t4", "-b", "0", *OUT], "architecture 'gpt2': microbatch = 0 found"),
        (["gpt2", "-d", "t4", "-b", "2", "-b", "2", *OUT], "microbatches = [2, 2] found; each size once was expected"),
        (["gpt2", "-d", "t4", "--sequence", "1025", *OUT], "sequence = 1025 found; at most positions = 1024"),
        (["gpt2", "-d", "t4", "--precision", "fp4", *OUT], "precision = 'fp4' found; fp16, bf16, fp32, tf32 or fp8"),
        (["gpt2", "-d", "t4", "--precision", "bf16", *OUT], "the data sheet of t4-16gb states a peak for fp32, fp16"),
        (["gpt2", "-d", "t4", "--tensor-parallel", "5", *OUT], "tensor_parallel = 5 found; a divisor of heads = 12"),
        (["gpt2", "-d", "t4", "--efficiency", "half", *OUT], "--efficiency: efficiency = 'half' found; device,"),
        (["gpt2", "-d", "t4", "--efficiency", "0", *OUT], "efficiency = 0.0 found; more than 0, at most 1"),
        (["gpt2", "-d", "t4", "--efficiency", "nan", *OUT], "efficiency = nan found"),
        (["resnet-50", "-d", "t4", "--sequence", "9", *OUT], "architecture 'resnet-50' has no sequence; it has image,"),
        (["vgg-16", "-d", "t4", "--tensor-parallel", "2", *OUT], "has no tensor_parallel; it has image, microbatch"),
        (["gpt2", "-d", "t4", "--image", "9", *OUT], "has no image; it has microbatch, sequence, precision, tens"),
        (["pipesim.base.files:read_text", "-d", "t4", *OUT], "missing a required argument: 'path'"),
        (["pipesim.core.devices:nobody", "-d", "t4", *OUT], "module 'pipesim.core.devices' has no 'nobody'"),
        (["builtins:dict", "-d", "t4", *OUT], "'builtins:dict': has no signature that can be read"),
        (["collections:Counter", "-d", "t4", *OUT], "returned a Counter; a Model was expected"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_in_one_paragraph_with_exit_code_2(run, tmp_path, monkeypatch, words, said):
    monkeypatch.chdir(tmp_path)
    code, out, err = run(*words)
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert said in err
    assert err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_the_list_names_every_architecture_and_device_once(run):
    code, out, _ = run("--list")
    assert code == 0
    lines = out.splitlines()
    for name in ARCHITECTURES:
        starts = (f"{name} ", f"{name},", f"{name}(")
        assert sum(line.startswith(starts) or f", {name} " in line.partition("  ")[0] + " " for line in lines) == 1, (
            name
        )
    for name in DEVICE_KINDS:
        assert sum(line.startswith(f"{name} ") for line in lines) == 1
    assert any(line.startswith("gpt(layers, hidden, heads) ") for line in lines)
    assert any(line.startswith("gpt3-6.7b, gpt-6.7b ") for line in lines)


def test_the_list_in_json_says_what_each_needs(run):
    data = json.loads(run("--list", "--json")[1])
    by_name = {name: entry for entry in data["architectures"] for name in entry["names"]}
    assert set(by_name) == set(ARCHITECTURES)
    assert by_name["llama"]["needs"] == ["layers", "hidden", "heads", "inner"]
    assert by_name["llama-7b"]["needs"] == []
    assert all(entry["about"].endswith(".") for entry in data["architectures"])
    assert set(data["devices"]) == set(DEVICE_KINDS)
    assert data["devices"]["l4-24gb"]["memory_bandwidth"] == 300e9


def test_the_width_of_tensor_parallelism_may_stand_in_the_expression():
    inside = described.trace_called("gpt(2, 64, 4, tensor_parallel=2)", ["h100"], {"sequence": 32})
    beside = described.trace_called("gpt(2, 64, 4)", ["h100"], {"sequence": 32, "tensor_parallel": 2})
    assert inside.same_as(beside)
    assert "one of 2 tensor-parallel devices" in inside.machine


def test_a_function_of_ones_own_may_build_the_model():
    made = described.trace_called("pipesim.architectures.gpt:gpt2", ["h100"], {"sequence": 32})
    assert made.model == "gpt2"


def test_the_library_says_the_same_as_the_command_line():
    with pytest.raises(UnknownNameError, match="did you mean 'resnet-50'"):
        described.model_called("resnet-5O", {})
    with pytest.raises(InputError, match="has no sequence"):
        described.model_called("resnet-50", {"sequence": 3})
