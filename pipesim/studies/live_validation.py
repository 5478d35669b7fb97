"""Live pipelines of two processes, measured, and simulated from what is recorded on the same machine.

    links    layers  every case    layers  every case    layers  every case    layers    time ──>
             recording             recording             recording             recording

A machine that is slower for a minute is so for a part of the recordings and of the runs of every case, and medians are
of all of them. Where a recording is more than 5 % from their middle, nothing is kept.
"""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

import numpy as np

from pipesim.base import files, serialisation
from pipesim.base.errors import RefusedError
from pipesim.base.tables import Table
from pipesim.core.cluster import Cluster
from pipesim.core.costs import costs_of
from pipesim.core.plan import Plan, Stage
from pipesim.core.trace import Trace
from pipesim.recorders import drift, launch, layer_recording
from pipesim.recorders.fitting import cluster_of
from pipesim.recorders.links import LinkSettings
from pipesim.recorders.live_pipelines import LiveCase, LiveIteration, measured, medians, run_live
from pipesim.recorders.measuring import Settings
from pipesim.recorders.subjects import load_factory
from pipesim.studies.simulation import Simulation
from pipesim.studies.validation import OwnReport, validate_table

FACTORY = "pipesim.recorders.live_pipelines:gpt"
MICROBATCH = 1
ATTEMPTS = 4  # to record links
ROUNDS, ITERATIONS = 3, 3  # of every case; iterations that warm up come before each round
TABLE = "runs.csv"
# PyTorch's schedules -> scheduler, and how its runtime sends over gloo.
_SCHEDULES = {
    "GPipe": ("gpipe", "rendezvous"),
    "1F1B": ("one_f_one_b", "rendezvous"),
    "Interleaved1F1B": ("interleaved(chunks=2)", "posted"),
    "InterleavedZeroBubble": ("interleaved_zb_1p(chunks=2)", "posted"),
    "ZBVZeroBubble": ("zb_v", "posted"),
}
_COLUMNS = ("id", "trace", "cluster", "plan", "scheduler", "transfers", "iteration_s")


@dataclass(frozen=True, slots=True, eq=False)
class LiveRuns:
    """What was recorded, and the seconds of every case that was measured."""

    trace: Trace
    cluster: Cluster
    seconds: Mapping[LiveCase, float]
    not_measured: tuple[str, ...]


def cases(layers: int) -> list[LiveCase]:
    """The configurations: cuts, numbers of microbatches, five schedules; at least 20 of a model of 8 layers or more."""
    half = layers // 2
    cuts = [cut for cut in range(half - 3, half + 4) if 0 < cut < layers]
    found = [LiveCase("1F1B", (cut,), 8) for cut in cuts]
    found += [LiveCase("1F1B", (half,), count) for count in (2, 4, 16)]
    found += [LiveCase("GPipe", (half,), count) for count in (2, 4, 8, 16)]
    found += [LiveCase("GPipe", (cut,), 8) for cut in (half - 2, half + 2) if 0 < cut < layers]
    quarters = tuple(layers * part // 4 for part in (1, 2, 3))
    if len({0, *quarters}) == 4:
        found += [
            LiveCase(schedule, quarters, count)
            for schedule in ("Interleaved1F1B", "InterleavedZeroBubble", "ZBVZeroBubble")
            for count in (4, 8)
        ]
    return found


def live_runs(factory: str, patience_s: float) -> LiveRuns:
    """Record the links, then by turns the model of a factory and a few iterations of every case."""
    recordings, iterations = [_recorded(factory, patience_s)], list[LiveIteration]()
    chosen = cases(recordings[0].layer_count)
    links = LinkSettings(samples=35, rounds=7, largest=largest_timed(recordings[0]), patience_s=patience_s)
    cluster = _cluster(links)
    for number in range(ROUNDS):
        found = run_live(chosen, factory, MICROBATCH, iterations=ITERATIONS, patience_s=patience_s)
        iterations += [replace(one, number=one.number + number * ITERATIONS) for one in found]
        recordings.append(_recorded(factory, patience_s))
        check_drift(recordings)
    seconds = medians(measured(iterations))
    kept = {case: seconds[case.name] for case in chosen if case.name in seconds}
    left_out = tuple(case.name for case in chosen if case.name not in seconds)
    if not kept:
        raise RefusedError(f"not measured: every one of {len(chosen)} configurations was disturbed by other processes")
    return LiveRuns(joined(recordings), cluster, kept, left_out)


def _cluster(settings: LinkSettings) -> Cluster:
    """The links between two processes: of several attempts the first whose times repeat."""
    for left in reversed(range(ATTEMPTS)):
        try:
            return cluster_of(launch.in_new_processes(2, settings, "gloo"))
        except RefusedError:
            if not left:
                raise
    raise AssertionError("the last attempt returns or raises")


def largest_timed(trace: Trace) -> int:
    """Up to which size links are timed: a few times what stages send, since larger messages are the least steady."""
    return max(2**20, 4 * int(costs_of(trace).model.cut_bytes[:-1].max()))


def _recorded(factory: str, patience_s: float) -> Trace:
    labels = layer_recording.TraceLabels(device_kind="cpu")
    settings = Settings(patience_s=patience_s)
    return layer_recording.record(load_factory(factory), [MICROBATCH], settings, device="cpu", labels=labels).trace


def check_drift(recordings: Sequence[Trace]) -> None:
    """Refuse to compare with a machine whose speed changed between recordings of the same layers."""
    taken = [drift.seconds_of(one) for one in recordings]
    middle = median(taken)
    if any(abs(seconds / middle - 1) > drift.MOST for seconds in taken):
        raise RefusedError(
            f"not measured: layers took {', '.join(f'{seconds:.4g}' for seconds in taken)} s in recordings one after "
            f"the other; within {drift.MOST:.0%} of {middle:.4g} s was expected of a machine that stays as it is"
        )


def joined(recordings: Sequence[Trace]) -> Trace:
    """One trace with the samples of all recordings of the same layers."""
    later, first = list[Table](), 0
    for one in recordings:
        later.append(one.layers | {"sample": one.layers["sample"] + first})
        first += int(one.layers["sample"].max()) + 1
    return replace(
        recordings[0], layers={name: np.concatenate([table[name] for table in later]) for name in recordings[0].layers}
    )


def plan_of(case: LiveCase, trace: Trace, cluster: Cluster) -> Plan:
    """The plan that a case ran."""
    bounds = [0, *case.cuts, trace.layer_count]
    stages = tuple(
        Stage(bounds[n], bounds[n + 1], (cluster.devices[rank].name,)) for n, rank in enumerate(case.ranks_of_stages)
    )
    return Plan(trace.model, trace.layer_count, case.microbatches, stages, planner="live")


def keep(found: LiveRuns, folder: Path) -> OwnReport:
    """Write everything that the comparison needs into a folder, and compare."""
    found.trace.save(folder / "trace")
    files.write_text(folder / "cluster.toml", serialisation.dumps(found.cluster, ".toml"))
    for case in found.seconds:
        (folder / "plans").mkdir(exist_ok=True)
        serialisation.save(plan_of(case, found.trace, found.cluster), folder / "plans" / f"{case.name}.json")
    text = table(found.seconds)
    files.write_text(folder / TABLE, text)
    return compared(folder)


def compared(folder: Path) -> OwnReport:
    """The live runs in a folder, each simulated."""
    return validate_table(str(folder / TABLE), files.read_text(folder / TABLE), Simulation(), "e")


def table(seconds: Mapping[LiveCase, float]) -> str:
    """The measured iterations as a table that `pipesim validate` reads."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(_COLUMNS)
    writer.writerows(_line(case, time) for case, time in seconds.items())
    return out.getvalue()


def _line(case: LiveCase, seconds: float) -> Sequence[str]:
    scheduler, transfers = _SCHEDULES[case.schedule]
    return (case.name, "trace", "cluster.toml", f"plans/{case.name}.json", scheduler, transfers, f"{seconds:.6g}")
