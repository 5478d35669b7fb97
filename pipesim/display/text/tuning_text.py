"""The result of a search for the best layout as text."""

from collections.abc import Mapping, Sequence
from typing import Any

from pipesim.display.text.formatting import no_layout_faster, percent, seconds, size, table

Row = Mapping[str, Any]
_SHORT = {"one_f_one_b": "1f1b"}


def tuning(found: Mapping[str, Any], command: str, most: int = 10) -> str:
    """The best layout, what became of all others, and a table of the best ones.

    `command` simulates the best one again.
    """
    rows, counts = found["rows"], found["counts"]
    best = rows[0]
    speed = [seconds(best["iteration_time_s"])]
    if best["tokens_per_s_per_gpu"] is not None:
        speed.append(f"{best['tokens_per_s_per_gpu']:,.0f} tokens/s/GPU")
    if best["mfu"] is not None:
        speed.append(f"MFU {percent(best['mfu'])}")
    lines = [
        f"best layout: {_layout(best)}: {', '.join(speed)}, {size(best['peak_memory_bytes'])} per GPU",
        f"{counts['all']:,} layouts: {_left_out(counts)}",
        _certificate(found),
        f"again: {command}" if command else "",
    ]
    money = found["objective"] == "cost"
    heads = ["", "tp", "pp", "dp", "vpp", "mbs", "sp", "recompute", "sharding", "schedule", "blocks", "iteration"]
    heads += [
        "tokens/s/GPU",
        "MFU",
        "idle",
        "exposed",
        "memory",
        "gap to bound",
        "any layout",
        *(["cost", "per million tokens"] if money else []),
    ]
    heads += ["goodput"] if "goodput" in best else []
    if found["objective"] == "p95":
        heads.insert(12, "p95")
    shown = table(heads, [_line(n, row, found) for n, row in enumerate(rows[:most], 1)], left=1)
    return "\n".join([*(line for line in lines if line), "", shown, *_reasons(found["refusals"])])


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


def _certificate(found: Mapping[str, Any]) -> str:
    own, best, lines = found["bound_s"], found["rows"][0], []
    if found["layout_bound_s"]:
        lines.append(f"any layout: {no_layout_faster(found['layout_bound_s'], best['iteration_time_s'])}")
    if own is not None:
        gap = percent(best["own_gap"])
        lines.append(
            f"lower bound: {seconds(own)} for the cuts and schedules that were searched; the best is {gap} above"
        )
    return "\n".join(lines)


def _line(number: int, row: Row, found: Mapping[str, Any]) -> list[str]:
    exposed = row["exposed_communication_s"] + row["exposed_all_reduce_s"]
    cells = [
        str(number),
        *(str(row[name] or "-") for name in ("tensor", "pipeline", "data", "interleave", "microbatch_size")),
        "yes" if row["sequence_parallel"] else "",
        row["recompute"] if row["recompute_blocks"] is None else f"full: {_blocks(row['recompute_blocks'])}",
        row["sharding"],
        _SHORT.get(row["scheduler"], row["scheduler"]),
        row["planner"] if row["planner"] != "megatron" else _blocks(row["blocks"], row["kinds"]),
        seconds(row["iteration_time_s"]),
        "-" if row["tokens_per_s_per_gpu"] is None else f"{row['tokens_per_s_per_gpu']:,.0f}",
        percent(row["mfu"]),
        percent(row["bubble_idle_share"]),
        seconds(exposed),
        size(row["peak_memory_bytes"]),
        *("-" if row[name] is None else f"{100 * row[name]:+.1f} %" for name in ("own_gap", "gap")),
    ]
    if found["objective"] == "p95":
        cells.insert(12, seconds(row["replay_p95_s"]))
    if found["objective"] != "cost":
        return [*cells, *([percent(row["goodput"])] if "goodput" in row else [])]
    per_million = row["cost_per_million_tokens"]
    cells += [f"{row['value']:.4g}", "-" if per_million is None else f"{per_million:.4g}"]
    return [*cells, *([percent(row["goodput"])] if "goodput" in row else [])]


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
