"""Recorded runs, alone and beside their simulations, as text."""

from collections.abc import Mapping
from typing import Any

from pipesim.display.text.columns import TextColumn, TextTable, cells
from pipesim.display.text.formatting import FEW, facts, seconds, table
from pipesim.display.text.terminal import PLAIN, Terminal

_MOST_STEPS = 12


def recorded_run(data: Mapping[str, Any], on: Terminal = PLAIN) -> str:
    """What a recorded run is; `data` is that of `run_summary.summary`."""
    return facts(_facts(data), on)


def replayed_run(data: Mapping[str, Any], on: Terminal = PLAIN) -> str:
    """How near a run is to its own-operation replay, then both; `data` is that of `run_replay.comparison`."""
    step = data["step_s"]
    answer = [
        ("steps", f"{seconds(step['mean'])} (mean of {data['step_count']}) on {data['ranks']} ranks"),
        ("replay", _errors(data["errors"]["error"]) + ", with launch gaps"),
        ("", _errors(data["errors"]["error_without_gaps"]) + ", without"),
    ]
    found = [*_facts(data), ("schedule", data["schedule"].replace("_", " "))]
    columns, steps = replayed_steps(data)
    rows = cells(columns, steps[:_MOST_STEPS])
    if len(steps) > len(rows):
        rows.append([f"… {len(steps) - len(rows)} more", "", "", "", "", ""])
    phases = list(data["per_rank"][0]["recorded_s"])
    shown = data["per_rank"][:FEW]
    ranks = [
        [f"rank {row['rank']}" if which == "recorded" else "", which, *(seconds(row[f"{which}_s"][p]) for p in phases)]
        for row in shown
        for which in ("recorded", "simulated")
    ]
    if len(data["per_rank"]) > len(shown):
        ranks.append([f"… {len(data['per_rank']) - len(shown)} more", "", *("" for _ in phases)])
    means = table(["mean of steps", "", *phases], ranks, left=2, on=on)
    replays = table([one.header for one in columns], rows, on=on)
    return "\n\n".join([facts(answer, on), facts(found, on), replays, means])


def replayed_steps(data: Mapping[str, Any]) -> TextTable:
    """Every step beside its simulations, as a table."""
    columns = (
        TextColumn("step", "step", on_left=True),
        TextColumn("recorded", "recorded_s", seconds),
        TextColumn("simulated", "simulated_s", seconds),
        TextColumn("error", "error", _signed),
        TextColumn("without gaps", "without_gaps_s", seconds),
        TextColumn("error", "error_without_gaps", _signed),
    )
    return TextTable(columns, data["steps"])


def _facts(data: Mapping[str, Any]) -> list[tuple[str, str]]:
    layout = ", ".join(
        f"{name.upper()} {data[name]}" for name in ("pp", "dp", "tp", "vpp") if name == "pp" or data[name] > 1
    )
    step = data["step_s"]
    spread = f"{seconds(step['least'])} to {seconds(step['most'])}, p95 {seconds(step['p95'])}"
    found = [
        ("recorded run", f"{data['source']}: {data['operations']:,} operations of {data['ranks']} ranks"),
        ("layout", f"{layout}, {data['microbatches']} microbatches per replica"),
        ("steps", f"{data['step_count']}, {data['first_step']} to {data['last_step']}{_sample(data)}"),
        ("step time", f"{seconds(step['mean'])} (mean), {seconds(step['median'])} (median), {spread}"),
        ("operations", ", ".join(f"{count:,} {_spoken(kind)}" for kind, count in data["kinds"].items())),
        ("missing", _missing(data["missing"])),
        ("clocks", _clock(data["clock"])),
    ]
    for stage in data["stages"][:FEW]:
        times = [f"{name.removesuffix('_s')} {seconds(value)}" for name, value in stage.items() if name != "stage"]
        found.append((f"stage {stage['stage']}", f"{', '.join(times) or 'no computations'} (medians of a microbatch)"))
    slow = [f"{row['rank']} ({row['times_the_median']:.3f})" for row in data["slowest_ranks"]]
    if slow:
        found.append(("slowest", f"ranks {', '.join(slow)}: computed, times the median of their place"))
    return found + [("note", note) for note in data["notes"]]


def _sample(data: Mapping[str, Any]) -> str:
    return "" if data["consecutive"] else ", not all of them"


def _missing(data: Mapping[str, Any]) -> str:
    """What a whole run would have."""
    found = [
        f"{data[name]:,} {name.replace('_', ' ')}"
        for name in ("ranks", "forwards", "backwards", "weight_gradients", "unmatched_messages")
        if data[name] > 0
    ]
    if data["incomplete_steps"]:
        found.append(f"in {len(data['incomplete_steps'])} steps")
    if not data["has_messages"]:
        found.append("sends and receives")
    if not data["has_optimizer"]:
        found.append("the optimizer")
    if data["without_bytes"]:
        found.append(f"bytes of {data['without_bytes']:,} communications")
    return ", ".join(found) or "nothing"


def _clock(data: Mapping[str, Any]) -> str:
    """How well clocks agree."""
    text = {
        "shared": "one for all ranks",
        "aligned": f"of each rank set by what waits for what, to {seconds(data['doubt_s'])}",
        "separate": "of each rank its own: times of different ranks cannot be compared",
    }[data["kind"]]
    if data["drift"] is not None:
        text += f", drift at most {1e6 * data['drift']:.1f} us/s"
    if data["early"]:
        worst = seconds(data["worst_early_s"])
        text += f"; as recorded, {data['early']:,} inputs are read before they are there, by {worst} at most"
    return text


def _spoken(kind: str) -> str:
    return kind.replace("_", " ")


def _signed(error: float | None) -> str:
    return "-" if error is None else f"{100 * error:+.3f} %"


def _errors(found: Mapping[str, Any]) -> str:
    """Mean absolute, mean and worst error."""
    if found["mean_absolute"] is None:
        return "no step has a length"
    absolute = f"{100 * found['mean_absolute']:.3f} %"
    return f"mean absolute error {absolute}, mean {_signed(found['mean'])}, worst {_signed(found['worst'])}"
