"""Several jobs on one cluster, as text."""

from collections.abc import Mapping
from typing import Any

from pipesim.display.text.columns import TextColumn, TextTable
from pipesim.display.text.formatting import percent, seconds, size, table
from pipesim.display.text.validation_text import measured_interval


def jobs(data: Mapping[str, Any], most: int = 8) -> str:
    """What each job takes alone and beside the others, and what they send over the links that several of them use."""
    intervals = [f"  {job['name']}: {measured_interval(job['measured_interval'])}" for job in data["jobs"]]
    parts = [job_rows(data).text(), "\n".join(["measured runs, with others", *intervals])]
    links = data["shared_links"]
    if links:
        names = [job["name"] for job in data["jobs"]]
        shown = [[row["link"], *map(size, row["bytes"])] for row in links[:most]]
        more = f"\n... and {len(links) - most} more" if len(links) > most else ""
        parts.append(f"bytes over links that several jobs use\n{table(['link', *names], shown)}{more}")
    else:
        parts.append("no link is used by more than one job")
    return "\n\n".join(parts)


def job_rows(data: Mapping[str, Any]) -> TextTable:
    """What each job takes alone and beside the others, as a table."""
    records = [
        {
            "job": job["name"], "model": job["model"], "gpus": len(job["devices"]), "start_s": job["start_s"],
            "alone_s": job["alone_s"], "iteration_time_s": job["iteration_time_s"], "slowdown": job["slowdown"],
            "counted": len(job["counted"]), "iterations": len(job["iterations_s"]),
            "counted_of": (len(job["counted"]), len(job["iterations_s"])),  # files have both numbers
        }
        for job in data["jobs"]
    ]  # fmt: skip
    return TextTable(_JOBS, records)


_JOBS = (
    TextColumn("job", "job", on_left=True),
    TextColumn("model", "model", on_left=True),
    TextColumn("GPUs", "gpus"),
    TextColumn("start", "start_s", seconds),
    TextColumn("alone", "alone_s", seconds),
    TextColumn("with others", "iteration_time_s", seconds),
    TextColumn("slower by", "slowdown", lambda slowdown: percent(slowdown - 1)),
    TextColumn("iterations counted", "counted_of", lambda pair: "{} of {}".format(*pair)),
)
