"""What an iteration consists of, by cause, as text."""

from collections.abc import Mapping
from typing import Any

from pipesim.display.text.formatting import percent, seconds, table

_NAMES = {
    "ideal_compute": "computation, evenly spread",
    "imbalance": "imbalance of stages",
    "fill_and_drain": "filling and draining the pipeline",
    "p2p": "exposed: between stages",
    "gradients": "exposed: sums of gradients",
    "parameters": "exposed: gathers of parameters",
    "posting": "messages wait for peers",
    "contention": "messages share links",
    "slow_devices": "devices slower for a time",
    "replicas": "waiting for other replicas",
    "optimizer": "optimizer steps",
    "launch_gaps": "launch gaps",
}


def ledger(data: Mapping[str, Any], bound: float | None = None, most: int = 5) -> str:
    """The lines, their sum, and what straggles most; `data` is that of `Ledger.as_data`, `bound` the certified one."""
    lines = [[cause_name(x["cause"]), _signed(x["seconds"]), percent(x["share"]), seconds(x["step_without_s"])]
             for x in reversed(data["lines"])]  # fmt: skip
    lines[0][-1] = ""
    lines.append(["iteration", seconds(data["step_s"]), percent(1.0), ""])
    floor = "" if bound is None else f"; no plan of this kind takes less than {seconds(bound)}"
    rest = f"without all of these: {seconds(data['without_all_s'])}{floor}"
    found = table(["what the iteration consists of", "time", "share", "without it"], lines)
    return "\n\n".join([f"{found}\n{rest}", *_stragglers(data, most)])


def cause_name(cause: str) -> str:
    """A line of a ledger in words."""
    return _NAMES.get(cause, f"stragglers: {cause}s")


def _signed(value: float) -> str:
    return seconds(value) if value >= 0 else f"-{seconds(-value)}"


def _stragglers(data: Mapping[str, Any], most: int) -> list[str]:
    step = data["step_s"]
    helping = [one for one in data["stragglers"] if one["step_without_s"] < step]
    rows = [
        [f"{one['what']} {one['number']}", seconds(one["step_without_s"]), percent(1 - one["step_without_s"] / step)]
        for one in helping[:most]
    ]
    more = f"\n... and {len(helping) - most} more" if len(helping) > most else ""
    return [table(["at its mean times", "iteration", "saved"], rows) + more] if rows else []
