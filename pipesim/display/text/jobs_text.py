"""Several jobs on one cluster, as text."""

from collections.abc import Mapping
from typing import Any

from pipesim.display.text.formatting import percent, seconds, size, table
from pipesim.display.text.validation_text import measured_interval


def jobs(data: Mapping[str, Any], most: int = 8) -> str:
    """What each job takes alone and beside the others, and what they send over the links that several of them use."""
    rows = [
        [
            job["name"],
            job["model"],
            str(len(job["devices"])),
            seconds(job["start_s"]),
            seconds(job["alone_s"]),
            seconds(job["iteration_time_s"]),
            percent(job["slowdown"] - 1),
            f"{len(job['counted'])} of {len(job['iterations_s'])}",
        ]
        for job in data["jobs"]
    ]
    heads = ["job", "model", "GPUs", "start", "alone", "with others", "slower by", "iterations counted"]
    intervals = [f"  {job['name']}: {measured_interval(job['measured_interval'])}" for job in data["jobs"]]
    parts = [table(heads, rows, left=2), "\n".join(["measured runs, with others", *intervals])]
    links = data["shared_links"]
    if links:
        names = [job["name"] for job in data["jobs"]]
        shown = [[row["link"], *map(size, row["bytes"])] for row in links[:most]]
        more = f"\n... and {len(links) - most} more" if len(links) > most else ""
        parts.append(f"bytes over links that several jobs use\n{table(['link', *names], shown)}{more}")
    else:
        parts.append("no link is used by more than one job")
    return "\n\n".join(parts)
