"""A sweep runs every point of its grid once, however it is run, and says what is wrong with its file."""

import dataclasses
import json
import multiprocessing
import pickle
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

import pipesim as ps
from helpers import sweeps
from helpers.places import MACHINES, TESTS
from pipesim.analysis import metrics
from pipesim.architectures.gpt import gpt
from pipesim.architectures.roofline import roofline
from pipesim.base import forked, serialisation
from pipesim.base.errors import PipesimError
from pipesim.core.scenario import Scenario, Slow
from pipesim.lowering import Options
from pipesim.studies import loading, replay, results, sweep
from pipesim.studies.simulation import Simulation, with_defaults
from pipesim.studies.sources import of_kind
from pipesim.studies.sweep import grid as grids
from pipesim.studies.sweep import workers
from pipesim.studies.sweep.inputs import Inputs
from pipesim.studies.sweep.points import FIELDS, key
from pipesim.studies.sweep.worker import UNPLANNED, Worker, WorkerConfig

FLAT = """
[simulate]
trace = "bert-large"
cluster = 'flat({gpus}, bandwidth="1GB/s")'
planner = "uniform"
[grid]
gpus = [2, 4]
"""


def load(tmp_path, text, name="experiment"):
    return sweep.load(sweeps.write(tmp_path, sweeps.HEAD + text, name=name))


def values(text, **more):
    """The points of a grid alone."""
    grid = grids.read(serialisation.parse_data(text, ".toml"), ["microbatches"])
    return [grid.at(places) for _, places in grid.kept(more)]


# --- the grid --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("axis", "expected"),
    [
        ("[1, 'a', true, 2.5]", [1, "a", True, 2.5]),
        ("{ from = 4, to = 64, factor = 2 }", [4, 8, 16, 32, 64]),
        ("{ from = 1, to = 400, factor = 10 }", [1, 10, 100]),
        ("{ from = 64, to = 9, factor = 0.5 }", [64.0, 32.0, 16.0]),
        ("{ from = 0.1, to = 0.5, step = 0.1 }", [0.1, 0.2, 0.3, 0.4, 0.5]),
        ("{ from = 9, to = 1, step = -3 }", [9, 6, 3]),
        ("{ from = 0, to = 1, count = 5 }", [0.0, 0.25, 0.5, 0.75, 1.0]),
        ("{ from = 1, to = 1000, count = 4, scale = 'log' }", [1.0, 10.0, 100.0, 1000.0]),
    ],
)
def test_an_axis_is_a_list_or_a_range_in_decimal(axis, expected):
    found = [point["x"] for point in values(f"x = {axis}")]
    assert found == expected
    assert list(map(type, found)) == list(map(type, expected))


def test_axes_make_a_product_and_what_is_zipped_varies_together():
    text = "a = [1, 2]\n[[zip]]\nb = ['x', 'y']\nc = [10, 20]\n"
    assert values(text) == [{"a": a, "b": b, "c": c} for a in (1, 2) for b, c in (("x", 10), ("y", 20))]


def test_filters_see_axes_and_what_is_bound():
    text = "a = [1, 2, 3]\nb = [1, 2]\nwhere = ['a >= b', 'a * b <= microbatches']"
    assert [(p["a"], p["b"]) for p in values(text, microbatches=4)] == [(1, 1), (2, 1), (2, 2), (3, 1)]


def test_a_point_is_found_again_by_its_number():
    grid = grids.read(
        serialisation.parse_data("a = [1, 2, 3]\nb = [1, 2]\n[[zip]]\nc = [5, 6]\nd = [7, 8]", ".toml"), []
    )
    assert [grid.values(number) for number, _ in grid.kept({})] == [grid.at(places) for _, places in grid.kept({})]
    assert grid.size == 12


WRONG_GRIDS = {
    "x = []": "x: [] found; a list of values, or a range",
    "x = 3": "x: 3 found; a list of values, or a range",
    "x = [1, [2]]": "x: [1]: [2] found; a number, text",
    "x = [1, nan]": "x: [1]: nan found",
    "x = [1, 2, 1]": "x: [2]: duplicate 1",
    "x = [2024-01-01]": "x: [0]:",
    "x = { from = 1, to = 5 }": "one of step, factor and count",
    "x = { from = 1, to = 5, step = 1, count = 2 }": "one of step, factor and count",
    "x = { from = 1, to = 5, stop = 1 }": "x: stop: unknown key",
    "x = { from = 1, to = 5, step = 0 }": "never comes to 5",
    "x = { from = 1, to = 5, step = -1 }": "never comes to 5",
    "x = { from = 5, to = 1, factor = 2 }": "never comes to 1",
    "x = { from = 0, to = 8, factor = 2 }": "never comes to 8",
    "x = { from = 1, to = 5, count = 1 }": "a whole number of at least 2",
    "x = { from = -1, to = 5, count = 3, scale = 'log' }": "log scale needs ends above 0",
    "x = { from = 1, to = 5, step = 1, scale = 'log' }": "scale: goes with count",
    "x = { from = 1, to = 1000000000, step = 1 }": "at most 1,000,000",
    "x = { from = '1', to = 5, step = 1 }": "from: '1' found; a number was expected",
    "x = [1]\nwhere = 'y > 1'": "where: 'y > 1': nothing is called 'y'; known are x",
    "x = [1]\nwhere = ['x > 0', 'x >']": "where[1]: 'x >' cannot be read",
    "[[zip]]\na = [1, 2]\nb = [1]": "zip[0]: a has 2, b has 1; axes that vary together",
    "a = [1]\n[[zip]]\na = [1, 2]": "duplicate axis a",
    "[[zip]]\na = [1, 1, 1]\nb = [1, 2, 1]": "zip[0]: [2]: duplicate [1, 1]",
    "'a b' = [1]": "an axis needs a name of letters",
    "\n".join(f"x{i} = {{ from = 1, to = 100, step = 1 }}" for i in range(5)): "10,000,000,000 points found",
}


@pytest.mark.parametrize("text", WRONG_GRIDS)
def test_a_grid_that_is_wrong_is_refused_with_its_path(text):
    with pytest.raises(PipesimError) as error:
        values(text)
    assert WRONG_GRIDS[text] in str(error.value)


# --- the file --------------------------------------------------------------------------------------------------------

WRONG_FILES = {
    "unknown key": (FLAT + "[ouput]\nmetrics = []", "'ouput': unknown key; did you mean 'output'"),
    "unknown option": (FLAT.replace("planner =", "planer ="), "simulate.planer: unknown key; did you mean 'planner'"),
    "unknown output": (FLAT + "[output]\nmetric = []", "output.metric: unknown key"),
    "unknown metric": (
        FLAT + '[output]\nmetrics = ["iteration_time"]',
        "output.metrics: [0]: unknown metric 'ite",
    ),
    "metric twice": (FLAT + '[output]\nmetrics = ["tasks", "tasks"]', "[1]: duplicate 'tasks'"),
    "replays": (FLAT + '[output]\nmetrics = ["replay_mean_s"]', "neither [simulate] nor [grid] has iterations"),
    "unknown chart key": (FLAT + '[plot]\na = { kind = "line", x = "gpus", z = 1 }', "plot.a: z: unknown key"),
    "a style alone": (FLAT + '[plot.style]\nfont = "Times"', "a style without a chart"),
    "unknown style": (
        FLAT + '[plot]\nstyle = { fonts = "x" }\na = { kind = "line", x = "gpus", y = "iteration_time_s" }',
        "plot.a: style.fonts: unknown key",
    ),
    "unknown chart": (FLAT + '[plot]\na = { kind = "pie", x = "gpus" }', "plot.a: kind: 'pie' found; one of"),
    "no such column": (
        FLAT + '[plot]\na = { kind = "line", x = "gpu", y = "iteration_time_s" }',
        "plot.a: x: unknown column 'gpu'; did you mean 'gpus'",
    ),
    "a number for text": (FLAT.replace('"uniform"', "3"), "simulate: planner: 3 found; text was expected"),
    "text for a number": (FLAT + "microbatches = ['x']", "grid: microbatches[0]: microbatches: 'x' found; a whole"),
    "half a microbatch": (FLAT + "microbatches = [2.5]", "microbatches: 2.5 found; a whole number was expected"),
    "no such sharing": (FLAT + "sharing = ['fair', 'unfair']", "sharing[1]: sharing: 'unfair' found"),
    "no such device": (FLAT + "device = ['v100']", "did you mean 'v100-"),
    "twice": (FLAT + "planner = ['spp']", "grid: planner: found in [simulate] too"),
    "no axis": (FLAT.replace("{gpus}", "{gpu}") + "microbatches = [1]", "{gpu} is used in text, and is no axis"),
    "no name": (FLAT.replace("flat({gpus}", "flat({gpus} + {n}"), "{n} is used in text, and is no axis"),
    "no effect": (FLAT + "nothing = [1, 2]", "nothing: has no effect; use it in text, as {nothing}"),
    "a seed of nothing": (FLAT + "seed = [1, 2]", "seed: has no effect; it goes with iterations"),
    "an engine": (FLAT + "engine = ['event']", "engine: results do not depend on it"),
    "a column": (FLAT.replace("gpus", "number"), "number: is the name of a column of results"),
    "no trace": (FLAT.replace('trace = "bert-large"', ""), "trace, or architecture, is missing"),
    "two models": (FLAT + "architecture = ['gpt2-xl']", "trace and architecture found; one of them"),
    "jitter": (FLAT + "jitter = [0.1]", "jitter has no effect without iterations"),
    "efficiency": (
        FLAT.replace("bert-large", "gpt-small-cpu") + "efficiency = [0.1]",
        "efficiency has no effect without a model",
    ),
    "grid of nothing": (FLAT.replace("[2, 4]", "[]"), "grid: gpus: [] found"),
    "nothing at all": ("", "trace, or architecture, is missing"),
}


@pytest.mark.parametrize("what", WRONG_FILES)
def test_a_file_that_is_wrong_is_refused_with_the_path_of_the_key(what, tmp_path):
    text, message = WRONG_FILES[what]
    with pytest.raises(PipesimError) as error:
        load(tmp_path, text)
    assert str(error.value).startswith(str(tmp_path / "experiment.toml"))
    assert message in str(error.value)


WRONG_NAMES = {
    "planner": (FLAT.replace('"uniform"', '"unifrm"'), "did you mean 'uniform'"),
    "planner's option": (FLAT.replace('"uniform"', '"uniform(stage={gpus})"'), "unexpected keyword argument 'stage'"),
    "scheduler": (FLAT + "scheduler = ['one_f_on_b']", "did you mean 'one_f_one_b'"),
    "trace": (FLAT.replace("bert-large", "bert-lrge"), "did you mean 'bert-large'"),
    "topology": (FLAT.replace("flat(", "flot("), "did you mean 'flat'"),
    "scenario": (FLAT + "scenario = ['none.toml']", "none.toml: no such file"),
    "nothing is left": (FLAT + "where = 'gpus > 9'", "leave no point"),
}


@pytest.mark.parametrize("what", WRONG_NAMES)
def test_a_name_that_nobody_has_is_a_slip_of_the_pen_and_not_a_failed_row(what, tmp_path):
    text, message = WRONG_NAMES[what]
    with pytest.raises(PipesimError) as error:
        sweep.run(load(tmp_path, text), workers=1)
    assert message in str(error.value)
    assert not list(tmp_path.glob("*.sqlite*"))


def test_the_defaults_of_a_point_are_those_of_simulate():
    options, point = Options(), with_defaults(Simulation())
    for field in dataclasses.fields(options):
        if field.name in {
            "gradient_bytes",
            "step_bytes",
            "workspace",
        }:  # follow from gradient_precision, and the framework
            continue
        assert getattr(point, field.name) == getattr(options, field.name), "every option of the lowering can be swept"
    assert set(UNPLANNED) < set(FIELDS)


# --- keys ------------------------------------------------------------------------------------------------------------


def test_a_key_is_of_everything_that_determines_the_result_and_of_nothing_else():
    point = Simulation(trace="bert-large", cluster="flat(2, bandwidth=1e9)")
    same = [
        Simulation(trace="bert-large", cluster="flat(2, bandwidth=1e9)", planner="balanced", microbatches=8),
        Simulation(trace="bert-large", cluster="flat(2, bandwidth=1e9)", seed=3),
        Simulation(trace="bert-large", cluster="flat(2, bandwidth=1e9)", transfers="eager"),
    ]
    assert {key(other, {}) for other in same} == {key(point, {})}
    more = {"microbatches": 9, "sharing": "fifo", "device": "a100-40gb", "iterations": 2, "scenario": "x", "plan": "y"}
    keys = {key(dataclasses.replace(point, **{name: value}), {}) for name, value in more.items()}
    assert len(keys | {key(point, {})}) == 1 + len(more)
    assert key(point, {"trace bert-large": "other content"}) != key(point, {})


def test_a_file_that_changes_makes_its_points_anew_and_one_that_only_moves_does_not(tmp_path):
    loading.load_trace("bert-large").save(tmp_path / "mine")
    text = FLAT.replace('"bert-large"', '"mine"')
    first = load(tmp_path, text)
    keys = [k for _, k in first.keys(Inputs(first.path))]
    shutil.copytree(tmp_path / "mine", tmp_path / "moved")
    moved = load(tmp_path, text.replace("mine", "moved"), name="moved")
    assert [k for _, k in moved.keys(Inputs(moved.path))] == keys
    layers = tmp_path / "mine" / "layers.csv"
    lines = layers.read_text().split("\n")
    header = tmp_path / "mine" / "trace.toml"
    header.write_text(header.read_text().replace("roofline", "somewhere else"))
    assert [k for _, k in first.keys(Inputs(first.path))] == keys, "where a trace comes from does not matter"
    cells = lines[5].split(",")
    column = lines[0].split(",").index("forward_s")
    cells[column] = repr(float(cells[column]) * 2)
    layers.write_text("\n".join([*lines[:5], ",".join(cells), *lines[6:]]))
    assert [k for _, k in first.keys(Inputs(first.path))] != keys


def test_a_planner_of_ones_own_counts_by_its_source(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    module = tmp_path / "mine_for_keys.py"
    module.write_text("from helpers.sweeps import pipedream_like\n")
    made = load(tmp_path, FLAT.replace('"uniform"', '"mine_for_keys:pipedream_like"'))
    before = [k for _, k in made.keys(Inputs(made.path))]
    module.write_text("from helpers.sweeps import pipedream_like  # changed\n")
    assert [k for _, k in made.keys(Inputs(made.path))] != before


def test_a_metric_of_ones_own_counts_by_its_source(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    module = tmp_path / "my_metric.py"
    module.write_text("def share(case, timeline): return 1")
    made = load(tmp_path, FLAT + '[output]\nmetrics = ["tasks", "my_metric:share"]')
    before = [k for _, k in made.keys(Inputs(made.path))]
    assert before == [k for _, k in made.keys(Inputs(made.path))]
    module.write_text("def share(case, timeline): return 2")
    assert [k for _, k in made.keys(Inputs(made.path))] != before


# --- results ---------------------------------------------------------------------------------------------------------


def rows_of(made, **options):
    sweep.run(made, workers=1, **options)
    columns, found = sweep.rows(made.path)
    return [dict(zip(columns, row, strict=True)) for row in found]


def test_rows_are_what_simulate_gives(tmp_path):
    slow = tmp_path / "slow.toml"
    serialisation.save(Scenario((Slow("gpu1", 2.0),)), slow)
    text = """
[simulate]
trace = "bert-large"
cluster = 'flat({gpus}, bandwidth="{rate} Gb/s")'
scenario = "slow.toml"
microbatches = "{2 * gpus}"
[grid]
gpus = [2, 4]
rate = [1.5, 10]
planner = ["uniform", "spp"]
scheduler = ["gpipe", "one_f_one_b"]
sharing = ["fair", "none"]
transfers = ["eager", "blocking"]
[output]
metrics = ["iteration_time_s", "peak_memory_bytes", "bound_s"]
"""
    rows = rows_of(load(tmp_path, text))
    assert len(rows) == 64
    for row in rows[::5]:
        timeline = results.simulate(
            "bert-large", f'flat({row["gpus"]}, bandwidth="{row["rate"]} Gb/s")', row["planner"], row["scheduler"],
            2 * row["gpus"], scenario=slow, sharing=row["sharing"], transfers=row["transfers"],
        ).timeline  # fmt: skip
        assert row["error"] is None
        assert row["iteration_time_s"] == metrics.iteration_time(timeline)
        assert row["peak_memory_bytes"] == metrics.peak_memory(timeline).max()


def test_an_architecture_is_timed_on_the_devices_of_the_cluster(tmp_path):
    text = """
[simulate]
architecture = "gpt({layers}, {hidden}, 16, sequence=512)"
cluster = 'servers(1, 2, intra="100GB/s", inter="1GB/s")'
efficiency = 0.4
[grid]
device = ["v100-16gb", "h100-80gb"]
[[grid.zip]]
size = ["small", "large"]
layers = [2, 4]
hidden = [512, 1024]
[output]
metrics = ["iteration_time_s", "memory_headroom_bytes", "throughput_per_device"]
"""
    rows = rows_of(load(tmp_path, text))
    assert [(row["device"], row["size"]) for row in rows] == [
        (device, size) for device in ("v100-16gb", "h100-80gb") for size in ("small", "large")
    ]
    cluster = of_kind(loading.load_cluster('servers(1, 2, intra="100GB/s", inter="1GB/s")'), "h100-80gb")
    trace = roofline(gpt(4, 1024, 16, sequence=512), ["h100-80gb"], efficiency=0.4)
    timeline = results.simulate(trace, cluster).timeline
    assert rows[3]["iteration_time_s"] == metrics.iteration_time(timeline)
    assert rows[3]["throughput_per_device"] == metrics.throughput(timeline) / 2
    assert {device.memory for device in cluster.devices} == {80 * 2**30}


def test_files_are_read_beside_the_experiment(tmp_path):
    serialisation.save(loading.load_cluster("flat(2, bandwidth=1e9)"), tmp_path / "two.toml")
    plan = results.make_plan("bert-large", "flat(2, bandwidth=1e9)", "uniform", 3)
    serialisation.save(plan, tmp_path / "plan.json")
    text = (
        '[simulate]\ntrace = "bert-large"\ncluster = "two.toml"\nplan = "plan.json"\n[grid]\nsharing = ["none", "fair"]'
    )
    rows = rows_of(load(tmp_path, text))
    expected = results.simulate("bert-large", "flat(2, bandwidth=1e9)", plan, sharing="none").timeline
    assert rows[0]["iteration_time_s"] == metrics.iteration_time(expected)


def test_what_a_machine_says_of_itself_is_read_beside_the_experiment_and_counts_by_its_content(tmp_path):
    machines = MACHINES
    text = """
[simulate]
trace = "bert-large"
cluster = "nvidia_smi('machine.txt', {nodes}, inter='10 Gb/s')"
[grid]
nodes = [1, 2, -1]
"""
    seconds = []
    for name in ("dgx1.txt", "dgx_a100.txt", "dgx_a100.txt"):
        shutil.copy(machines / name, tmp_path / "machine.txt")
        rows = rows_of(load(tmp_path, text))
        here = f"nvidia_smi({str(machines / name)!r}, 2, inter='10 Gb/s')"
        expected = results.simulate("bert-large", here, "balanced").timeline
        assert rows[1]["iteration_time_s"] == metrics.iteration_time(expected)
        assert "nodes = -1 found" in rows[2]["error"]
        seconds.append(rows[1]["iteration_time_s"])
    assert seconds[0] != seconds[1] == seconds[2]
    (tmp_path / "machine.txt").unlink()
    with pytest.raises(PipesimError, match=r"experiment\.toml: .*machine\.txt: no such file"):
        rows_of(load(tmp_path, text))


@pytest.mark.parametrize(
    ("field", "text"),
    [
        ("architecture", "config.json"),
        ("architecture", "huggingface('config.json', sequence=32)"),
        ("trace", "config.json"),
    ],
)
def test_a_model_file_is_read_beside_the_experiment_and_counts_by_its_content(tmp_path, field, text):
    config = json.loads((TESTS / "frameworks" / "small_qwen3_moe.json").read_text(encoding="utf-8"))
    experiment = f"""
[simulate]
{field} = "{text}"
cluster = "flat(2, '10 GB/s', device='a100-80gb')"
[grid]
microbatches = [2, 4]
"""
    keys, seconds = [], []
    for layers in (3, 5, 3):
        (tmp_path / "config.json").write_text(json.dumps(config | {"num_hidden_layers": layers}), encoding="utf-8")
        made = load(tmp_path, experiment)
        keys.append([key for _, key in made.keys(Inputs(made.path))])
        here = text.replace("config.json", str(tmp_path / "config.json"))
        cluster = "flat(2, '10 GB/s', device='a100-80gb')"
        expected = results.simulate(**{field: here}, cluster=cluster, microbatches=4).iteration_time
        seconds.append(rows_of(made)[1]["iteration_time_s"])
        assert seconds[-1] == expected
    assert seconds[0] == seconds[2] < seconds[1]
    assert keys[0] == keys[2]
    assert not {*keys[0]} & {*keys[1]}
    (tmp_path / "config.json").unlink()
    with pytest.raises(PipesimError, match=r"config\.json"):
        rows_of(load(tmp_path, experiment))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (FLAT.replace("uniform", "unifrm"), "experiment.toml: unknown planner 'unifrm'; did you mean 'uniform'"),
        (FLAT.replace("{gpus}", "{gpu}"), "experiment.toml: grid: {gpu} is used in text, and is no axis; did you mean"),
        (FLAT + "[plot]\nx = 'gpus'", "experiment.toml: plot.kind: missing"),
    ],
)
def test_names_that_nothing_has_are_refused_with_the_file_that_says_them(tmp_path, text, message):
    with pytest.raises(PipesimError) as error:
        sweep.read(load(tmp_path, text))
    assert message in str(error.value)


def test_options_of_the_lowering_and_schedulers_that_lay_out_stages_are_swept(tmp_path):
    text = (
        FLAT
        + 'recompute = ["none", "full"]\nscheduler = ["one_f_one_b", "interleaved"]\nscaling = ["recorded", "linear"]\n'
    )
    rows = rows_of(load(tmp_path, text))
    assert len(rows) == 16
    for row in rows[8:]:
        timeline = results.simulate(
            "bert-large", 'flat(4, bandwidth="1GB/s")', "uniform", row["scheduler"], recompute=row["recompute"],
            scaling=row["scaling"],
        ).timeline  # fmt: skip
        assert row["iteration_time_s"] == metrics.iteration_time(timeline)
        assert row["peak_memory_bytes"] == metrics.peak_memory(timeline).max()


def test_replays_are_drawn_by_seed(tmp_path):
    text = FLAT + "seed = [1, 2]\n" + "iterations = [3]\njitter = [0.1]\n"
    rows = rows_of(load(tmp_path, text))
    case = results.make_setup("bert-large", 'flat(4, bandwidth="1GB/s")', "uniform")
    expected = replay.replay_statistics(replay.replay(case, 3, 2, 0.1), 2)
    assert rows[3]["replay_mean_s"] == expected["mean_s"]
    assert rows[2]["replay_mean_s"] != rows[3]["replay_mean_s"]


def test_a_seed_may_stand_in_text_alone(tmp_path):
    text = """
[simulate]
trace = "bert-large"
cluster = 'random(4, seed={seed}, bandwidths=["1GB/s", "9GB/s"])'
[grid]
seed = [1, 2]
"""
    rows = rows_of(load(tmp_path, text))
    assert rows[0]["iteration_time_s"] != rows[1]["iteration_time_s"]


def test_several_grids_follow_each_other(tmp_path):
    text = FLAT.partition("[grid]")[0] + "[[grid]]\ngpus = [2]\nmicrobatches = [2, 3]\n[[grid]]\ngpus = [4]\n"
    rows = rows_of(load(tmp_path, text))
    assert [(row["gpus"], row["microbatches"]) for row in rows] == [(2, 2), (2, 3), (4, None)]


def test_what_fails_is_a_row_that_says_why_and_stops_nothing(tmp_path):
    text = FLAT.replace('"uniform"', '"uniform(stages={stages})"') + "stages = [2, 3]\nmicrobatches = [2, 3]\n"
    rows = rows_of(load(tmp_path, text + '[output]\nmetrics = ["iteration_time_s", "helpers.sweeps:failing"]'))
    told = {(row["gpus"], row["stages"], row["microbatches"]): row["error"] for row in rows}
    assert told[2, 3, 2] == (
        "planner 'uniform(stages=3)': stages = 3 found; 1 to 2 was expected (2 devices, 28 layers); a block counts as "
        "one layer, unless granularity is layer"
    )
    assert told[4, 3, 3] == "ZeroDivisionError: three is too many"
    assert told[4, 3, 2] is None
    assert [row["iteration_time_s"] is None for row in rows] == [row["error"] is not None for row in rows]


def test_a_planner_and_a_metric_of_ones_own_are_used(tmp_path):
    text = (
        FLAT.replace('"uniform"', '"helpers.sweeps:pipedream_like"') + '[output]\nmetrics = ["helpers.sweeps:counted"]'
    )
    assert [row["counted"] for row in rows_of(load(tmp_path, text))] == [2, 2]


def test_every_metric_can_be_taken(tmp_path):
    names = json.dumps(list(sweep.METRICS))
    (row,) = rows_of(
        load(tmp_path, FLAT.replace("[2, 4]", "[2]") + f"iterations = [2]\njitter = [0.1]\n[output]\nmetrics = {names}")
    )
    timeline = results.simulate("bert-large", 'flat(2, bandwidth="1GB/s")', "uniform").timeline
    summary = metrics.summary(timeline)
    assert row["error"] is None
    assert row["critical_forward_s"] == summary["last_microbatch_path_s"]["forward"]
    assert row["bubble_idle_share"] == summary["bubble"]["idle_share"]
    assert row["gap_to_bound"] == row["iteration_time_s"] / row["bound_s"] - 1
    assert row["plan_replicas"] == "1x2"


def test_rows_have_the_interval_that_simulate_states_unless_other_metrics_are_named(tmp_path):
    (row,) = rows_of(load(tmp_path, FLAT.replace("[2, 4]", "[2]")))
    stated = results.simulate("bert-large", 'flat(2, bandwidth="1GB/s")', "uniform").as_data()["measured_interval"]
    assert (row["measured_low_s"], row["measured_high_s"]) == (stated["low_s"], stated["high_s"])
    assert row["measured_low_s"] < row["iteration_time_s"] < row["measured_high_s"]


# --- whoever runs it -------------------------------------------------------------------------------------------------


@pytest.fixture(params=[True, False], ids=["forked", "from a server"])
def started(request, monkeypatch):
    """Workers of both origins: a process without threads forks them itself."""
    if request.param and not forked.is_possible():
        pytest.skip("a system without fork, or one core")
    monkeypatch.setattr(forked, "is_alone", lambda: request.param)


@pytest.mark.usefixtures("started")
def test_the_same_bytes_whoever_runs_it_and_in_whatever_order(tmp_path):
    texts = []
    for name, options in {
        "one": {"workers": 1},
        "two": {"workers": 2},
        "engine": {"workers": 1, "engine": "helpers.sweeps:another_engine"},
        "compiled": {"workers": 1, "engine": "compiled"},
        "event": {"workers": 1, "engine": "event"},
        "parts": {"workers": 1, "only": "microbatches % 2 == 1"},
    }.items():
        (tmp_path / name).mkdir()
        made = sweep.load(sweeps.write(tmp_path / name, sweeps.SMALL, 12))
        status = sweep.run(made, **options)
        if name == "parts":
            assert (status.done, status.left) == (12, 12)
            status = sweep.run(made, workers=2)
        assert (status.done, status.left, status.failed) == (24, 0, 0)
        texts.append(sweeps.text_of(made.path))
    assert len(set(texts)) == 1


def test_points_that_come_to_the_same_are_computed_once(tmp_path, monkeypatch):
    monkeypatch.setenv(sweeps.COUNT_FILE, str(tmp_path / "log"))
    text = FLAT.replace("[2, 4]", "[2]") + "microbatches = ['{4 * gpus}', '{gpus + 6}']\n"
    rows = rows_of(load(tmp_path, text + '[output]\nmetrics = ["helpers.sweeps:counted"]'))
    assert [row["counted"] for row in rows] == [2, 2]
    assert (tmp_path / "log").read_text().count("\n") == 1


def test_what_is_there_is_not_computed_again(tmp_path, monkeypatch):
    monkeypatch.setenv(sweeps.COUNT_FILE, str(tmp_path / "log"))
    made = sweep.load(sweeps.write(tmp_path, sweeps.SMALL, 3))
    rows_of(made)
    larger = sweep.load(sweeps.write(tmp_path, sweeps.SMALL, 5))
    assert len(rows_of(larger)) == 10
    assert (tmp_path / "log").read_text().count("\n") == 10


@pytest.mark.usefixtures("started")
def test_a_worker_that_dies_costs_one_row(tmp_path):
    text = sweeps.SMALL.replace("helpers.sweeps:counted", "helpers.sweeps:deadly")
    made = sweep.load(sweeps.write(tmp_path, text, 6))
    status = sweep.run(made, workers=2)
    assert (status.done, status.failed) == (12, 2)
    columns, found = sweep.rows(made.path, "error is not null")
    assert [(row[0], row[1]) for row in found] == [(2, 3), (3, 3)]
    assert "the worker died" in found[0][columns.index("error")]


def test_points_that_take_longer_than_was_thought_are_handed_back(tmp_path, monkeypatch):
    monkeypatch.setattr(workers, "LONGEST", 0.0)
    path = sweeps.write(tmp_path, sweeps.SMALL, 10)
    workshop = Worker(WorkerConfig(sweep.read(sweep.load(path))[0].values, ("tasks",), "event"))
    chunk = [(bytes([n]), sweep.load(path).point(n)) for n in range(3)]
    assert [outcome.key for outcome in workshop.work(chunk, 0.0)] == [bytes([0])]
    assert sweep.run(sweep.load(path), workers=1).left == 0


def test_failures_are_tried_again_if_asked_for(tmp_path, monkeypatch):
    text = FLAT + '[output]\nmetrics = ["helpers.sweeps:failing"]\n'
    made = load(tmp_path, text.replace("gpus = [2, 4]", "gpus = [2, 4]\nmicrobatches = [2, 3]"))
    assert sweep.run(made, workers=1).failed == 2
    monkeypatch.setattr(sweeps, "failing", lambda *_: 5)
    assert sweep.run(made, workers=1).failed == 2
    told = []
    assert sweep.run(made, workers=1, retry=True, watch=told.append).failed == 0
    assert [(progress.done, progress.failed) for progress in told][-1] == (4, 0)


def test_what_one_engine_refuses_another_is_asked(tmp_path):
    made = load(tmp_path, FLAT)
    assert sweep.run(made, workers=1, engine="helpers.sweeps:refusing_engine").failed == 2
    assert sweep.run(made, workers=1, engine="helpers.sweeps:refusing_engine").failed == 2
    assert sweep.run(made, workers=1).failed == 0


def test_the_shop_window_offers_sweeps(tmp_path):
    made = ps.load_sweep(sweeps.write(tmp_path, sweeps.HEAD + FLAT))
    assert ps.run_sweep(made, workers=1).done == 2
    assert [row[0] for row in ps.sweep_rows(made.path)[1]] == [2, 4]
    assert ps.run_sweep(made.path, workers=1).done == 2


def test_progress_is_told_with_rate_and_time_left(tmp_path):
    told = []
    sweep.run(sweep.load(sweeps.write(tmp_path, sweeps.SMALL, 10)), workers=1, watch=told.append)
    assert [progress.done for progress in told] == sorted(progress.done for progress in told)
    assert (told[-1].done, told[-1].total, told[-1].left_s) == (20, 20, 0)
    assert told[-1].per_second > 0


def test_inputs_are_sent_and_not_read_again(tmp_path):
    """What a worker is told holds the content of files: a file that is gone by then does not matter."""
    loading.load_trace("bert-large").save(tmp_path / "mine")
    made = load(tmp_path, FLAT.replace('"bert-large"', '"mine"'))
    inputs, _ = sweep.read(made)
    shutil.rmtree(tmp_path / "mine")
    workshop = pickle.loads(pickle.dumps(Worker(WorkerConfig(inputs.values, ("tasks",), "event"))))  # noqa: S301 - just made
    assert workshop.outcome(b"", made.point(0)).error is None


SCRIPT = """
import pipesim as ps
print("started")
print(ps.run_sweep({path!r}, workers=2))
"""


def test_a_script_need_not_ask_whether_it_is_main(tmp_path):
    """Python has processes of a pool run the caller's script again, which starts a sweep again: every point failed."""
    path, script = sweeps.write(tmp_path, sweeps.HEAD + FLAT), tmp_path / "script.py"
    script.write_text(SCRIPT.format(path=str(path)))
    found = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True, timeout=120)
    assert found.stdout.splitlines() == ["started", f"Sweep {path.stem}: 2 of 2 points done"]
    assert not found.stderr


def test_no_process_outlives_a_sweep_whose_parent_was_killed(tmp_path):
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["helpers.sweeps"])
    path, log = sweeps.write(tmp_path, sweeps.SMALL, 400), tmp_path / "log"
    child = context.Process(target=sweeps.run, args=(str(path), 2, str(log)))
    child.start()
    sweeps.wait_for_more(log, 0, child)
    workers = descendants(child.pid)
    assert len(workers) >= 2
    child.kill()
    child.join()
    until = time.monotonic() + 10
    while any(alive(pid) for pid in workers) and time.monotonic() < until:
        time.sleep(0.05)
    assert not [pid for pid in workers if alive(pid)]


def descendants(pid):
    found = [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return found + [inner for one in found for inner in descendants(one)]


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().split(")")[1].split()[0] != "Z"
    except OSError:
        return False


def test_lengths_of_a_file_beside_the_experiment_can_be_swept(tmp_path):
    """The file is read where the experiment is; other lengths in it are another point."""
    text = """[simulate]
trace = "gpt2"
cluster = 'flat(2, bandwidth="25GB/s", device="a100-80gb")'
planner = "uniform"
microbatches = 2
sequence = 64
lengths = "lengths.csv"
[output]
metrics = ["iteration_time_s"]
"""
    found = []
    for length in (64, 16):
        (tmp_path / "lengths.csv").write_text(f"{length}\n")
        (row,) = rows_of(load(tmp_path, text))
        found.append(row["iteration_time_s"])
    assert found[1] < found[0]


def test_background_optimizer_and_the_split_of_backwards_can_be_swept(tmp_path):
    """A sweep had none of them; a file that changes is another input."""
    file = tmp_path / "load.csv"
    file.write_text("link,time,share\ngpu0<->switch,0,0.5\n")
    kind = 'device="cpu", memory="16GiB"'
    text = f"""[simulate]
trace = "gpt-small-cpu"
cluster = 'flat(2, bandwidth="1GB/s", {kind})'
scheduler = "zb_h1"
microbatches = 4
[[grid]]
background = ["load.csv"]
[[grid]]
optimizer = ["adamw", "sgd"]
[[grid]]
weight_share = [0.25]
[output]
metrics = ["iteration_time_s"]
"""
    found = [row["iteration_time_s"] for row in rows_of(load(tmp_path, text))]
    cluster = f'flat(2, bandwidth="1GB/s", {kind})'
    for seconds, field in zip(
        found, [{"background": file}, {"optimizer": "adamw"}, {"optimizer": "sgd"}, {"weight_share": 0.25}], strict=True
    ):
        expected = results.simulate("gpt-small-cpu", cluster, scheduler="zb_h1", microbatches=4, **field)
        assert seconds == expected.iteration_time
    before = dict(sweep.read(sweep.load(tmp_path / "experiment.toml"))[1])
    file.write_text("link,time,share\ngpu0<->switch,0,0.25\n")
    after = dict(sweep.read(sweep.load(tmp_path / "experiment.toml"))[1])
    assert [before[n] != after[n] for n in sorted(before)] == [True, False, False, False]


def test_a_point_of_teams_and_chunks_is_the_simulation_of_the_same_fields(tmp_path):
    """Once, a point with `interleave` and the default schedule was refused, which a simulation interleaves."""
    text = """
[simulate]
trace = "bert-large"
cluster = 'servers(1, 4, "50GB/s", "10GB/s", device="v100-16gb")'
tensor = 2
pipeline = 2
interleave = 2
scale_widths = true
microbatches = 4
[grid]
frozen = ["embedding", "block?.*"]
scheduler = ["one_f_one_b", "zb_v"]
"""
    given = {"tensor": 2, "pipeline": 2, "interleave": 2, "scale_widths": True, "microbatches": 4}
    cluster = 'servers(1, 4, "50GB/s", "10GB/s", device="v100-16gb")'
    for row in rows_of(load(tmp_path, text)):
        fields = {name: row[name] for name in ("frozen", "scheduler")}
        assert row["error"] is None
        assert row["iteration_time_s"] == ps.simulate("bert-large", cluster, **given, **fields).iteration_time


def test_the_style_of_plot_is_that_of_all_charts_and_a_chart_may_have_its_own(tmp_path):
    axes = 'kind = "line", x = "gpus", y = "iteration_time_s"'
    text = FLAT + f'[plot]\nstyle = {{ size = 9, names = {{ spp = "SPP" }} }}\na = {{ {axes} }}\n'
    text += f"b = {{ {axes}, style = {{ width = 'single' }} }}\n"
    charts = load(tmp_path, text).charts
    assert (charts["a"].style.size, charts["a"].style.name("spp")) == (9, "SPP")
    assert (charts["b"].style.width, charts["b"].style.size) == (3.4, 9), "its own over that of all"


def test_rows_of_an_experiment_are_plotted_without_naming_its_file_again(tmp_path):
    made = load(tmp_path, FLAT + '[plot]\ntime = { kind = "line", x = "gpus", y = "iteration_time_s" }\n')
    assert repr(ps.run_sweep(made, workers=1)) == f"Sweep {made.name}: 2 of 2 points done"
    rows = ps.sweep_rows(made)
    assert rows == ps.sweep_rows(made.path)
    seconds = rows.by_column()["iteration_time_s"]
    for figure in (rows.plot(made.charts["time"]), rows.plot(kind="line", x="gpus", y="iteration_time_s")):
        drawn = figure.axes[0].lines[0].get_ydata()
        assert [value / drawn[0] for value in drawn] == pytest.approx([value / seconds[0] for value in seconds])
    with pytest.raises(PipesimError, match=r"plot: x: unknown column 'gpu'; did you mean 'gpus'"):
        rows.plot(made.charts["time"], x="gpu")
