"""import, show, diff and run as a person meets them."""

import json
import re
import shlex

import numpy as np
import pytest

from helpers import chakra_files as et
from helpers.mutations import PROFILE
from helpers.profiles import metis_profile
from helpers.small_traces import sampled_trace
from pipesim.base import serialisation
from pipesim.core.cluster import Cluster, Device
from pipesim.core.costs import costs_of
from pipesim.core.trace import Trace


@pytest.fixture
def files(tmp_path, monkeypatch):
    """A folder with files of every format, which commands are run in."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.txt").write_text(PROFILE)
    for batch in (1, 4):
        times = metis_profile(times=(3.0 * batch, 30.0 * batch))
        times["model"]["parameters"]["parameters_per_layer_bytes"] = [100, 200]
        (tmp_path / f"DeviceType.A100_tp1_bs{batch}.json").write_text(json.dumps(times))
    np.save(tmp_path / "gpt2_A100_1.npy", np.array([0.5, 0.25]))
    (tmp_path / "times.csv").write_text("op;fwd;bwd\nconv;1;2\nfc;3;4\n")
    et.ranks(
        tmp_path,
        [et.compute(1, "a_fwd", 10), et.send(2, 0, 1, 1000, needs=[1])],
        [et.receive(1, 0, 1, 1000), et.compute(2, "b_fwd", 20, needs=[1])],
    )
    serialisation.save(Cluster("one", (Device("gpu0", "any"),)), tmp_path / "cluster.json")
    return tmp_path


IMPORTS = {
    "net.txt": (2, "pipedream"),
    "DeviceType.A100_tp1_bs1.json DeviceType.A100_tp1_bs4.json --format 'metis(output_bytes=\"1KiB\")'": (2, "metis"),
    "gpt2_A100_1.npy --format 'npy(backward_factor=1)' --samples 2": (2, "npy"),
    """times.csv --format 'csv(columns={"forward_s": "fwd", "backward_s": "bwd"}, delimiter=";")'""": (2, "csv"),
    "run.0.et run.1.et --format 'chakra(backward_factor=2)'": (2, "chakra"),
    "run.0.et run.1.et": (2, "chakra"),
}


@pytest.mark.parametrize("words", IMPORTS)
def test_files_of_every_format_are_imported_and_it_says_what_it_read(words, files, run):
    layers, source = IMPORTS[words]
    code, out, _ = run("import", *shlex.split(words), "-o", "made/trace")
    assert code == 0
    trace = Trace.load(files / "made" / "trace")
    assert (trace.layer_count, trace.source) == (layers, source)
    assert trace.command == shlex.join(["pipesim", "import", *shlex.split(words)])
    assert f"({layers} layers)" in out
    assert "forward" in out
    assert f"trace, read as {source}" in out


def test_json_says_the_same(files, run):
    code, out, _ = run("import", "net.txt", "-o", "trace", "--samples", "8", "--json")
    data = json.loads(out)
    assert code == 0
    assert (data["output"], data["source"], data["microbatch_size"], len(data["layers"])) == (
        "trace",
        "pipedream",
        8,
        2,
    )
    assert sum(data["seconds"]["any"]["forward"]) == pytest.approx(2e-3)
    assert data["notes"] == ["times name no kind of device: they are used for devices of any kind"]
    assert files.joinpath("trace").is_dir()


def test_samples_and_a_microbatch_size_rescale_the_profile(files, run):
    assert run("import", "net.txt", "-o", "trace", "--samples", "8", "--microbatch-size", "2")[0] == 0
    trace = Trace.load(files / "trace")
    whole, costs = costs_of(trace, 8), costs_of(trace)
    assert costs.forward("any") == pytest.approx(whole.forward("any") / 4)
    assert costs.model.cut_bytes == pytest.approx(whole.model.cut_bytes / 4)
    assert costs.model.parameter_bytes.tolist() == whole.model.parameter_bytes.tolist()
    assert trace.layers["forward_s"].sum() == pytest.approx(2e-3)  # what was recorded stays
    assert "8 recorded; 2 by default" in run("show", "trace")[1]


@pytest.mark.usefixtures("files")
def test_what_is_not_recorded_is_noted(run):
    out = run("import", "gpt2_A100_1.npy", "-o", "trace")[1]
    assert "note: no layer has output_bytes" in out
    assert "note: no layer has parameter_bytes" in out


@pytest.mark.usefixtures("files")
def test_the_widths_of_a_run_are_stated_and_shown(run):
    out = run("import", "gpt2_A100_1.npy", "-o", "trace", "--tp", "2", "--cp", "2")[1]
    assert "tensor width 2, context width 2" in out
    assert "note: a forward-only profile" in out
    shown = json.loads(run("show", "trace", "--json")[1])
    assert shown["widths"] == [{"tensor": 2, "context": 2, "expert": 1}]
    assert "--tensor-parallel 2 --context-parallel 2" in Trace.load("trace").command


def test_a_trace_that_is_there_is_replaced_only_by_force(files, run):
    assert run("import", "net.txt", "-o", "trace")[0] == 0
    code, _, err = run("import", "gpt2_A100_1.npy", "-o", "trace")
    assert (code, "trace: exists already" in err, "--force" in err) == (2, True, True)
    assert Trace.load(files / "trace").source == "pipedream"
    assert run("import", "gpt2_A100_1.npy", "-o", "trace", "--force")[0] == 0
    assert Trace.load(files / "trace").source == "npy"


def test_force_does_not_replace_what_is_no_trace(files, run):
    (files / "thesis").mkdir()
    (files / "thesis" / "thesis.tex").write_text("years")
    code, _, err = run("import", "net.txt", "-o", "thesis", "--force")
    assert code == 2
    assert "is not a folder with trace.toml" in err
    assert (files / "thesis" / "thesis.tex").read_text() == "years"


def test_tables_are_written_as_parquet_where_asked(files, run):
    pytest.importorskip("pyarrow")
    assert run("import", "net.txt", "-o", "trace", "--parquet")[0] == 0
    assert {path.name for path in (files / "trace").iterdir()} == {"trace.toml", "layers.parquet"}


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("net.txt --format piedream", "did you mean 'pipedream'"),
        ("net.txt --format 'pipedream(sample=3)'", "write pipedream(samples=None)"),
        ("net.txt --format 'pipedream(samples=2.5)'", "samples: 2.5 found; int was expected"),
        ("net.txt --format 'pipedream(samples=3)' --samples 4", "samples is given twice"),
        ("net.txt --samples 0", "samples = 0 found"),
        ("net.txt --microbatch-size 0", "microbatch_size = 0 found"),
        ("net.txt net.txt", "format 'pipedream' takes one file; 2 found"),
        ("net.txt gpt2_A100_1.npy", "gpt2_A100_1.npy: has format npy, net.txt has pipedream"),
        ("cluster.json", "its format cannot be guessed"),
        ("nowhere.txt", "nowhere.txt: no such file"),
        ("times.csv", "its format cannot be guessed"),
        ("times.csv --format csv", "no column for forward_s"),
        ("net.txt --format builtins:len", "format 'builtins:len': is a builtin_function_or_method; a function written"),
        ("net.txt --format textwrap:wrap", "format 'textwrap:wrap': raised AttributeError: 'PosixPath' object has no"),
        ("net.txt --format pathlib:Path", "format 'pathlib:Path': returned a PosixPath; a Trace was expected"),
        ("net.txt --format no.such:importer", "format 'no.such:importer': cannot import 'no.such'"),
        ("run.0.et", "rank 1 has no file"),
        ("", "Missing argument 'FILE...'"),
    ],
)
def test_what_cannot_be_imported_is_said_in_one_paragraph_and_nothing_is_written(words, expected, files, run):
    before = sorted(files.iterdir())
    code, out, err = run("import", *shlex.split(words), "-o", "trace")
    assert code == 2
    assert expected in err
    assert "Traceback" not in err + out
    assert "\n\n" not in err.strip()
    assert sorted(files.iterdir()) == before


# --- show ------------------------------------------------------------------------------------------------------------


def test_show_draws_the_layers_of_a_trace(files, run):
    code, out, _ = run("show", "net.txt", "--output", "layers.png")
    assert code == 0
    assert (files / "layers.png").read_bytes().startswith(b"\x89PNG")
    assert "picture written to layers.png" in out
    assert run("show", "net.txt", "--output", "layers.toml")[0] == 2


@pytest.mark.usefixtures("files")
def test_show_tells_a_trace_in_json_from_a_cluster_in_json(run):
    assert re.search(r"source +metis", run("show", "DeviceType.A100_tp1_bs4.json")[1])
    assert re.search(r"cluster +one", run("show", "cluster.json")[1])
    code, _, err = run("show", "cluster.json", "--all")
    assert (code, "--all has no effect for a cluster" in err) == (2, True)


def test_show_tells_the_noise_of_times(files, run):
    sampled_trace([1.0, 2.0, 6.0], [4.0, 4.0]).save(files / "noisy")
    out = run("show", "noisy")[1]
    assert "forward noise" in out
    assert "50.0 %" in out  # median 2, and 1 the median distance from it
    assert "noise" not in run("show", "net.txt")[1]
    (noise,) = json.loads(run("show", "noisy", "--json")[1])["noise"]
    assert (noise["samples"], noise["forward_mad_s"], noise["backward_mad_s"]) == ([3, 2], [1.0, 0.0], [2.0, 0.0])


def test_show_shows_every_layer_where_asked(files, run):
    sampled_trace(*[[1.0]] * 40).save(files / "deep")
    assert "... and 16 more layers (--all)" in run("show", "deep")[1]
    assert "layer 39" in run("show", "deep", "--all")[1]


# --- diff ------------------------------------------------------------------------------------------------------------


def test_diff_says_which_layer_changed_and_how_sure_that_is(files, run):
    sampled_trace([1.0, 1.1, 1.05], [2.0, 2.1]).save(files / "a")
    sampled_trace([2.0, 2.1, 2.05], [2.1, 2.0]).save(files / "b")
    code, out, _ = run("diff", "a", "b")
    assert code == 0
    assert "1 of 2 layers changed for sure" in out
    data = json.loads(run("diff", "a", "b", "--json")[1])
    (group,) = data["groups"]
    forward = group["layers"][0]["times"][0]
    assert (forward["phase"], forward["verdict"]) == ("forward", "slower")
    assert forward["low_s"] < 1.0 < forward["high_s"]
    assert group["layers"][1]["times"][0]["verdict"] == "same"


@pytest.mark.usefixtures("files")
def test_diff_of_single_samples_claims_no_confidence(run):
    out = run("diff", "net.txt", "gpt2_A100_1.npy")[1]
    assert "one sample: no confidence" in out
    assert "0 of 2 layers changed for sure" in out


# --- run -------------------------------------------------------------------------------------------------------------


def test_run_replays_what_was_recorded(files, run):
    cluster = 'flat(2, bandwidth="1GB/s", latency="0us")'
    code, out, _ = run("run", "run.0.et", "run.1.et", cluster, "--verify", "--gantt", "run.png", "-o", "run.json")
    assert code == 0
    assert "31.00 us" in out  # 10, then 1,000 bytes in 1, then 20
    assert "verified" in out
    assert {"run.png", "run.json"} <= {path.name for path in files.iterdir()}
    data = json.loads(run("run", "run.0.et", "run.1.et", cluster, "--json")[1])
    assert data["iteration_time_s"] == 31e-6
    assert all(device["peak_in_flight"] is None for device in data["devices"].values())  # it has no microbatches


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("run.0.et run.1.et nocluster", "unknown cluster 'nocluster'"),
        ("run.0.et run.1.et cluster.json", "rank 1 has no device"),
        ("run.0.et cluster.json", "rank 1 has no file"),
        ("net.txt cluster.json", "net.txt: "),
        ("run.0.et cluster.json --format kineto", "unknown format 'kineto'"),
        ("run.0.et cluster.json --format 'chakra(sharing=\"fifo\")'", "sharing is given with --sharing"),
        ("run.0.et cluster.json --links", "--links has no effect without --gantt"),
    ],
)
@pytest.mark.usefixtures("files")
def test_what_cannot_be_run_is_said_in_one_paragraph(words, expected, run):
    code, out, err = run("run", *shlex.split(words))
    assert code == 2
    assert expected in err
    assert "Traceback" not in err + out
    assert "\n\n" not in err.strip()
