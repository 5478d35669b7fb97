"""Words: what a person reads in the terminal."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from pipesim.base import units
from pipesim.core import widths
from pipesim.core.cluster import Cluster
from pipesim.core.plan import Plan
from pipesim.core.program import LETTERS, Program
from pipesim.core.timeline import Timeline

_SCALES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"))


def seconds(value: float | None) -> str:
    """Four digits and a unit: 385.0 ms."""
    if value is None:
        return "-"
    scale, unit = next(((scale, unit) for scale, unit in _TIMES if value >= scale), (1e-9, "ns"))
    return f"{_digits(value / scale)} {unit}" if value else "0 s"


def size(value: float | None) -> str:
    """Bytes in powers of 1024: 14.65 GiB."""
    if value is None:
        return "-"
    sign, value = ("-" if value < 0 else ""), abs(value)
    for power, unit in ((4, "TiB"), (3, "GiB"), (2, "MiB"), (1, "KiB")):
        if value >= 1024**power:
            return f"{sign}{_digits(value / 1024**power)} {unit}"
    return f"{sign}{value:.0f} B"


def rate(value: float, unit: str = "B/s") -> str:
    """A rate in powers of 1000: 12.50 GB/s."""
    if not np.isfinite(value):
        return "-"
    scale, prefix = next(((scale, prefix) for scale, prefix in _SCALES if value >= scale), (1.0, ""))
    return f"{_digits(value / scale)} {prefix}{unit}"


def percent(value: float | None) -> str:
    """A share as 12.3 %."""
    return "-" if value is None else f"{100 * value:.1f} %"


def _digits(value: float) -> str:
    """Four significant digits, no exponent."""
    return f"{value:.{max(0, 3 - int(np.floor(np.log10(value)))) if value >= 1 else 3}f}"


def table(headers: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> str:
    """Columns under their headers, the first `left` of them flush left, the others flush right."""
    lines = [list(headers), *(list(row) for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(headers))]
    lines.insert(1, ["─" * width for width in widths])
    return "\n".join(
        "  ".join(
            cell.ljust(w) if i < left else cell.rjust(w) for i, (cell, w) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def facts(pairs: Iterable[tuple[str, str]]) -> str:
    """Names and values, one pair a line."""
    shown = list(pairs)
    width = max(len(name) for name, _ in shown)
    return "\n".join(f"{name.ljust(width)}  {value}" for name, value in shown)


def plan(
    plan: Plan,
    bound_s: float | None = None,
    planning_s: float | None = None,
    seconds_by_scaling: Mapping[str, float] | None = None,
) -> str:
    """A plan, stage by stage."""
    rows = [
        [str(n), f"{s.start} to {s.stop - 1}", str(s.stop - s.start), _some(s.devices)]
        for n, s in enumerate(plan.stages)
    ]
    head = [
        ("model", f"{plan.model} ({plan.layers} layers)"),
        ("planner", plan.planner or "-"),
        ("microbatches", str(plan.microbatches)),
    ]
    if plan.objective_s is not None:
        head.append(("objective", seconds(plan.objective_s)))
    if bound_s is not None:
        head.append(("bound", f"{seconds(bound_s)} (no plan of this sort is faster)"))
    if planning_s is not None:
        head.append(("planned in", seconds(planning_s)))
    if seconds_by_scaling is not None:
        both = (f"{seconds(value)} ({_ASSUMED[scaling]})" for scaling, value in seconds_by_scaling.items())
        head.append(("simulated", ", ".join(both)))
    return f"{facts(head)}\n\n{table(['stage', 'layers', 'count', 'devices'], rows, left=1)}"


# What each scaling takes for the time of a share of a microbatch.
_ASSUMED = {
    "recorded": "shares as recorded of smaller microbatches",
    "linear": "shares take their share, which SPP assumes",
}


def _some(names: Sequence[str], most: int = 4) -> str:
    """A few names, and how many there are."""
    return ", ".join(names) if len(names) <= most else f"{names[0]} ... {names[-1]} ({len(names)})"


# The critical path follows what each task needed last; a busy device shows as waiting, not as work of others.
_SPENT = {
    "waiting_for_lane": "waiting for a lane, behind others",
    "waiting_for_link": "waiting for a link, behind others",
}


def simulation(data: Mapping[str, Any], most: int = 16) -> str:
    """What `documents.simulation_data` says: the iteration, its devices, its busiest links."""
    how = f"sharing {data['sharing']}, {data['transfers']} transfers, {data['engine']} engine"
    head = [
        ("iteration time", seconds(data["iteration_time_s"])),
        ("throughput", f"{data['throughput_samples_per_s']:.1f} samples/s"),
        ("FLOP/s utilisation", percent(data["flops_utilisation"])),
        ("bubble", _bubbles(data["bubble"])),
        (
            "bounds",
            f"{seconds(data['bound_s'])} for plans of this sort, {seconds(data['schedule_bound_s'])} for this one",
        ),
        ("without contention", f"{seconds(data['channel_time_s'])} (abstract channels)"),
        *_by_scaling(data),
        *_assumed_split(data),
        ("memory", "fits" if data["fits_memory"] else "DOES NOT FIT (see headroom)"),
        ("simulated", f"{data['tasks']:,} tasks, {how}"),
    ]
    total = data["iteration_time_s"] or 1.0
    spent = [(_SPENT.get(name, name.replace("_", " ")), s) for name, s in data["critical_path_s"].items() if s]
    path = table(
        ["critical path (of the data)", "seconds", "share"], [[n, seconds(s), percent(s / total)] for n, s in spent]
    )
    return "\n\n".join([facts(head), path, _devices(data["devices"], most), *_links(data["links"])])


def _assumed_split(data: Mapping[str, Any]) -> list[tuple[str, str]]:
    share = data["weight_share"]
    if share is None:
        return []
    return [("split backwards", f"assumed: {percent(share)} of each is the weights' gradient (--weight-share)")]


# Under which assumption the time is not the one that was asked for.
_OTHERWISE = {"recorded": ("linear", "if linear"), "linear": ("recorded", "as recorded")}


def _by_scaling(data: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The iteration time under the other scaling, where it makes a difference."""
    by_scaling, (other, label) = data.get("iteration_time_by_scaling_s"), _OTHERWISE[data.get("scaling", "recorded")]
    if not by_scaling or by_scaling[other] == data["iteration_time_s"]:
        return []
    return [(label, f"{seconds(by_scaling[other])} ({_ASSUMED[other]})")]


def _devices(devices: Mapping[str, Mapping[str, Any]], most: int) -> str:
    rows = [
        [
            name,
            percent(d["busy_share"]),
            seconds(d["exposed_communication_s"]),
            seconds(d["exposed_all_reduce_s"]),
            str(d["peak_in_flight"]),
            size(d["peak_memory_bytes"]),
            size(d["memory_headroom_bytes"]),
        ]
        for name, d in list(devices.items())[:most]
    ]
    text = table(
        ["device", "busy", "exposed comm.", "exposed all-reduce", "in flight", "peak memory", "headroom"], rows
    )
    return text + (f"\n... and {len(devices) - most} more devices" if len(devices) > most else "")


def _links(links: Mapping[str, Mapping[str, float]], most: int = 5) -> list[str]:
    busiest = sorted(links.items(), key=lambda item: (-item[1]["busy_share"], item[0]))[:most]
    rows = [[name, size(x["bytes"]), percent(x["busy_share"]), percent(x["load_share"])] for name, x in busiest]
    return [table(["busiest links", "carried", "busy", "of capacity"], rows)] if rows else []


def comparison(rows: Sequence[Mapping[str, Any]], best: int | None) -> str:
    """One line per planner and scheduler; the best of each planner is starred, of all twice; failures say why.

    `best` is the index of the best of all.
    """
    lines, otherwise = [], _otherwise(rows)
    for index, row in enumerate(rows):
        if "error" in row:
            lines.append([row["planner"], row["scheduler"], "failed", *[""] * (5 + len(otherwise))])
            continue
        time, bound = row["iteration_time_s"], row["bound_s"]
        lines.append(
            [
                row["planner"],
                row["scheduler"] + (" **" if index == best else " *" if row.get("starred") else ""),
                seconds(time),
                *(seconds((row["iteration_time_by_scaling_s"] or {}).get(name, time)) for name in otherwise),
                f"{row['throughput_samples_per_s']:.1f}",
                percent(row["bubble"]["idle_share"]),
                f"{100 * (time / bound - 1):+.1f} %" if bound else "-",
                size(row["peak_memory_bytes"]),
                "yes" if row["fits_memory"] else "NO",
            ]
        )
    more = ["samples/s", "idle", "gap to bound", "peak memory", "fits"]
    headers = ["planner", "scheduler", "iteration", *otherwise.values(), *more]
    legend = []
    if best is not None:
        fits = rows[best]["fits_memory"]
        fitting, none = "* fastest that fits in memory, of each planner; ** of all", "** fastest; none fits in memory"
        legend = [fitting if fits else none]
    return "\n".join([table(headers, lines, left=2), *legend, *_failures(rows)])


def _otherwise(rows: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The scaling that was not asked for and the header of its column, where it makes a difference in any row."""
    shown = [_OTHERWISE[row["scaling"]] for row in rows if "error" not in row and _by_scaling(row)]
    return dict(shown[:1])


def _failures(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Why rows failed; what failed for a planner alike with several schedulers is said once."""
    alike: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        if "error" in row:
            alike.setdefault((row["planner"], row["error"]), []).append(row["scheduler"])
    return [f"{planner} + {', '.join(schedulers)}: {error}" for (planner, error), schedulers in alike.items()]


def replayed(data: Mapping[str, Any]) -> str:
    """What `rebuilding.comparison` says: recorded against replayed, per rank and phase."""
    error = "-" if data["error"] is None else f"{100 * data['error']:+.1f} %"
    head = [
        ("recorded", f"{data['source']}: {data['stages']} stages, {data['microbatches']} microbatches"),
        ("iteration", f"{seconds(data['recorded_s'])} recorded, {seconds(data['replayed_s'])} replayed ({error})"),
        ("links", f"{data['cluster']}, {data['engine']} engine"),
    ]
    moved = [row for row in data["ranks"] if row["clock_shift_s"]]
    if moved:
        shifts = (f"rank {row['rank']} {row['clock_shift_s'] * 1e3:+.3f} ms" for row in moved)
        head.append(("clocks set", ", ".join(shifts)))
    phases = list(data["ranks"][0]["recorded_s"])
    rows = [
        [f"rank {row['rank']}" if which == "recorded" else "", which, *(seconds(row[f"{which}_s"][p]) for p in phases)]
        for row in data["ranks"]
        for which in ("recorded", "replayed")
    ]
    return f"{facts(head)}\n\n{table(['', '', *phases], rows, left=2)}"


def statistics(data: Mapping[str, float]) -> str:
    """What `experiment.replay_statistics` says."""
    return facts(
        [
            ("iterations", f"{data['iterations']:.0f}"),
            ("mean", seconds(data["mean_s"])),
            ("95 % confidence", f"{seconds(data['ci95_low_s'])} to {seconds(data['ci95_high_s'])}"),
            ("p50, p95, p99", ", ".join(seconds(data[name]) for name in ("p50_s", "p95_s", "p99_s"))),
            ("least, most", f"{seconds(data['min_s'])}, {seconds(data['max_s'])}"),
        ]
    )


def cluster(cluster: Cluster, most: int = 16) -> str:
    """What a cluster has, and the bandwidth between its devices."""
    kinds = {
        kind: sum(d.kind == kind for d in cluster.devices) for kind in dict.fromkeys(d.kind for d in cluster.devices)
    }
    nodes = len({device.node for device in cluster.devices})
    matrix, between = widths.among_first(cluster, most), widths.least_and_most(cluster)
    head = [
        ("cluster", cluster.name),
        ("devices", ", ".join(f"{count} x {kind}" for kind, count in kinds.items())),
        (
            "memory",
            " or ".join(size(m) if m else "unknown" for m in dict.fromkeys(d.memory for d in cluster.devices))
            + " each",
        ),
        ("nodes", str(nodes)),
        ("other vertices", str(len(cluster.vertices) - len(cluster.devices))),
        ("links", f"{len(cluster.links)} ({len(cluster.media)} directions or media)"),
    ]
    if between is not None:
        head.append(("bandwidth", f"{_least(between[0])} to {rate(between[1])} between two devices"))
    names = [device.name for device in cluster.devices[:most]]
    rows = [
        [name, *("·" if i == j else f"{matrix[i, j] / 1e9:.4g}" for j in range(len(names)))]
        for i, name in enumerate(names)
    ]
    left = len(cluster.devices) - len(names)
    more = f"\n... {left} more devices; draw all of them with --plot FILE" if left else ""
    return f"{facts(head)}\n\n{table(['GB/s', *map(_short, names)], rows)}{more}"


def _least(bandwidth: float) -> str:
    return rate(bandwidth) if bandwidth else "no route"


def _short(name: str) -> str:
    """A name that fits above a column: node1.gpu3 -> 1.3."""
    digits = [part.lstrip("abcdefghijklmnopqrstuvwxyz_-") or part for part in name.split(".")]
    return ".".join(digits)


def _bubbles(bubble: Mapping[str, float]) -> str:
    idle, longest, over = (percent(bubble[name]) for name in ("idle_share", "longest_stage", "actual_over_ideal"))
    return f"{idle} idle (1 - ideal / longest stage: {longest}, actual / ideal - 1: {over})"


def gains(data: Mapping[str, Any], most: int = 15) -> str:
    """What `pipesim whatif` found, in words for the best, and as a table."""
    found, by = data["gains"], data["by"]
    rows = [
        [row["what"], row["name"], seconds(row["iteration_time_s"]), f"{100 * row['gain']:.2f} %"]
        for row in found[:most]
    ]
    head = f"iteration time {seconds(data['iteration_time_s'])}; each thing {100 * by:g} % faster"
    best = ""
    if found and found[0]["gain"] > 0:
        best = f"\n{_best(found[0], by)}"
    more = f"\n... and {len(found) - most} more" if len(found) > most else ""
    return f"{head}{best}\n\n{table(['what', 'name', 'iteration', 'saved'], rows, left=2)}{more}"


def _best(gain: Mapping[str, Any], by: float) -> str:
    """What would help most, in a sentence: of one thing, or of all links of a bandwidth."""
    of_many, saved = gain["name"].startswith("all of "), f"{percent(gain['gain'])} of the iteration"
    faster = f"{100 * by:g} % faster {gain['what']}"
    if gain["what"] == "link" and of_many:
        return f"{faster}s of {gain['name'].removeprefix('all of ')} save {saved}"
    return f"a {faster} {gain['name']} saves {saved}"


def exploration(data: Mapping[str, Any]) -> str:
    """What `workbench.exploration` says, but for the table."""
    flying = list(data["peak_in_flight"].values())
    return facts(
        [
            ("makespan", seconds(data["makespan"])),
            ("longest stage", seconds(data["longest_stage"])),
            ("bubble", _bubbles(data["bubble"])),
            ("in flight at most", f"{' '.join(map(str, flying))} (microbatches on each device, chunks counted apart)"),
        ]
    )


def rows(table: Sequence[str], columns: int = 110) -> str:
    """A schedule's text form, a line per rank, as far as it goes."""
    shown = [f"{rank}: {row.replace(',', ' ')}" for rank, row in enumerate(table)]
    return "\n".join(row if len(row) <= columns else f"{row[: columns - 4]} ..." for row in shown)


def gallery(data: Sequence[Mapping[str, Any]]) -> str:
    """One line per scheduler; those without a schedule say why."""
    lines = [
        [
            row["scheduler"],
            seconds(row["makespan"]),
            seconds(row["longest_stage"]),
            *(percent(row["bubble"][name]) for name in ("idle_share", "longest_stage", "actual_over_ideal")),
            f"{row['peak_memory']:.2f}",
            str(row["transfers"]),
        ]
        for row in data
        if "error" not in row
    ]
    headers = [
        "scheduler",
        "makespan",
        "longest stage",
        "idle",
        "1 - ideal/longest",
        "actual/ideal - 1",
        "peak",
        "transfers",
    ]
    failed = [f"{row['scheduler']}: {row['error']}" for row in data if "error" in row]
    legend = ["peak: activations of so many microbatches on the fullest device"] if lines else []
    return "\n".join([*([table(headers, lines)] if lines else []), *legend, *failed])


def gantt(timeline: Timeline, slot_ns: int | None = None, columns: int = 110, *, exactly: bool = False) -> str:
    """A Gantt chart in text: what each device does in the middle of each slot of time, as letter and microbatch.

    `exactly` takes slots of the greatest common divisor of all durations, if so many fit.

    gpu0  F0 F1 .  .  .  B0 B0 B1 B1
    gpu1  .  F0 B0 B0 F1 B1 B1 .  .
    """
    program, names = timeline.program, timeline.program.devices
    width = max(len(_cell(program, task)) for task in program.order.values.tolist()) + 1
    left = max(map(len, names)) + 2
    slots = max((columns - left) // width, 1)
    slot = slot_ns or max(-(-timeline.makespan // slots), 1)
    unit = int(np.gcd.reduce(timeline.end[program.is_compute])) if exactly else 0
    if unit and timeline.makespan // unit <= 2 * slots:
        slot = unit
    middles = np.arange(slot // 2, timeline.makespan, slot)
    lines = []
    for name, lane in zip(names, program.order, strict=True):
        at = np.searchsorted(timeline.start[lane], middles, side="right") - 1
        busy = (at >= 0) & (middles < timeline.end[lane[at]]) if len(lane) else np.zeros(len(middles), bool)
        cells = [
            _cell(program, int(lane[i])) if working else "."
            for i, working in zip(at.tolist(), busy.tolist(), strict=True)
        ]
        lines.append(name.ljust(left) + "".join(cell.ljust(width) for cell in cells).rstrip())
    return "\n".join([*lines, f"one column: {seconds(units.to_s(slot))}"])


def _cell(program: Program, task: int) -> str:
    microbatch = int(program.microbatch[task])
    return f"{LETTERS[int(program.kind[task])]}{microbatch if microbatch >= 0 else ''}"
