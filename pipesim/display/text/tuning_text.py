"""The result of a search for the best layout as text."""

from collections.abc import Mapping, Sequence
from typing import Any

from pipesim.display.text.columns import TextColumn, shown
from pipesim.display.text.formatting import no_layout_faster, percent, seconds, size, wrapped
from pipesim.display.text.terminal import PLAIN, Terminal

Row = Mapping[str, Any]
_SHORT = {"one_f_one_b": "1f1b"}
_SIZES = {"tp": "tensor", "pp": "pipeline", "dp": "data", "vpp": "interleave", "mbs": "microbatch_size"}
_INDENT = 4  # of what goes on in the next line


def tuning(
    found: Mapping[str, Any],
    command: str,
    most: int = 10,
    on: Terminal = PLAIN,
    rows: Sequence[Row] | None = None,
) -> str:
    """The best layout, what became of all others, and a table of the best ones.

    `command` simulates the best one again; `rows` are those of `tuning_rows` that are shown, where it is not all.
    """
    counts, best = found["counts"], found["rows"][0]
    interval = f"{seconds(best['measured_low_s'])} to {seconds(best['measured_high_s'])}"
    speed = [f"{on.bold(seconds(best['iteration_time_s']))} ({interval} by measured runs of its kind)"]
    if best["tokens_per_s_per_gpu"] is not None:
        speed.append(f"{best['tokens_per_s_per_gpu']:,.0f} tokens/s/GPU")
    if best["mfu"] is not None:
        speed.append(f"MFU {percent(best['mfu'])}")
    lines = [
        f"best layout: {_layout(best)}: {', '.join(speed)}, {size(best['peak_memory_bytes'])} per GPU",
        f"{counts['all']:,} layouts: {_left_out(counts)}",
        *_certificate(found),
        f"again: {command}" if command else "",
    ]
    records = (tuning_rows(found) if rows is None else rows)[:most]
    bold = [n for n, row in enumerate(records) if row["place"] == 1]
    answer = [wrapped(line, on, _INDENT) for line in lines if line]
    return "\n".join([*answer, "", shown(tuning_columns(found), records, on, bold), *_reasons(found["refusals"])])


def tuning_rows(found: Mapping[str, Any]) -> list[Row]:
    """The layouts with their places, and the time of communication that computation does not hide."""
    return [
        {
            "place": n,
            **row,
            "exposed_s": row["exposed_communication_s"] + row["exposed_all_reduce_s"],
            "recomputed": _recomputed(row),
            "cuts": row["planner"] if row["planner"] != "megatron" else _blocks(row["blocks"], row["kinds"]),
        }
        for n, row in enumerate(found["rows"], 1)
    ]


def tuning_columns(found: Mapping[str, Any]) -> list[TextColumn]:
    """The columns of layouts; those of the objective where it is another than the time."""
    columns = [
        TextColumn("", "place", on_left=True),
        *(TextColumn(header, key, lambda size: str(size or "-")) for header, key in _SIZES.items()),
        TextColumn("sp", "sequence_parallel", lambda given: "yes" if given else "", drop=6),
        TextColumn("recompute", "recomputed", drop=2),
        TextColumn("sharding", "sharding", drop=1),
        TextColumn("schedule", "scheduler", lambda name: _SHORT.get(name, name)),
        TextColumn("blocks", "cuts", drop=4),
        TextColumn("iteration", "iteration_time_s", seconds),
    ]
    if found["objective"] == "p95":
        columns.append(TextColumn("p95", "replay_p95_s", seconds))
    columns += [
        TextColumn("tokens/s/GPU", "tokens_per_s_per_gpu", _count, drop=8),
        TextColumn("MFU", "mfu", percent, drop=3),
        TextColumn("idle", "bubble_idle_share", percent, drop=7),
        TextColumn("exposed", "exposed_s", seconds, drop=9),
        TextColumn("memory", "peak_memory_bytes", size),
        TextColumn("gap to bound", "own_gap", _above, drop=5),
        TextColumn("any layout", "gap", _above, drop=10),
    ]
    if found["objective"] == "cost":
        columns.append(TextColumn("cost", "value", "{:.4g}".format))
        columns.append(TextColumn("per million tokens", "cost_per_million_tokens", _amount))
    if "goodput" in found["rows"][0]:
        columns.append(TextColumn("goodput", "goodput", percent))
    return columns


def _count(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"


def _amount(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def _recomputed(row: Row) -> str:
    """What is recomputed; `full` with the blocks of each stage where these differ."""
    blocks = row["recompute_blocks"]
    return str(row["recompute"]) if blocks is None else f"full: {_blocks(blocks)}"


def _above(part: float | None) -> str:
    return "-" if part is None else f"{100 * part:+.1f} %"


def _layout(row: Row) -> str:
    if not row["pipeline"]:
        return f"TP {row['tensor']}, stages of {row['planner']}, microbatches of {row['microbatch_size']}"
    sizes = [f"TP {row['tensor']}", f"PP {row['pipeline']}"]
    sizes += [f"VPP {row['interleave']}"] if row["interleave"] > 1 else []
    return ", ".join([*sizes, f"DP {row['data']}", f"microbatches of {row['microbatch_size']}"])


def _left_out(counts: Mapping[str, int]) -> str:
    parts = [
        (counts["memory"], "do not fit in memory"),
        (counts["bound"], "cannot be better than the best, by their bounds"),
        (counts["refused"], "refused"),
        (counts["simulated"], "simulated"),
        (counts["left"], "left for a greater --budget"),
    ]
    return "; ".join(f"{count:,} {what}" for count, what in parts if count)


def _certificate(found: Mapping[str, Any]) -> list[str]:
    own, best, lines = found["bound_s"], found["rows"][0], []
    if found["layout_bound_s"]:
        lines.append(f"any layout: {no_layout_faster(found['layout_bound_s'], best['iteration_time_s'])}")
    if own is not None:
        gap = percent(best["own_gap"])
        lines.append(
            f"lower bound: {seconds(own)} for the cuts and schedules that were searched; the best is {gap} above"
        )
    return lines


def _blocks(blocks: Sequence[int] | None, kinds: str = "") -> str:
    """Blocks of each stage, equal neighbours as 3x20; with the kinds of device that come first."""
    if kinds:
        return f"{_blocks(blocks)}, {kinds}"
    if blocks is None:
        return "even"
    runs: list[list[int]] = []
    for count in blocks:
        if runs and runs[-1][1] == count:
            runs[-1][0] += 1
        else:
            runs.append([1, count])
    return " ".join(f"{times}x{count}" if times > 1 else str(count) for times, count in runs)


def _reasons(refusals: Sequence[str]) -> list[str]:
    return [f"refused: {reason}" for reason in refusals[:3]]
