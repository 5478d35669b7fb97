"""Several jobs on one cluster: each planned alone on devices of its own, all simulated together, over many iterations.

    job         devices          planned           simulated
    first       node0.*          on these          alone, and beside the others on the links of the whole cluster
    other       node1.*          on these          so often that every job runs until the longest one has iterated

A job's time is the mean of its iterations between the start of the last job and the end of the first that ends, without
the first of them.
"""

import fnmatch
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from pipesim.base import serialisation, units
from pipesim.base.arrays import Floats, Ints
from pipesim.base.checks import check_at_least
from pipesim.base.errors import InputError, shown, within
from pipesim.base.settings import check_names
from pipesim.core.cluster import Cluster
from pipesim.core.timeline import Timeline
from pipesim.engines import by_name
from pipesim.lowering import Setup, lower
from pipesim.lowering.merging import Merged, Part, merge
from pipesim.studies import setups
from pipesim.studies.accuracy import MeasuredInterval, interval
from pipesim.studies.job_options import ITERATIONS, JobOptions
from pipesim.studies.loading import load_cluster
from pipesim.studies.simulation import FIELDS, Simulation, checked

# Fields that a job takes from the others: one cluster, one engine, and iterations as they come.
_OF_ALL = ("cluster", "engine", "iterations", "seed", "jitter", "draw", "host_memory")


@dataclass(frozen=True)
class Job:
    """A simulation, without its cluster, on devices of a cluster that other jobs use too.

    `devices` are names or patterns (`node0.*`); without any, those that no other job names. `start` is in seconds.

    >>> ps.Job(ps.Simulation("bert-large", microbatches=4), devices=("node0.*",)).start
    0.0
    """

    simulation: Simulation
    devices: tuple[str, ...] = ()
    start: float = 0.0
    name: str = ""

    def __post_init__(self) -> None:
        if not 0 <= self.start < np.inf:
            raise InputError(f"start = {self.start} found; 0 s or more was expected")


@dataclass(frozen=True, eq=False)
class JobResult:
    """One of several jobs: alone, and beside the others."""

    name: str
    setup: Setup
    alone: Timeline
    start: float
    ends: Ints  # ns of the end of every iteration
    counted: tuple[int, ...]  # the iterations that count
    framework: str | None = None

    @cached_property
    def interval(self) -> MeasuredInterval:
        """Between which factors of the simulated time measured runs of this kind are."""
        return interval(self.setup.costs, self.setup.cluster, self.framework, len(self.setup.plan.gpus))

    @property
    def alone_s(self) -> float:
        """Seconds of an iteration without other jobs."""
        return units.to_s(self.alone.makespan)

    @cached_property
    def iterations_s(self) -> Floats:
        """Seconds of every iteration beside the other jobs."""
        ns = np.diff(np.concatenate([[units.ns_of(self.start)], self.ends]))
        seconds: Floats = ns / units.NS_PER_S
        return seconds

    @property
    def iteration_time(self) -> float:
        """Mean seconds of the iterations that count."""
        return float(self.iterations_s[list(self.counted)].mean())

    @property
    def slowdown(self) -> float:
        """How many times as long an iteration takes beside the other jobs as alone."""
        return self.iteration_time / self.alone_s

    def as_data(self) -> dict[str, Any]:
        """The job as plain numbers."""
        return {
            "name": self.name,
            "model": self.setup.costs.model.name,
            "devices": list(self.setup.plan.gpus),
            "planner": self.setup.plan.planner,
            "start_s": self.start,
            "alone_s": self.alone_s,
            "iteration_time_s": self.iteration_time,
            "measured_interval": self.interval.as_data(self.iteration_time),
            "slowdown": self.slowdown,
            "iterations_s": self.iterations_s.tolist(),
            "counted": list(self.counted),
        }


@dataclass(frozen=True, eq=False)
class JobsResult:
    """Several jobs on one cluster: a result for each, and the timeline of all."""

    cluster: Cluster
    jobs: tuple[JobResult, ...]
    timeline: Timeline
    merged: Merged = field(repr=False)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the jobs."""
        return tuple(job.name for job in self.jobs)

    @cached_property
    def moved(self) -> Floats:
        """[job, medium]: bytes that crossed it."""
        program = self.timeline.program
        task, count = program.route.row_of_value(), len(program.media)
        code = self.merged.job[task] * count + program.route.values
        bytes_: Floats = np.bincount(code, program.size[task], minlength=len(self.jobs) * count).astype(np.float64)
        return bytes_.reshape(len(self.jobs), count)

    def as_data(self) -> dict[str, Any]:
        """The result as `pipesim simulate --with ... --json` prints it; of links those that several jobs use."""
        media, moved = self.timeline.program.media, self.moved
        shared = np.flatnonzero((moved > 0).sum(axis=0) > 1).tolist()
        return {
            "cluster": self.cluster.name,
            "jobs": [job.as_data() for job in self.jobs],
            "shared_links": [{"link": media[m], "bytes": moved[:, m].tolist()} for m in shared],
            "end_s": units.to_s(self.timeline.makespan),
        }


def load_job(path: Path | str) -> Job:
    """A job from a TOML or JSON file: fields of a simulation but for `cluster`, and `devices`, `start` and `name`."""
    path = Path(path)
    data = serialisation.read_data(path)
    with within(str(path)):
        refused = next((name for name in _OF_ALL if name in data), None)
        if refused is not None:
            raise InputError(f"{refused}: is the same for all jobs; leave it out here")
        own = {name: data.pop(name) for name in ("devices", "start", "name") if name in data}
        check_names(data, [name for name in FIELDS if name not in _OF_ALL] + ["devices", "start", "name"], "the field")
        simulation = Simulation(**{name: checked(name, value, name) for name, value in data.items()})
        devices = own.get("devices", ())
        devices = (devices,) if isinstance(devices, str) else devices
        if not isinstance(devices, list | tuple) or not all(isinstance(name, str) for name in devices):
            raise InputError(f"devices: {shown(devices)} found; names or patterns were expected")
        with within("start"):
            start = units.duration(own.get("start", 0.0))
        return Job(simulation, tuple(devices), start, str(own.get("name", path.stem)))


def simulate_jobs(
    jobs: Sequence[Job | Simulation],
    cluster: Cluster | Path | str,
    *,
    iterations: int = ITERATIONS,
    share_devices: bool = False,
    engine: str = "auto",
) -> JobsResult:
    """Several jobs on one cluster: each alone, and all together over many iterations.

    The job whose iterations take longest does `iterations`; the others as many as last as long. With `share_devices`,
    jobs take turns on devices that several of them use: what is ready first runs first.

    >>> jobs = [ps.Job(ps.Simulation("bert-large"), ("*.gpu0",)), ps.Job(ps.Simulation("gpt2-xl"), ("*.gpu1",))]
    >>> both = ps.simulate_jobs(jobs, 'servers(2, 2, intra="25GB/s", inter="2Gb/s")')
    >>> [f"{job.slowdown:.2f}" for job in both.jobs]
    ['1.05', '1.05']
    """
    check_at_least("iterations", iterations)
    whole = load_cluster(cluster)
    every = [job if isinstance(job, Job) else Job(job) for job in jobs]
    if not every:
        raise InputError("no jobs found; at least one was expected")
    chosen = _devices_of(every, whole, share_devices=share_devices)
    made = [_setup(job, whole, names) for job, names in zip(every, chosen, strict=True)]
    programs = [lower(setup) for setup in made]
    alone = [by_name.run(program, engine) for program in programs]
    longest = max(timeline.makespan for timeline in alone)
    parts = [
        Part(program, -(-iterations * longest // max(1, timeline.makespan)), units.ns_of(job.start))
        for job, program, timeline in zip(every, programs, alone, strict=True)
    ]
    merged = merge(parts, share_devices=share_devices)
    timeline = by_name.run(merged.program, engine)
    ends = [_ends(merged, timeline, number, part.iterations) for number, part in enumerate(parts)]
    starts = [part.start for part in parts]
    names = _names(every)
    results = tuple(
        JobResult(names[n], made[n], alone[n], job.start, ends[n], _counted(n, starts, ends), job.simulation.framework)
        for n, job in enumerate(every)
    )
    return JobsResult(whole, results, timeline, merged)


def _names(jobs: Sequence[Job]) -> list[str]:
    """The names of the jobs; those without one have their number, and so have equal ones."""
    given = [job.name for job in jobs]
    return [name if name and given.count(name) == 1 else f"{name or 'job'} {n}" for n, name in enumerate(given, 1)]


def _devices_of(jobs: Sequence[Job], cluster: Cluster, *, share_devices: bool) -> list[list[str]]:
    """The devices of each job."""
    every = [device.name for device in cluster.devices]
    chosen = [_matching(job, every, number) if job.devices else [] for number, job in enumerate(jobs)]
    taken = {name for names in chosen for name in names}
    left = every if share_devices else [name for name in every if name not in taken]
    without = [number for number, job in enumerate(jobs) if not job.devices]
    if len(without) > 1 and not share_devices:
        raise InputError(
            f"devices: missing for jobs {', '.join(str(n + 1) for n in without)} of {len(jobs)}; name those of all but "
            "one job, as names or patterns ('node0.*')"
        )
    if without and not left:
        raise InputError(f"devices: none are left for job {without[0] + 1}; the others name all {len(every)}")
    return [names or left for names in chosen]


def _matching(job: Job, every: Sequence[str], number: int) -> list[str]:
    found = set[str]()
    for pattern in job.devices:
        names = fnmatch.filter(every, pattern)
        if not names:
            raise InputError(
                f"devices: {shown(pattern)} of job {number + 1} is no device of the cluster; names such as "
                f"{', '.join(every[:3])}, or patterns, were expected"
            )
        found.update(names)
    return [name for name in every if name in found]


def _setup(job: Job, cluster: Cluster, names: Sequence[str]) -> Setup:
    """The job planned on its devices; it sends over the links of the whole cluster."""
    known = set(names)
    part = replace(cluster, devices=tuple(device for device in cluster.devices if device.name in known))
    return replace(setups.setup_of(replace(job.simulation, cluster=part)), cluster=cluster)


def _ends(merged: Merged, timeline: Timeline, job: int, iterations: int) -> Ints:
    ends = np.zeros(iterations, np.int64)
    mine = merged.job == job
    np.maximum.at(ends, merged.iteration[mine], timeline.end[mine])
    return ends


def _counted(job: int, starts: Sequence[int], ends: Sequence[Ints]) -> tuple[int, ...]:
    """The iterations of a job during which all jobs run, without its first where there are others."""
    begin, stop = max(starts), min(int(mine[-1]) for mine in ends)
    begins = np.concatenate([[starts[job]], ends[job][:-1]])
    found = np.flatnonzero((begins >= begin) & (ends[job] <= stop)).tolist()
    if not found:
        raise InputError(
            f"no iteration of job {job + 1} runs while all jobs do; more iterations, or closer starts, were expected"
        )
    return tuple(found[1:] or found)


def of_options(simulation: Simulation, options: JobOptions) -> tuple[list[Job], Mapping[str, Any]]:
    """The jobs of a command line, and what else `simulate_jobs` takes."""
    first = Job(replace(simulation, cluster=None), options.devices, name="first")
    more = {"iterations": options.job_iterations, "share_devices": options.share_devices, "engine": simulation.engine}
    return [first, *map(load_job, options.beside)], more
