"""Several jobs on one cluster, from files to a result for each."""

import json

import numpy as np
import pytest

import pipesim as ps
from pipesim.base.errors import InputError
from pipesim.display import text
from pipesim.studies.jobs import load_job

CLUSTER = 'servers(2, 4, intra="25GB/s", inter="1Gb/s")'
NARROW = ps.Simulation("bert-large", microbatches=3)


def job(devices, start=0.0, name="", **fields):
    return ps.Job(ps.Simulation("bert-large", **{"microbatches": 3, **fields}), devices, start, name)


@pytest.fixture(scope="module")
def both():
    return ps.simulate_jobs([job(("*.gpu[01]",), name="a"), job((), 0.02, microbatches=6)], CLUSTER, iterations=4)


def test_a_job_is_planned_on_its_devices_and_slowed_down_by_the_others(both):
    one, other = both.jobs
    assert one.setup.plan.gpus == ("node0.gpu0", "node0.gpu1", "node1.gpu0", "node1.gpu1")
    assert set(other.setup.plan.gpus).isdisjoint(one.setup.plan.gpus)
    assert both.names == ("a", "job 2")
    for mine in both.jobs:
        apart = ps.simulate("bert-large", mine.setup.cluster, plan=mine.setup.plan)
        assert mine.alone_s == apart.iteration_time
        assert mine.slowdown > 1.05
        assert mine.iteration_time == pytest.approx(mine.iterations_s[list(mine.counted)].mean())
    both.timeline.verify()


def test_iterations_count_that_run_while_all_jobs_do_and_are_not_the_first_of_those(both):
    begin, stop = 0.02, min(mine.ends[-1] for mine in both.jobs) / 1e9
    for mine in both.jobs:
        ends = mine.ends / 1e9
        begins = np.concatenate([[mine.start], ends[:-1]])
        inside = np.flatnonzero((begins >= begin) & (ends <= stop)).tolist()
        assert list(mine.counted) == inside[1:]
        assert len(mine.counted) > 1
    assert len(both.jobs[1].ends) == 4, "the longer one iterates as often as was asked"


def test_each_job_has_the_interval_of_its_kind_of_runs(both):
    for mine, data in zip(both.jobs, both.as_data()["jobs"], strict=True):
        apart = ps.simulate("bert-large", mine.setup.cluster, plan=mine.setup.plan)
        stated = data["measured_interval"]
        assert (stated["low"], stated["high"]) == (apart.interval.low, apart.interval.high)
        assert stated["low_s"] == pytest.approx(apart.interval.low * mine.iteration_time)
    of_framework = ps.simulate_jobs([job((), framework="megatron")], CLUSTER, iterations=2).jobs[0]
    assert of_framework.interval.kind.framework == "megatron"


def test_the_bytes_of_all_jobs_are_those_of_the_timeline(both):
    assert both.moved.sum(axis=0) == pytest.approx(both.timeline.moved)
    data = both.as_data()
    json.dumps(data)
    assert {row["link"] for row in data["shared_links"]} == {
        "node0.nic0->core", "core->node0.nic0", "node1.nic0->core", "core->node1.nic0",
    }  # fmt: skip
    shown = text.jobs(data)
    assert "bytes over links that several jobs use" in shown
    assert "job 2" in shown


def test_jobs_without_a_link_in_common_are_not_slowed_down():
    apart = ps.simulate_jobs([job(("node0.*",)), job(("node1.*",), scheduler="gpipe")], CLUSTER, iterations=2)
    assert [mine.slowdown for mine in apart.jobs] == [1.0, 1.0]
    assert "no link is used by more than one job" in text.jobs(apart.as_data())


def test_jobs_may_share_devices_if_they_are_let():
    jobs = [job(("node0.*",)), job(("node0.*",))]
    with pytest.raises(InputError, match="is used by job 0 and job 1"):
        ps.simulate_jobs(jobs, CLUSTER)
    turns = ps.simulate_jobs(jobs, CLUSTER, iterations=3, share_devices=True)
    turns.timeline.verify()
    assert all(1.2 < mine.slowdown < 2.2 for mine in turns.jobs)


@pytest.mark.parametrize(
    ("jobs", "message"),
    [
        ([], "no jobs found"),
        ([job(()), job(())], "devices: missing for jobs 1, 2 of 2"),
        ([job(("*",)), job(())], "none are left for job 2"),
        ([job(("node7.*",))], r"'node7\.\*' of job 1 is no device of the cluster; names such as node0.gpu0"),
        ([job(("node0.*",)), job(("node1.*",), start=1e4)], "no iteration of job 1 runs while all jobs do"),
    ],
)
def test_jobs_that_do_not_fit_together_are_refused(jobs, message):
    with pytest.raises(InputError, match=message):
        ps.simulate_jobs(jobs, CLUSTER, iterations=2)


def test_a_start_is_a_time_from_0_on():
    with pytest.raises(InputError, match=r"start = -1\.0 found"):
        job((), start=-1.0)


FILES = {
    "cluster = 'dgx1_v100'": "cluster: is the same for all jobs",
    "trase = 'bert-large'": "the field 'trase' is unknown; did you mean 'trace'",
    "microbatches = 'many'": "microbatches: 'many' found",
    "devices = [1]": "devices: \\[1\\] found; names or patterns",
    "start = 'soon'": "start: ",
}


@pytest.mark.parametrize("line", FILES)
def test_a_file_that_is_no_job_says_where(line, tmp_path):
    (tmp_path / "other.toml").write_text(line)
    with pytest.raises(InputError, match=FILES[line]) as found:
        load_job(tmp_path / "other.toml")
    assert "other.toml" in str(found.value)


def test_a_job_is_a_file_of_fields_with_its_devices_and_its_start(tmp_path):
    (tmp_path / "b.toml").write_text('trace = "gpt2-xl"\nmicrobatches = 2\ndevices = "node1.*"\nstart = "5ms"\n')
    found = load_job(tmp_path / "b.toml")
    assert (found.simulation, found.devices) == (ps.Simulation("gpt2-xl", microbatches=2), ("node1.*",))
    assert (found.start, found.name) == (0.005, "b")


def test_the_command_line_simulates_beside_other_jobs_and_draws_them(run, tmp_path):
    (tmp_path / "b.toml").write_text('trace = "bert-large"\nmicrobatches = 2\n')
    words = ["simulate", "bert-large", CLUSTER, "-m", "2", "--devices", "*.gpu0", "--devices", "*.gpu1"]
    words += ["--with", tmp_path / "b.toml", "--job-iterations", "2"]
    code, out, _ = run(*words, "--json")
    assert code == 0
    assert [row["name"] for row in json.loads(out)["jobs"]] == ["first", "b"]
    gantt, links = tmp_path / "gantt.svg", tmp_path / "links.svg"
    code, out, _ = run(*words, "--verify", "--gantt", gantt, "--links-plot", links)
    assert (code, "verified" in out) == (0, True)
    assert all("first" in path.read_text() for path in (gantt, links))
    for more, message in ((["--iterations", "3"], "--iterations has no effect beside --with"),):
        code, _, err = run(*words, *more)
        assert (code, message in err) == (2, True)
    code, _, err = run("simulate", "bert-large", CLUSTER, "--devices", "*.gpu0")
    assert (code, "--devices has no effect without --with" in err) == (2, True)
