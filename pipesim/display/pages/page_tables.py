"""Results as tables and facts of a page."""

from collections.abc import Mapping, Sequence
from typing import Any

from pipesim.display.pages.page_file import PageTable
from pipesim.display.text.columns import cells
from pipesim.display.text.formatting import percent, seconds, size
from pipesim.display.text.jobs_text import job_rows
from pipesim.display.text.ledger_text import cause_name
from pipesim.display.text.schedule_text import changed_ranks

Facts = list[tuple[str, str]]
_MOST = 64  # rows of devices and links


def facts(data: Mapping[str, Any]) -> Facts:
    """The iteration in a line; `data` is that of `SimulationResult.as_data`, or a summary of a timeline."""
    found = [("iteration", seconds(data["iteration_time_s"]))]
    if data.get("tokens_per_s_per_gpu") is not None:
        found.append(("tokens/s/GPU", f"{data['tokens_per_s_per_gpu']:,.0f}"))
    elif data["throughput_samples_per_s"]:
        found.append(("samples/s", f"{data['throughput_samples_per_s']:,.1f}"))
    if data.get("mfu") is not None:
        found.append(("MFU", percent(data["mfu"])))
    found.append(("bubble", percent(data["bubble"]["idle_share"])))
    if "fits_memory" in data:
        found.append(("memory", {True: "fits", False: "does not fit", None: "unknown"}[data["fits_memory"]]))
    if "bound_s" in data:
        found.append(("no plan of this kind takes less than", seconds(data["bound_s"])))
    return [*found, ("tasks", f"{data['tasks']:,}"), ("sharing of links", str(data["sharing"]))]


def timeline_tables(data: Mapping[str, Any]) -> list[PageTable]:
    """The critical path, devices and links of a summary."""
    total = data["iteration_time_s"] or 1.0
    path = data["critical_path"]
    spent = [[name.replace("_", " "), seconds(s), percent(s / total)] for name, s in path["spent_s"].items() if s]
    held = [[row["where"], row["cause"].replace("_", " "), seconds(row["seconds"]), percent(row["seconds"] / total)]
            for row in path["held_by"][:_MOST]]  # fmt: skip
    return [
        PageTable("Critical path", ["cause", "time", "share"], spent, _PATH),
        PageTable("What held the critical path", ["device or link", "cause", "time", "share"], held, left=2),
        _devices(data),
        *_links(data["links"]),
    ]


_PATH = (
    "From the end back to the start through what held each task: its inputs, the task before it on the device, or on a "
    "link that carries one transfer at a time. Each nanosecond has one cause."
)


def _devices(data: Mapping[str, Any]) -> PageTable:
    rows = [
        [
            name,
            percent(d["busy_share"]),
            seconds(d["exposed_communication_s"]),
            seconds(d["exposed_all_reduce_s"]),
            size(d["peak_memory_bytes"]),
            size(d["memory_headroom_bytes"]),
        ]
        for name, d in list(data["devices"].items())[:_MOST]
    ]
    headers = ["device", "busy", "exposed comm.", "exposed all-reduce", "peak memory", "headroom"]
    return PageTable("Devices", headers, rows, _left_out(len(data["devices"])))


def _links(links: Mapping[str, Mapping[str, float]]) -> list[PageTable]:
    busiest = sorted(links.items(), key=lambda item: (-item[1]["busy_share"], item[0]))
    rows = [[name, size(x["bytes"]), percent(x["busy_share"]), percent(x["load_share"])] for name, x in busiest[:_MOST]]
    headers = ["link", "carried", "busy", "of capacity"]
    return [PageTable("Links, busiest first", headers, rows, _left_out(len(links)))] if rows else []


def _left_out(count: int) -> str:
    return f"The first {_MOST} of {count:,}." if count > _MOST else ""


def ledger_table(data: Mapping[str, Any]) -> PageTable:
    """The ledger; `data` is that of `Ledger.as_data`."""
    rows = [
        [cause_name(x["cause"]), seconds(x["seconds"]), percent(x["share"]), seconds(x["step_without_s"])]
        for x in reversed(data["lines"])
    ]
    rows.append(["iteration", seconds(data["step_s"]), percent(1.0), ""])
    return PageTable("What the iteration consists of", ["cause", "time", "share", "without it"], rows)


def comparison_table(rows: Sequence[Mapping[str, Any]]) -> PageTable:
    """Planners and schedulers, the fastest of those that fit first; `rows` are those of `ComparisonRow.as_data`."""
    done = [row for row in rows if "error" not in row]
    found = [
        [
            row["planner"], row["scheduler"], seconds(row["iteration_time_s"]), percent(row["bubble"]["idle_share"]),
            size(row["peak_memory_bytes"]), {True: "fits", False: "does not fit", None: "unknown"}[row["fits_memory"]],
        ]
        for row in sorted(done, key=lambda row: (row["fits_memory"] is False, row["iteration_time_s"]))
    ]  # fmt: skip
    headers = ["planner", "scheduler", "iteration", "bubble", "peak memory", "memory"]
    return PageTable("Planners and schedulers, fastest first", headers, found, _failures(rows), left=2)


def _failures(rows: Sequence[Mapping[str, Any]]) -> str:
    """Why some made no plan or schedule, each reason once."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        if "error" in row:
            reasons.setdefault((row["planner"], row["error"]), []).append(row["scheduler"])
    return "\n".join(f"{planner} with {', '.join(names)}: {why}" for (planner, why), names in reasons.items())


def jobs_table(data: Mapping[str, Any]) -> PageTable:
    """What jobs on one cluster take alone and beside the others; `data` is that of their simulation."""
    columns, records = job_rows(data)
    return PageTable("Jobs", [one.header for one in columns], cells(columns, records), left=2)


def differing_table(data: Mapping[str, Any]) -> PageTable:
    """The ranks whose order differs from another schedule's; `data` is that of `pipesim schedule --json`."""
    columns, records = changed_ranks(data)
    rows = cells(columns, records)
    note = "" if rows else "The orders are the same."
    return PageTable(f"Against {data['against']['scheduler']}", [one.header for one in columns], rows, note)


def tuning_table(rows: Sequence[Mapping[str, Any]]) -> PageTable:
    """Layouts that were simulated, the best first; `rows` are those of `pipesim tune --json`."""
    sizes = ("tensor", "pipeline", "data", "interleave", "microbatch_size", "scheduler", "recompute")
    found = [
        [
            str(rank),
            *(str(row[name]) for name in sizes),
            seconds(row["iteration_time_s"]),
            size(row["peak_memory_bytes"]),
            str(row["command"]),
        ]
        for rank, row in enumerate(rows[:_MOST], 1)
    ]
    headers = [
        "rank",
        "TP",
        "PP",
        "DP",
        "chunks",
        "microbatch",
        "schedule",
        "recompute",
        "iteration",
        "memory",
        "command",
    ]
    return PageTable("Layouts, best first", headers, found, _left_out(len(rows)))


def gains_table(data: Mapping[str, Any], most: int = _MOST) -> PageTable:
    """What would help most; `data` is that of `pipesim whatif --json`."""
    single = [one for one in data["gains"] if not one.get("group")]  # of equal layers all together
    rows = [[one["what"], one["name"], seconds(one["iteration_time_s"]), percent(one["gain"])]
            for one in single[:most]]  # fmt: skip
    note = f"Each {100 * data['by']:g} % faster." if "by" in data else ""
    return PageTable("What would help most", ["what", "name", "iteration", "saved"], rows, note, left=2)
