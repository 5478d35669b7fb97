"""What does not fit into this machine is refused in advance, by an estimate that is compared with measured peaks."""

import functools
import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given

from helpers.places import TESTS
from helpers.strategies import even_trace, jobs
from pipesim.analysis import bounds
from pipesim.analysis.bounds import guesses
from pipesim.base import lookup
from pipesim.base.checks import check_at_least
from pipesim.base.errors import InputError, PlanError, RefusedError
from pipesim.core import limits
from pipesim.core.costs import costs_of
from pipesim.core.members import PlannerInfo, ProblemSize, SchedulerInfo, info_of, infos
from pipesim.core.plan import Plan, Stage
from pipesim.core.program import ACTIVATION, GRADIENT
from pipesim.core.schedule import INPUT, WEIGHT
from pipesim.lowering import Setup, lower
from pipesim.planners import PLANNERS
from pipesim.schedulers import SCHEDULERS
from pipesim.studies import equal_stages, loading, ordering, pricing, replay, results, setups, sweep, whatif

DECLARED = infos(SCHEDULERS, "scheduler", SchedulerInfo)
PAIR = 'flat(2, bandwidth="1GB/s")'
MANY = "99999999999999999999"
TOO_LARGE = f"'{MANY}' is too large; less than 2^63 was expected"

# --- the estimate ----------------------------------------------------------------------------------------------------


@given(jobs(sharings=("fair",), split_backwards=False))
def test_tasks_are_counted_before_they_are_made(job):
    program = lower(Setup(job.plan, job.schedule, job.costs, job.cluster, job.options))
    actions = len(job.schedule.kind)
    transfers = int(np.isin(program.kind, [ACTIVATION, GRADIENT]).sum())
    rings = sum(count for count in job.plan.replication if count > 1)
    counted = limits.tasks_of(job.plan) - rings
    assert counted == actions + transfers or (job.plan.replicas == "whole" and counted > actions + transfers)


@pytest.mark.parametrize("name", [name for name, info in DECLARED.items() if name != "auto" and not info.requires])
def test_schedulers_declare_whether_they_do_backwards_in_two_parts(name):
    made, splits = equal_stages.setup(name, 4, 16, equal_stages.Times()), DECLARED[name].splits_backward
    assert bool(np.isin(made.schedule.kind, [INPUT, WEIGHT]).any()) == splits
    parts = 3 if splits else 2
    assert limits.tasks_of(made.plan, parts=parts) >= len(lower(made))


FORKS = """
import contextlib, gc, io, json, os, re, resource, signal, sys
from pathlib import Path
import numba
import numpy as np
from pipesim.studies import loading, ordering, pricing, replay, results, setups
from pipesim.cli import main
from pipesim.core.costs import costs_of
from helpers.strategies import even_trace

def status(name):
    return 1024 * int(re.search(name + r":\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1])

def work(size, what, *arguments):
    if what == "plan":
        name, devices = arguments
        costs = costs_of(even_trace(size))
        setups.plan_with(name, costs, loading.load_cluster(devices), 8)
    elif what == "show":
        main(["show", f'flat({size}, bandwidth="1GB/s")', *arguments])
    else:
        main([what, *arguments, "-m", str(size)])

def peak(size, *arguments):
    with contextlib.redirect_stdout(io.StringIO()):
        work(max(size // 4, 8), *arguments)
        gc.collect()
        before = status("VmRSS")
        Path("/proc/self/clear_refs").write_text("5")  # the peak begins again
        work(size, *arguments)
        return status("VmHWM") - before

def limited(folder, size, *arguments):
    os.chdir(folder)
    resource.setrlimit(resource.RLIMIT_AS, (status("VmSize") + size,) * 2)
    code, printed = 0, io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        try:
            main(list(arguments))
        except SystemExit as stop:
            code = stop.code or 0
    return code, printed.getvalue()

for line in sys.stdin:
    name, *arguments = json.loads(line)
    if child := os.fork():
        if os.waitpid(child, 0)[1]:
            print("null", flush=True)
    else:
        signal.alarm(60)
        print(json.dumps(globals()[name](*arguments)), flush=True)
        os._exit(0)
"""


@pytest.fixture(scope="module")
def forked():
    """The answer of a function of FORKS in a process of its own, None if that was killed or failed.

    Processes are forked from one that has imported everything: importing takes longer than most of what they do.
    """
    # Verifying a timeline takes memory of its own.
    plain = {**os.environ, "PIPESIM_VERIFY": "0", "PYTHONPATH": str(TESTS)}
    with subprocess.Popen(
        [sys.executable, "-c", FORKS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=plain
    ) as parent:

        def answer(*call):
            parent.stdin.write(json.dumps(call) + "\n")
            parent.stdin.flush()
            return json.loads(parent.stdout.readline())

        yield answer
        parent.stdin.close()


@pytest.fixture
def peak_of(forked):
    """Bytes beyond what is resident after a quarter of the same."""
    if not os.access("/proc/self/clear_refs", os.W_OK):
        pytest.skip("this system does not report peaks of memory")
    return functools.partial(forked, "peak")


@pytest.mark.parametrize(
    ("arguments", "microbatches"),
    [
        (["simulate", "bert-large", 'flat(8, bandwidth="1GB/s")', "--json", "--bound"], 1_500),
        (["simulate", "bert-large", 'flat(8, bandwidth="1GB/s")', "--json", "--bound", "-s", "zb_h1"], 1_500),
        (["simulate", "bert-large", 'flat(4, bandwidth="9GB/s")', "--json", "--bound", "-p", "data_parallel"], 7_500),
        (["schedule", "one_f_one_b", "--stages", "64", "--json"], 600),
    ],
    ids=["one_f_one_b", "zb_h1", "replicas", "schedule"],
)
def test_what_tasks_take_is_as_estimated(peak_of, arguments, microbatches):
    """At most twice as much, and at least a third."""
    stages = 64 if arguments[0] == "schedule" else 8
    parts = tuple(Stage(n, n + 1, (f"gpu{n}",)) for n in range(stages))
    plan = Plan("any", stages, microbatches, parts)
    if "data_parallel" in arguments:
        plan = Plan("any", 1, microbatches, (Stage(0, 1, ("a", "b", "c", "d")),))
    tasks = limits.tasks_of(plan, parts=3 if "zb_h1" in arguments else 2)
    estimate = tasks * limits.PER_TASK
    measured = peak_of(microbatches, *arguments)
    assert estimate / 3 < measured < 2 * estimate


def table_bytes(planner, size):
    return info_of(lookup.function_named(planner, PLANNERS, "planner"), PlannerInfo).tables(size)


@pytest.mark.parametrize(
    ("planner", "layers", "devices", "nodes"),
    [
        ("pipedream", 700, 8, 1),
        ("pipedream", 400, 16, 4),
        ("hetpipe", 1000, 8, 1),
        ("dapple", 1000, 4, 1),
        ("alpa", 600, 8, 2),
        ("piper", 600, 8, 2),
        ("spp", 80, 64, 8),
    ],
)
def test_what_planners_take_is_as_estimated(peak_of, planner, layers, devices, nodes):
    inside = devices // nodes
    cluster = f'servers({nodes}, {inside}, intra="9GB/s", inter="1GB/s")'
    measured = peak_of(layers, "plan", planner, cluster)
    estimate = table_bytes(planner, ProblemSize(layers, devices, nodes))
    assert estimate / 3 < measured < 2 * estimate


@pytest.mark.parametrize("how", [["--json"], ["--plot", "map.png"]], ids=["json", "picture"])
def test_what_the_matrix_of_a_cluster_takes_is_as_estimated(peak_of, how, tmp_path):
    per_pair = limits.PER_PAIR_OF_JSON if how == ["--json"] else limits.PER_PAIR_OF_PICTURE
    how = [str(tmp_path / part) if part.endswith(".png") else part for part in how]
    assert per_pair / 2 < peak_of(1000, "show", *how) / 1000**2 < 2 * per_pair


@pytest.mark.parametrize("planner", ["balanced", "gpipe", "data_parallel", "megatron", "uniform"])
def test_planners_without_tables_of_layers_take_many_layers(peak_of, planner):
    """data_parallel made a layers x layers table to sum all layers up: 6.4 GB for 20,000."""
    assert table_bytes(planner, ProblemSize(100_000, 8)) < 0.1e9
    assert peak_of(20000, "plan", planner, PAIR) < 0.1e9


# --- the limit -------------------------------------------------------------------------------------------------------


def machine(root, groups, files):
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(groups)
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.mark.parametrize(
    ("groups", "files", "expected"),
    [
        ("0::/job/7\n", {"sys/fs/cgroup/job/7/memory.max": "max\n", "sys/fs/cgroup/job/memory.max": "1000000\n"}, 1e6),
        ("0::/job\n", {"sys/fs/cgroup/memory.max": "2000000\n"}, 2e6),
        ("5:cpu:/x\n4:memory:/x\n0::/\n", {"sys/fs/cgroup/memory/x/memory.limit_in_bytes": "3000000\n"}, 3e6),
        ("4:memory:/of/the/host\n", {"sys/fs/cgroup/memory/memory.limit_in_bytes": "4000000\n"}, 4e6),
    ],
    ids=["the group above", "inside a container", "version 1", "version 1 inside a container"],
)
def test_the_limits_of_control_groups_count(tmp_path, groups, files, expected):
    root = machine(tmp_path, groups, files)
    assert limits.machine_memory(root) == expected
    assert limits.limit_of(root=root) == limits.Limit(expected / 2, "half of this machine's")


def test_without_control_groups_it_is_the_machine(tmp_path):
    whole = limits.machine_memory(tmp_path)
    assert whole > 1e8
    assert limits.machine_memory(machine(tmp_path, "0::/\n", {"sys/fs/cgroup/memory.max": "max\n"})) == whole


def test_a_limit_is_stated_as_other_sizes_are():
    assert limits.limit_of("8 GiB").size == 2**33
    assert limits.limit_of(5e9).size == 5e9
    assert limits.limit_of(limits.limit_of("8GB").shared(4)) == limits.Limit(2e9, "--host-memory, shared by 4 workers")
    for wrong in ("8 apples", "0", "-1GB", float("nan"), True):
        with pytest.raises(InputError, match="host memory"):
            limits.limit_of(wrong)


# --- refused at once -------------------------------------------------------------------------------------------------

# Within this much address space beyond what importing takes, where each took at least 4 GB or never ended.
REFUSED_WITHIN = 2_000_000_000


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not limit address space so")
@pytest.mark.parametrize(
    ("command", "message"),
    [
        (
            ["simulate", "bert-large", PAIR, "-m", "100000000"],
            "100,000,000 microbatches make 200,000,000 tasks or more",
        ),
        (["simulate", "bert-large", PAIR, "-m", MANY], TOO_LARGE),
        (["compare", "bert-large", PAIR, "-m", MANY], TOO_LARGE),
        (["plan", "bert-large", PAIR, "-m", MANY], TOO_LARGE),
        (["schedule", "gpipe", "-m", MANY], TOO_LARGE),
        (["schedule", "gpipe", "-p", "5", "-m", "100000000000000"], "make 1,800,000,000,000,000 tasks, about 1.4 EB"),
        (["schedule", "gpipe", "-p", "4096", "-m", "4096"], "4,096 microbatches on 4,096 stages make 67,100,672 tasks"),
        (["schedule", "zb_h1", "-p", "4096", "-m", "100000000"], "make 2,047,800,000,000 tasks, about 1.5 PB"),
        (["gallery", "-p", "4096", "-m", "4096", "-s", "gpipe"], "67,100,672 tasks"),
        (
            ["simulate", "bert-large", PAIR, "-s", "interleaved(chunks=1000000000)"],
            "needs 1000000000 stages on each of 2 devices; the model has 28 layers; a block counts",
        ),
        (["show", 'flat(16384, bandwidth="1GB/s")', "--json"], "between 16,384 devices are 268,435,456 numbers"),
        (["simulate", "bert-large", 'flat(16384, bandwidth="1GB/s")', "-p", "hetpipe"], "28 layers on 16,384 devices"),
        (["simulate", "bert-large", 'flat(512, bandwidth="1GB/s")', "-p", "spp"], "28 layers on 512 devices"),
    ],
    ids=lambda value: " ".join(value)[:60] if isinstance(value, list) else "",
)
def test_what_does_not_fit_is_refused_with_the_figure_and_the_option(command, message, tmp_path, forked):
    code, text = forked("limited", str(tmp_path), REFUSED_WITHIN, *command, "--host-memory", "2GB")
    assert message in text
    assert "Traceback" not in text
    assert code == (0 if command[0] == "gallery" else 2)  # a gallery shows what of it there is
    assert TOO_LARGE in text or "the model has" in text or "the limit is 2 GB (--host-memory): " in text


def test_by_default_it_is_half_of_the_machine(run):
    code, _, err = run("simulate", "bert-large", PAIR, "-m", str(10**15))
    assert code == 2
    assert re.search(
        r"the limit is [\d.,]+ \w\w \(half of this machine's\): use fewer microbatches or raise --host-mem", err
    )


def test_what_fits_is_not_refused(run):
    tasks = 8 * 2 * (2 + 1)
    size = tasks * limits.PER_TASK + 2 * 2 * limits.PER_PLACE
    for given_, code in ((size, 0), (size - 1, 2)):
        assert run("simulate", "bert-large", PAIR, "--host-memory", str(given_), "-p", "uniform")[0] == code


def test_a_comparison_shows_whether_each_planner_fits(run):
    cluster = 'flat(8, bandwidth="1GB/s")'
    command = ["compare", "bert-large", cluster, "-p", "uniform", "-p", "pipedream", "-s", "gpipe"]
    code, out, _ = run(*command, "--host-memory", "250kB", "--granularity", "layer")
    assert code == 0
    assert "uniform" in out
    assert "makes tables of 52 layers on 8 devices, about 0.28 MB of memory; the limit is 0.25 MB" in out


def test_chunks_of_very_many_layers_are_refused_before_they_are_cut():
    costs, cluster = costs_of(even_trace(3000)), loading.load_cluster(PAIR)
    plan = setups.plan_with("balanced", costs, cluster, 8)
    with pytest.raises(RefusedError, match=r"3,000 layers cut into 2,000 stages, about 49 MB .* use fewer chunks"):
        ordering.ordered_with("interleaved(chunks=1000)", plan, costs, cluster, host_memory="10MB")


def test_planners_that_simulate_are_held_to_it_too():
    costs, cluster = costs_of(even_trace(4)), loading.load_cluster(PAIR)
    plan = setups.plan_with("uniform", costs, cluster, 30_000)
    with pytest.raises(RefusedError, match="make 180,000 tasks, about 135 MB"):
        pricing.simulated_seconds(costs, cluster, plan, host_memory="100MB")


def test_what_if_and_replays_are_held_to_it():
    case = results.make_setup(even_trace(50), PAIR, microbatches=1000)
    with pytest.raises(RefusedError, match="54 devices and layers, each made faster in 6,000 tasks"):
        whatif.gains(case, host_memory="3MB")
    with pytest.raises(RefusedError, match="50 layers drawn for each of 1,000 microbatches make 50,000 times"):
        replay.check_replay(case, 3, 0, 0.1, "2MB")


def test_replays_are_drawn_one_by_one():
    """All generators were made beforehand: 10^12 iterations took all memory before the first."""
    case = results.make_setup(even_trace(4), PAIR)
    first = next(replay.replay(case, 10**12, seed=3, jitter=0.1))
    assert first == next(replay.replay(case, 1, seed=3, jitter=0.1))
    spawned = np.random.SeedSequence(3).spawn(5)[4]
    assert np.random.SeedSequence(3, spawn_key=(4,)).generate_state(8).tolist() == spawned.generate_state(8).tolist()


def test_a_point_of_a_sweep_that_does_not_fit_is_a_row_with_the_error(tmp_path):
    path = tmp_path / "grow.toml"
    path.write_text(
        'format = "pipesim.sweep"\nversion = 1\n[simulate]\ntrace = "bert-large"\nplanner = "uniform"\n'
        f"cluster = '{PAIR}'\n[grid]\nmicrobatches = [4, 1000000000]\n"
    )
    status = sweep.run(sweep.load(path), workers=1, host_memory="1GB")
    assert (status.done, status.failed) == (2, 1)
    assert "1,000,000,000 microbatches make 2,000,000,000 tasks or more" in str(list(sweep.rows(path)))


def test_counts_fit_64_bits():
    with pytest.raises(PlanError, match="microbatches = 9223372036854775808 found; at most"):
        Plan("any", 1, 2**63, (Stage(0, 1, ("a",)),))
    with pytest.raises(InputError, match="at most"):
        check_at_least("group", 2**64, 1)


def test_python_takes_it_as_a_keyword():
    with pytest.raises(RefusedError, match="the limit is 1 MB"):
        results.simulate("bert-large", PAIR, microbatches=100_000, host_memory=1e6)
    with pytest.raises(RefusedError, match="makes tables"):
        results.make_plan("bert-large", PAIR, "pipedream", host_memory=1e4)
    assert json.dumps(results.simulate("bert-large", PAIR, host_memory="1GB").iteration_time)


# --- bounds ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("module", "name"), [(bounds, "MOST_DEVICES"), (bounds, "MOST_FORMS"), (guesses, "MOST_CELLS")]
)
def test_a_bound_whose_tables_are_too_large_is_a_lesser_one(monkeypatch, module, name):
    """`simulate bert-large flat(256)` asked for 64.5 GiB to say what no plan can beat."""
    costs, cluster = costs_of(even_trace(6)), loading.load_cluster('flat(6, bandwidth="1GB/s")')
    exact = bounds.plan_bound.__wrapped__(costs, cluster, 8)
    monkeypatch.setattr(bounds, "MOST_MOVES", 0)
    monkeypatch.setattr(module, name, 1)
    lesser = bounds.plan_bound.__wrapped__(costs, cluster, 8)
    assert bounds.total_work(costs, cluster, 8) - 1e-6 <= lesser < exact


def test_132_devices_on_one_switch_have_a_bound():
    """The channels between all forms of their stages took 4.9 GB and many minutes."""
    costs, cluster = costs_of(even_trace(6)), loading.load_cluster('flat(132, bandwidth="1GB/s")')
    assert bounds._forms(bounds.island_model(bounds.Network(cluster), np.zeros(132, np.int64))) > bounds.MOST_FORMS
    assert bounds.plan_bound(costs, cluster, 8) >= bounds.total_work(costs, cluster, 8) - 1e-5
